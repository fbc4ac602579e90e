"""What a transaction changes, it has locked before: triggers refuse a change to rows of a session that is not held."""

from __future__ import annotations

from typing import Any

import pytest

from proof.machines.engines import empty_database
from proof.postgres_server import needs_postgres
from semel.ledger.inbound import hear
from semel.ledger.storage.sql import Tx

pytestmark = needs_postgres


def touch_another(tx: Tx, session: int, other: int) -> None:
    tx.run("session_set_title", id=other, title="x")


def add_entry_to_another(tx: Tx, session: int, other: int) -> None:
    tx.run("piece_add", session=other, rev=1, entry=1, item=None, text="x")


@pytest.mark.parametrize("body", [touch_another, add_entry_to_another])
def test_a_write_to_a_session_that_is_not_held_fails(body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from semel.ledger.postgres import locks
    from semel.ledger.postgres.errors import DatabaseFailed
    from semel.ledger.postgres.store import PostgresStore

    monkeypatch.setitem(locks.LOCKS, body, locks._session_alone)
    with PostgresStore.open_sync(empty_database()) as store:
        for key in ("a", "b"):
            event = hear.Event("api", key, "message", key, b"digest")
            store.write_sync(hear.hear, event, [hear.Addressee(key, "main", None)])
        store.write_sync(body, 1, 1)
        with pytest.raises(DatabaseFailed, match="session 2 is not held"):
            store.write_sync(body, 1, 2)
