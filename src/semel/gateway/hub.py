"""Publish committed changes to the watchers of each session (Law 8).

A change is put into each watcher's own bounded queue after its commit. A watcher that is too slow loses its queue and
is brought up to date from the ledger, so a slow watcher never delays a turn.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any

Json = dict[str, Any]

GROWTH_OPS = ("append", "output")
PENDING = 2000  # changes queued for one watcher before its queue is dropped and it reads the ledger instead


class Watcher:
    """One watcher's queue. If `lagged` is set, changes are missing and the watcher must read them from the ledger."""

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
        if change["op"] not in GROWTH_OPS:
            self.urgent.set()

    def lag(self) -> None:
        """Drop the queue: a change is missing, so the watcher has to read the ledger."""
        self.lagged = True
        self.pending.clear()
        self.ready.set()
        self.urgent.set()

    def take(self, after: int = 0) -> list[Json]:
        """Take the pending changes above the rev `after`; consecutive growth of one text is merged into one change.

        Changes that the watcher already has are dropped before merging; merged with newer ones they would be shown
        twice (Law 8).
        """
        out, self.pending = [c for c in self.pending if c["rev"] > after], []
        self.ready.clear()
        self.urgent.clear()
        return join(out)


def join(changes: Iterable[Json]) -> list[Json]:
    """Merge consecutive growth of one text into one change; leave all other changes as they are."""
    out: list[Json] = []
    runs: list[list[str]] = []
    for change in changes:
        last = out[-1] if out else None
        if last is not None and change["op"] in GROWTH_OPS and _same_text(last, change):
            runs[-1].append(change["text"])
            last["rev"] = change["rev"]
        else:
            out.append(dict(change))
            runs.append([change["text"]] if change["op"] in GROWTH_OPS else [])
    for change, texts in zip(out, runs, strict=True):
        if len(texts) > 1:
            change["text"] = "".join(texts)
    return out


def _same_text(a: Json, b: Json) -> bool:
    return a["op"] == b["op"] and a.get("seq") == b.get("seq") and a.get("id") == b.get("id")


class Hub:
    """The watchers of all sessions, by session id, and the callbacks that follow every commit."""

    def __init__(self) -> None:
        self._watchers: dict[int, set[Watcher]] = defaultdict(set)
        self._followers: list[Callable[[set[int]], object]] = []

    def __repr__(self) -> str:
        return f"<Hub {sum(map(len, self._watchers.values()))} watchers of {len(self._watchers)} sessions>"

    def follow(self, call: Callable[[set[int]], object]) -> None:
        """Call this on the event loop after every commit, with the ids of the changed sessions. Must be quick."""
        self._followers.append(call)

    def publish(self, changes: list[tuple[int, Json]], unseen: Collection[int] = ()) -> None:
        """Queue committed changes for their watchers. Called on the event loop, in the order of commits.

        `unseen`: sessions that changed while they had no watcher, so that no change was rendered. A watcher that joined
        since then may have read the ledger before this commit; it is marked as lagging and reads the ledger again.
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
        """The number of watchers of this session. May be called from any thread."""
        return len(self._watchers.get(session, ()))

    @property
    def count(self) -> int:
        return sum(map(len, self._watchers.values()))
