"""The HTTP requests of a channel or a node that were refused since the gateway started: counted, and named in the log.

Anybody who reaches the gateway can send such requests. They must not drown the log, and they leave no row.
"""

from __future__ import annotations

from collections import Counter

import structlog

from semel.gateway.clock import Clock
from semel.gateway.inbound.strangers import Strangers
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line

log = structlog.get_logger("semel.channels")

WHY_CHARS = 400  # characters of a reason that are shown
LOG_INTERVAL_MS = 60_000  # between two logged requests that were refused for the same reason


class RefusedRequests:
    """The refused requests of one sender. `sender`: the field of a line in the log that names it."""

    def __init__(self, clock: Clock, **sender: str) -> None:
        self.counts: Counter[str] = Counter()  # by reason
        self.last: Json | None = None
        self._clock = clock
        self._sender = sender
        self._logged_at: dict[str, int] = {}  # reason -> when a request that was refused for it was last logged

    def __repr__(self) -> str:
        return f"<RefusedRequests {self._sender} {dict(self.counts)}>"

    def note(self, reason: str, detail: str, **about: str) -> None:
        """Count a refused request, and log it unless one was logged for this reason within the last minute.

        `reason`: the problem's code, like "bad-signature". `detail`: a sentence for people. `about`: further fields of
        the line in the log.
        """
        self.counts[reason] += 1
        now, why = self._clock.now(), shorten_to_line(detail, WHY_CHARS)
        self.last = {"reason": reason, "why": why, "at": now}
        if now - self._logged_at.get(reason, -LOG_INTERVAL_MS) >= LOG_INTERVAL_MS:
            self._logged_at[reason] = now
            log.warning("request refused", **self._sender, reason=reason, why=why, **about)


class NodeRefusals:
    """The refused requests of all nodes. `strangers` counts them, too, for the metrics and `semel people strangers`."""

    def __init__(self, clock: Clock, strangers: Strangers) -> None:
        self._clock = clock
        self._strangers = strangers
        self._nodes: dict[str, RefusedRequests] = {}

    def __repr__(self) -> str:
        return f"<NodeRefusals {list(self._nodes.values())}>"

    def note(self, node: str | None, reason: str, detail: str, **about: str) -> None:
        """Count a refused request of a node. `node`: its name; None if its token is missing, or no node's.

        `RefusedRequests.note` describes the other arguments.
        """
        self._strangers.count("api" if node is None else f"node:{node}", reason)
        requests = self._nodes.setdefault(node or "", RefusedRequests(self._clock, node=node or "unknown"))
        requests.note(reason, detail, **about)

    def list(self) -> list[Json]:
        """Return {"node", "refused", "last_refused"} of each node with a refused request, by name.

        "node" is None for requests whose token is missing, or no node's.
        """
        return [
            {"node": name or None, "refused": dict(sorted(requests.counts.items())), "last_refused": requests.last}
            for name, requests in sorted(self._nodes.items())
        ]
