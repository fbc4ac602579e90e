"""What a transaction changes, it has locked before: triggers refuse a change to rows of a session that is not held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proof.machines import held
from proof.machines.engines import empty_database
from proof.postgres_server import needs_postgres
from semel.ledger import people
from semel.ledger.delivery import owner_notice
from semel.ledger.inbound import answers, hear
from semel.ledger.storage.rows import EntryRow, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import permission_requests

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

    monkeypatch.setitem(locks.LOCKS, body, locks._session)
    with PostgresStore.open_sync(empty_database()) as store:
        for key in ("a", "b"):
            event = hear.Event("api", key, "message", key, b"digest")
            store.write_sync(hear.hear, event, [hear.Addressee(key, "main", None)])
        store.write_sync(body, 1, 1)
        with pytest.raises(DatabaseFailed, match="session 2 is not held"):
            store.write_sync(body, 1, 2)


@pytest.mark.parametrize("more", [0, 40])
def test_what_owners_are_told_locks_their_sessions_alone_however_many_there_are(
    more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres import locks
    from semel.ledger.postgres.store import PostgresStore

    locked: list[set[str]] = []
    take = locks.take

    def take_and_list(connection: Any, wanted: locks.Locks, now: int) -> Callable[[], locks.Taken]:
        taken = take(connection, wanted, now)
        rows = connection.execute("SELECT key FROM session WHERE xmax = CAST(pg_current_xact_id() AS xid)")
        locked.append({key for (key,) in rows})
        return taken

    def open_request(tx: Tx, session: int) -> int:
        body = {"title": "rm", "state": "open", "first": 1, "options": []}
        return entries.add_item(tx, session, turn=None, kind="permission", name="r", body=body)

    homes = {"page": "web:page", "asks": None, "own": "chat:9", "shared": "chat:9"}
    homes |= {f"more-{n}": f"web:{n}" if n % 2 else "chat:8" for n in range(more)}
    with PostgresStore.open_sync(empty_database()) as store:
        for key, home in homes.items():
            event = hear.Event("api", key, "message", key, b"digest")
            store.write_sync(hear.hear, event, [hear.Addressee(key, "main", home)])
        item = store.write_sync(open_request, 2)
        monkeypatch.setattr(locks, "take", take_and_list)
        assert len(store.write_sync(owner_notice.notify_owners, "broken", "books")) == 1
        for account in ("ann", "ann-too"):
            store.write_sync(people.save_account, people.PersonAccount("chat", account, "ann", "owner", "added"))
            store.write_sync(people.remember_place, "chat", "9" if account == "ann-too" else "8", account, direct=True)
        store.write_sync(owner_notice.notify_owners, "broken", "books")
        store.write_sync(permission_requests.notify_owners, item, "bob", 600.0)
    newest = f"more-{more - 1}" if more else "page"
    assert [locked[n] for n in (0, -2, -1)] == [{newest}, {newest, "own", "shared"}, {"asks", "own", "shared"}]


def test_a_statement_is_known_by_the_columns_that_it_looks_at() -> None:
    from semel.ledger.postgres.held_sessions import LOOKING

    assert LOOKING["session_homes"] == {"turn"}
    assert LOOKING["part_set"] == {"rev"}, "those of the session alone, not of the part"
    assert LOOKING["book_seq"] == {"seq", "rev"}
    assert "claim_add" not in LOOKING, "it looks at homes, which are never counted"


def test_a_write_is_known_by_the_parameter_that_names_its_session() -> None:
    from semel.ledger.postgres.held_sessions import _TABLES_OF_SESSIONS, WRITING

    assert (WRITING["session_next_rev"], WRITING["entry_add"], WRITING["erasure_put"]) == ("id", "session", "session")
    assert "spent_add" not in WRITING, "it counts for a session's key"
    own = {table for table, owner in held.OWNERS.items() if owner == "{row}.session"}
    assert {table.decode() for table in _TABLES_OF_SESSIONS} == own


def test_what_is_counted_is_saved_for_those_who_look_at_it_and_with_the_commit() -> None:
    from semel.ledger.postgres.store import PostgresStore

    def count_and_look(tx: Tx, session: int) -> list[int]:
        revs = [entries.next_rev(tx, session)]
        tx.run("session_set_title", id=session, title="x")  # it changes the row, which is forgotten here
        return [*revs, entries.next_rev(tx, session), tx.get(SessionRow, "session_by_id", id=session).rev]

    with PostgresStore.open_sync(empty_database()) as store:
        event = hear.Event("api", "a", "message", "a", b"digest")
        store.write_sync(hear.hear, event, [hear.Addressee("a", "main", None)])
        first, second, seen = store.write_sync(count_and_look, 1)
        assert (second, seen) == (first + 1, first + 1)
        assert store.read_sync(lambda tx: tx.get(SessionRow, "session_by_id", id=1).rev) == seen


def test_the_sessions_in_which_owners_were_told_of_a_request_are_held_when_it_ends() -> None:
    from semel.ledger.postgres.store import PostgresStore

    def add_told_request(tx: Tx, session: int) -> int:
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        body = {"state": "open", "title": "ls", "options": options, "told": ["a"], "whose": "bob"}
        return entries.add_item(tx, session, turn=None, kind="permission", text="", body=body, live=True)

    with PostgresStore.open_sync(empty_database()) as store:
        for key in ("a", "b"):
            event = hear.Event("api", key, "message", key, b"digest")
            store.write_sync(hear.hear, event, [hear.Addressee(key, "main", f"chat:{key}")])
        item = store.write_sync(add_told_request, 2)
        assert store.write_sync(answers.record_answer, 2, item, "y", "ada", b"d").status == "answered"
        store.write_sync(answers.cancel_undelivered, item)
        rows = store.read_sync(lambda tx: tx.all(EntryRow, "entries_last", session=1, before=99, limit=2))
        assert sorted(row.text for row in rows) == [
            "In the conversation with bob: Withdrawn: ls",
            "In the conversation with bob: Yes, by ada: ls",
        ]
