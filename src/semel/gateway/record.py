"""`LedgerAccess` gives the gateway access to the ledger; `Hub` publishes commits to the watchers (Laws 6, 8).

A watcher follows the view of one session. After each commit, the changes to the view are put into the bounded queue of
each watcher. If a queue is full, its content is dropped and the watcher reads the ledger instead, so a slow watcher
never delays a turn.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from semel.gateway.errors import NoSuchSession
from semel.ledger.storage.sql import CutText, Tx
from semel.ledger.storage.store import LedgerStore
from semel.ledger.storage.work import runs_body
from semel.ledger.transcript import views
from semel.text.json_types import Json

T = TypeVar("T")

GROWTH_OPS = ("append", "output")  # the `op` of changes that only extend a text
MAX_PENDING_CHANGES = 2000  # changes queued for one watcher before its queue is dropped and it reads the ledger instead


class Watcher:
    """The queue of one watcher. `lagged`: changes are missing from the queue, so the watcher must read the ledger.

    `pending`: the queued changes. `ready`: set if there are changes to take, or if `lagged` is true.
    """

    def __init__(self) -> None:
        self.pending: list[Json] = []
        self.lagged = False
        self.ready = asyncio.Event()
        self.urgent = asyncio.Event()  # set if a change is pending that does not only extend a text

    def push(self, change: Json) -> None:
        if len(self.pending) >= MAX_PENDING_CHANGES:
            self.lag()
        if not self.lagged:
            self.pending.append(change)
        self.ready.set()
        if change["op"] not in GROWTH_OPS:
            self.urgent.set()

    def lag(self) -> None:
        """Empty the queue and set `lagged`, so that the watcher reads the ledger."""
        self.lagged = True
        self.pending.clear()
        self.ready.set()
        self.urgent.set()

    def take(self, after: int = 0) -> list[Json]:
        """Empty the queue. Return its changes above the rev `after`, merged by `join_growth`.

        Changes up to `after` are dropped before merging, because the watcher has them: merged with newer ones, they
        would be shown twice (Law 8).
        """
        out, self.pending = [c for c in self.pending if c["rev"] > after], []
        self.ready.clear()
        self.urgent.clear()
        return join_growth(out)


def join_growth(changes: Iterable[Json]) -> list[Json]:
    """Merge consecutive changes that extend the same text into one change. Leave all others as they are."""
    joined: list[Json] = []
    for (grows, *_), group in itertools.groupby(changes, _growth_key):
        run = list(group)
        if grows and len(run) > 1:
            run = [{**run[0], "rev": run[-1]["rev"], "text": "".join(change["text"] for change in run)}]
        joined += run
    return joined


def _growth_key(change: Json) -> tuple[bool, Any, Any, Any]:
    """Return the key by which `join_growth` groups changes. Changes that extend the same text have equal keys.

    The first value of the key says whether the change only extends a text.
    """
    return change["op"] in GROWTH_OPS, change["op"], change.get("seq"), change.get("id")


class Hub:
    """The watchers of all sessions, by session id, and the callbacks for every commit."""

    def __init__(self) -> None:
        self._watchers: dict[int, set[Watcher]] = defaultdict(set)
        self._followers: list[Callable[[set[int]], object]] = []
        self._gap_followers: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<Hub {sum(map(len, self._watchers.values()))} watchers of {len(self._watchers)} sessions>"

    def follow(self, call: Callable[[set[int]], object]) -> None:
        """Register a callback for every commit. It gets the ids of the changed sessions, and must be quick.

        The hub calls it on the event loop.
        """
        self._followers.append(call)

    def follow_gaps(self, call: Callable[[], object]) -> None:
        """Register a callback for each time when it is unknown which sessions changed (`lag_all`)."""
        self._gap_followers.append(call)

    def publish(self, changes: list[tuple[int, Json]], unseen: Collection[int] = ()) -> None:
        """Queue committed changes for the watchers of their sessions. Call this on the event loop, in commit order.

        `changes`: pairs of (session id, change). `unseen`: sessions that changed while they had no watcher, so that no
        change was rendered for them. A watcher that joined in the meantime may have read the ledger before this commit,
        so it is made to read the ledger again.
        """
        self.tell_followers({session for session, _ in changes} | set(unseen))
        for session, change in changes:
            for watcher in self._watchers.get(session, ()):
                watcher.push(change)
        for session in unseen:
            for watcher in self._watchers.get(session, ()):
                watcher.lag()

    def tell_followers(self, changed: set[int]) -> None:
        """Tell those who follow every commit which sessions changed; watchers of a session's view are told nothing."""
        for call in self._followers:
            call(changed)

    def lag_all(self) -> None:
        """Let every watcher read the ledger: another gateway may have changed any session."""
        self.publish([], tuple(self._watchers))
        for call in self._gap_followers:
            call()

    def join(self, session: int) -> Watcher:
        watcher = Watcher()
        self._watchers[session].add(watcher)
        return watcher

    def leave(self, session: int, watcher: Watcher) -> None:
        watchers = self._watchers.get(session)
        if watchers is not None:
            watchers.discard(watcher)
            if not watchers:
                del self._watchers[session]

    def count_watchers(self, session: int) -> int:
        """Return the number of watchers of this session. Any thread may call this."""
        return len(self._watchers.get(session, ()))

    @property
    def count(self) -> int:
        return sum(map(len, self._watchers.values()))


class LedgerAccess:
    """Run transactions on a store, and publish their changes to the hub before the caller continues (Law 6).

    `cut`: splits a text into the parts in which it is sent to a destination. A transaction calls it as `tx.cut` if it
    has to send a text for which its caller made no parts, such as a notice. `tell_others`: tells other gateways, after
    a commit, which sessions it has changed.
    """

    def __init__(
        self,
        store: LedgerStore,
        hub: Hub,
        cut: CutText | None = None,
        tell_others: Callable[[Collection[int]], object] | None = None,
    ) -> None:
        self.store = store
        self.hub = hub
        self.cut = cut
        self.tell_others = tell_others

    async def write(self, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Run `body(tx, ...)` in one transaction. Return its result. Raises LedgerError, and whatever `body` raises."""
        return await self.store.write(self._run_and_publish, body, *args, **kwargs)

    async def read(self, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Run `body(tx, ...)` on a consistent snapshot of the ledger and return its result."""
        return await self.store.read(body, *args, **kwargs)

    def tell_listed(self, session: int) -> None:
        """Tell whoever watches the list of sessions that a row of it changed, though the session's view did not."""
        self.hub.tell_followers({session})
        if self.tell_others is not None:
            self.tell_others({session})

    async def find_session(self, key: str) -> int:
        """Return the id of the session with this key. Raises NoSuchSession if it does not exist or was deleted."""
        row = await self.read(views.find_session, key)
        if row is None:
            raise NoSuchSession(key)
        return row.id

    @runs_body
    def _run_and_publish(self, tx: Tx, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        tx.cut = self.cut
        result = body(tx, *args, **kwargs)
        if tx.dirty:  # rendering is half the cost of a message: skip it for sessions without a watcher
            unseen = {session for session, _, _ in tx.dirty if not self.hub.count_watchers(session)}
            tx.after_commit(functools.partial(self.hub.publish, views.render_changes(tx, unseen), unseen))
            if self.tell_others is not None:
                tx.after_commit(functools.partial(self.tell_others, {session for session, _, _ in tx.dirty}))
        return result
