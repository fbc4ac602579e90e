"""Live views: who watches which session, and what they have yet to be sent (Law 8).

A change is published after its commit, to each watcher's own queue. A watcher that falls behind loses its
queue, never the turn's time: it is caught up from the ledger.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any

Json = dict[str, Any]

GROWTH = ("append", "output")
PENDING = 2000  # changes a watcher may have waiting before it is caught up from the ledger instead


class Watcher:
    """One watcher's queue. `lagged` is set once something could not be queued."""

    def __init__(self) -> None:
        self.pending: list[Json] = []
        self.lagged = False
        self.ready = asyncio.Event()
        self.urgent = asyncio.Event()  # something other than more of a text is pending

    def push(self, change: Json) -> None:
        if len(self.pending) >= PENDING:
            self.lag()
        if not self.lagged:
            self.pending.append(change)
        self.ready.set()
        if change["op"] not in GROWTH:
            self.urgent.set()

    def lag(self) -> None:
        """It lacks something: it is caught up from the ledger."""
        self.lagged = True
        self.pending.clear()
        self.ready.set()
        self.urgent.set()

    def take(self, after: int = 0) -> list[Json]:
        """All that is pending above a rev, with what one text grew by joined together.

        What the watcher has already is left out first: joined with what is new, it would be shown twice (Law 8).
        """
        out, self.pending = [c for c in self.pending if c["rev"] > after], []
        self.ready.clear()
        self.urgent.clear()
        return join(out)


def join(changes: Iterable[Json]) -> list[Json]:
    """Consecutive pieces of one text become one change; nothing else is altered."""
    out: list[Json] = []
    runs: list[list[str]] = []
    for change in changes:
        last = out[-1] if out else None
        if last is not None and change["op"] in GROWTH and _same_text(last, change):
            runs[-1].append(change["text"])
            last["rev"] = change["rev"]
        else:
            out.append(dict(change))
            runs.append([change["text"]] if change["op"] in GROWTH else [])
    for change, texts in zip(out, runs, strict=True):
        if len(texts) > 1:
            change["text"] = "".join(texts)
    return out


def _same_text(a: Json, b: Json) -> bool:
    return a["op"] == b["op"] and a.get("seq") == b.get("seq") and a.get("id") == b.get("id")


class Hub:
    """Watchers by session id."""

    def __init__(self) -> None:
        self._watchers: dict[int, set[Watcher]] = defaultdict(set)
        self._followers: list[Callable[[set[int]], object]] = []

    def __repr__(self) -> str:
        return f"<Hub {sum(map(len, self._watchers.values()))} watchers of {len(self._watchers)} sessions>"

    def follow(self, call: Callable[[set[int]], object]) -> None:
        """Have this told of every commit and the sessions it changed, on the loop: it must not take long."""
        self._followers.append(call)

    def publish(self, changes: list[tuple[int, Json]], unseen: Collection[int] = ()) -> None:
        """Called on the loop, in the order of commits.

        unseen: sessions that changed while nobody watched them, so that no change was rendered. Whoever came since
        read the ledger before or after this commit, and is caught up from it.
        """
        changed = {session for session, _ in changes} | set(unseen)
        for call in self._followers:
            call(changed)
        for session, change in changes:
            for watcher in self._watchers.get(session, ()):
                watcher.push(change)
        for session in unseen:
            for watcher in self._watchers.get(session, ()):
                watcher.lag()

    def join(self, session: int) -> Watcher:
        watcher = Watcher()
        self._watchers[session].add(watcher)
        return watcher

    def leave(self, session: int, watcher: Watcher) -> None:
        left = self._watchers.get(session)
        if left is not None:
            left.discard(watcher)
            if not left:
                del self._watchers[session]

    def watched(self, session: int) -> int:
        """How many watch this session now. Any thread may ask."""
        return len(self._watchers.get(session, ()))

    @property
    def count(self) -> int:
        return sum(map(len, self._watchers.values()))
