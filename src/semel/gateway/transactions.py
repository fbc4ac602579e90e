"""The gateway's way into the ledger: every transaction, and what watchers see of it."""

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
    """A store whose changes reach the hub after their commit and before the caller goes on (Law 6).

    `cut`: the parts in which a text leaves. A transaction may find that something has to leave first (Law 7).
    """

    def __init__(self, store: Store, hub: Hub, cut: Cut | None = None) -> None:
        self.store = store
        self.hub = hub
        self.cut = cut

    async def write(self, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """One logical transaction: `body(tx, ...)`. Raises what it raises, or a LedgerError."""
        return await self.store.write(self._seen, body, *args, **kwargs)

    async def read(self, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """A consistent look at the ledger."""
        return await self.store.read(body, *args, **kwargs)

    def _seen(self, tx: Tx, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        tx.cut = self.cut
        result = body(tx, *args, **kwargs)
        if tx.dirty:  # rendering is half of what a message costs the ledger: where nobody watches it is left out
            unseen = {session for session, _, _ in tx.dirty if not self.hub.watched(session)}
            tx.after(functools.partial(self.hub.publish, views.changes(tx, unseen), unseen))
        return result
