"""Keep Discord's rate limits: when the next request of a kind may leave.

Discord names the limits in the headers of each answer (https://docs.discord.com/developers/topics/rate-limits): how
many requests remain in the bucket of a route, and when it is full again. A bucket counts for each channel, server or
webhook alone (the first id in the path). After a 429 with `X-RateLimit-Scope: global`, nothing may leave.

An address that sends 10,000 invalid requests (401, 403, 429) in ten minutes is banned for some time. We stop at a part
of that, because other programs may share the address.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping

from semel.channels.recent_map import RecentMap

MAX_INVALID = 2_000
"""Invalid requests within INVALID_WINDOW_S after which nothing leaves: a fifth of what Discord tolerates."""
INVALID_WINDOW_S = 600.0
MAX_RESET_S = 86_400.0
"""Longest reset time in seconds that a header is believed."""
_MAX_BUCKETS = 2_000
_MAJOR = re.compile(r"/(?:channels|guilds|webhooks)/([0-9]+)")
_INTERACTION = re.compile(r"/interactions/|/webhooks/")


class RateLimits:
    """The limits of one bot. `clock`: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets = RecentMap[str, str](_MAX_BUCKETS)  # route -> its bucket
        self._free_at = RecentMap[tuple[str, str], float](_MAX_BUCKETS)  # (bucket or route, major id) -> time
        self._all_free_at = 0.0
        self._invalid: deque[float] = deque()

    def __repr__(self) -> str:
        return f"<RateLimits {len(self._buckets)} routes, {len(self._invalid)} invalid requests>"

    def wait_s(self, method: str, path: str) -> float:
        """Return the seconds until this request may leave; 0.0 if it may leave now."""
        now = self._clock()
        free_at = self._free_at.get(self._key(method, path), 0.0)
        if not _INTERACTION.search(path):
            free_at = max(free_at, self._all_free_at)
        while self._invalid and self._invalid[0] <= now - INVALID_WINDOW_S:
            self._invalid.popleft()
        if len(self._invalid) >= MAX_INVALID:
            free_at = max(free_at, self._invalid[0] + INVALID_WINDOW_S)
        return max(0.0, free_at - now)

    def learn(self, method: str, path: str, status: int, headers: Mapping[str, str], retry_after: float | None) -> None:
        """Learn from an answer. `headers`: names in lower case. `retry_after`: seconds, of a 429."""
        now = self._clock()
        scope = headers.get("x-ratelimit-scope", "")
        if status in (401, 403) or (status == 429 and scope != "shared"):
            self._invalid.append(now)
        if bucket := headers.get("x-ratelimit-bucket"):
            self._buckets[_route(method, path)] = bucket
        if status == 429:
            wait = retry_after or 0.0
            if scope == "global" or headers.get("x-ratelimit-global") == "true":
                self._all_free_at = max(self._all_free_at, now + wait)
            else:
                self._free_at[self._key(method, path)] = now + wait
        elif headers.get("x-ratelimit-remaining") == "0":
            self._free_at[self._key(method, path)] = now + _read_seconds(headers.get("x-ratelimit-reset-after"))

    def _key(self, method: str, path: str) -> tuple[str, str]:
        route = _route(method, path)
        major = _MAJOR.search(path)
        return self._buckets.get(route, route), major[1] if major else ""


def _route(method: str, path: str) -> str:
    """Return the route of a path: the ids, the query and an emoji or token in it do not count."""
    plain = re.sub(r"/reactions/[^/]+", "/reactions/:emoji", path.partition("?")[0])
    return f"{method} " + re.sub(r"/[0-9]{15,20}(/[\w-]{30,})?", "/:id", plain)


def _read_seconds(text: str | None) -> float:
    try:
        seconds = float(text or "")
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds <= MAX_RESET_S else 0.0
