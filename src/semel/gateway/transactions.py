"""`Record`: the gateway's access to the ledger. Each committed change is published to the watchers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from semel.gateway.hub import Hub
from semel.ledger.storage.sql import Cut, Tx
from semel.ledger.storage.store import Store
from semel.ledger.transcript import views

T = TypeVar("T")


class Record:
    """A store whose changes reach the hub after their commit and before the caller continues (Law 6).

    `cut` splits a text into the parts that leave for a destination. Transactions need it because they may find that an
    earlier text has to leave first (Law 7).
    """

    def __init__(self, store: Store, hub: Hub, cut: Cut | None = None) -> None:
        self.store = store
        self.hub = hub
        self.cut = cut

    async def write(self, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Run `body(tx, ...)` in one transaction and return its result. Raises what `body` raises, or LedgerError."""
        return await self.store.write(self._seen, body, *args, **kwargs)

    async def read(self, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Run `body(tx, ...)` on a consistent snapshot of the ledger and return its result."""
        return await self.store.read(body, *args, **kwargs)

    def _seen(self, tx: Tx, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        tx.cut = self.cut
        result = body(tx, *args, **kwargs)
        if tx.dirty:  # rendering is half the cost of a message: skip it for sessions without a watcher
            unseen = {session for session, _, _ in tx.dirty if not self.hub.watched(session)}
            tx.after(functools.partial(self.hub.publish, views.changes(tx, unseen), unseen))
        return result
