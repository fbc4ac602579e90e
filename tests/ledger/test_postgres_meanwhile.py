"""A session that a transaction comes to write to while it waits for its locks is locked, too, before it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import Thread
from typing import Any

import pytest

from proof.machines.engines import empty_database
from proof.machines.house import RULES, places
from proof.machines.stored import StoredLedger
from proof.postgres_server import needs_postgres
from semel.law.limits import Limits
from semel.ledger import people
from semel.ledger.admin import age_out, erase
from semel.ledger.backup.settle_restored import settle_copy
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity
from semel.ledger.inbound import hear
from semel.ledger.storage.rows import EntryRow, SessionRow
from semel.ledger.storage.store import note_restored, now_ms
from semel.ledger.turns import permission_requests, turn_ops, turns
from semel.ledger.turns.limits import LimitPolicy, ask_again
from semel.ledger.turns.tool_calls import ToolCallRequest, record_call

pytestmark = needs_postgres
CAPACITIES = {name: ChannelCapacity(rules, 4) for name, rules in RULES.items()}


@pytest.fixture
def ledgers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StoredLedger, StoredLedger]]:
    """Two gateways' ledgers in one database, with locks that are widened as in production."""
    from semel.ledger.postgres import locks
    from semel.ledger.postgres.store import PostgresStore

    url = empty_database()
    monkeypatch.setattr(locks, "widen", locks.widen.__wrapped__)  # type: ignore[attr-defined]
    one, other = (StoredLedger(now_ms, PostgresStore.open_sync(url)) for _ in range(2))
    yield one, other
    one.close()
    other.close()


def interrupt(monkeypatch: pytest.MonkeyPatch, statement: str, commit: Callable[[], object]) -> None:
    """Let `commit` happen right behind the next reading of a statement by which a transaction takes its locks."""
    from semel.ledger.postgres.statements import Statement
    from semel.ledger.postgres.wire import Connection

    ask = Connection.ask

    def ask_for(connection: Connection, asked: Statement, params: Mapping[str, Any]) -> Callable[[], list[list[Any]]]:
        read_rows = ask(connection, asked, params)

        def read_then_commit() -> list[list[Any]]:
            rows = read_rows()
            commit()
            return rows

        if asked.name != statement:
            return read_rows
        monkeypatch.setattr(Connection, "ask", ask)
        return read_then_commit

    monkeypatch.setattr(Connection, "ask", ask_for)


def hear_message(ledger: StoredLedger, session: str, home: str | None) -> int:
    event = hear.Event("api", session, "message", "hello", session.encode())
    ledger.hear(event, [hear.Addressee(session, "demo", home)])
    id = ledger.find(session)
    assert id is not None
    return id


def begin_turn(ledger: StoredLedger, session: int, token: bytes) -> None:
    begun = ledger.begin(session, "a lease")
    assert isinstance(begun, turns.BegunTurn)
    spawn = ledger.spawn(session, "demo", "a gateway", token)
    ledger.asked(turns.TurnFence(session, begun.turn, begun.epoch), "start", spawn, "memory", {})


def send(ledger: StoredLedger, token: bytes, dest: str, text: str) -> None:
    """An agent sends a text by its tool."""
    legs = places().make_claim_legs(dest, "job", text, False)
    ledger.call(ToolCallRequest(token, "c", "k", b""), ClaimRequest("tool", text, dest, is_home=False, legs=legs))


def ask_permission(ledger: StoredLedger, session: int, token: bytes) -> int:
    """A turn of the session asks for a permission. Return the request's item."""
    begin_turn(ledger, session, token)
    row = ledger.read(lambda tx: tx.get(SessionRow, "session_by_id", id=session))
    assert row.turn is not None
    fence = turns.TurnFence(session, row.turn, row.epoch)
    request = turn_ops.ItemOpen(0, "permission", "r", body={"title": "rm", "state": "open", "first": 1, "options": []})
    slots = ledger.show(fence, Caller(session, row.key, row.turn, row.turn), [request], turn_ops.Slots())
    return slots.items[0]


def name_owner(ledger: StoredLedger, address: str) -> None:
    """An owner writes in a direct chat."""
    ledger.write(people.save_account, people.PersonAccount("chat", "ann", "ann", "owner", "added"))
    ledger.write(lambda tx: people.remember_place(tx, "chat", address, "ann", direct=True))


def list_entries(ledger: StoredLedger, session: int) -> list[EntryRow]:
    return ledger.read(lambda tx: tx.all(EntryRow, "entries_last", session=session, before=99, limit=9))


def count_retries(ledger: StoredLedger) -> int:
    return int(ledger.store.statistics()["retries"])


@pytest.mark.parametrize("home", ["mail:2", "web:page"])
@pytest.mark.parametrize("locks_everything", [False, True])
def test_a_text_is_recorded_in_a_session_that_is_being_added_at_a_destination_nothing_was_sent_to_before(
    locks_everything: bool, home: str, ledgers: tuple[StoredLedger, StoredLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres import locks

    one, other = ledgers
    if locks_everything:
        rule = locks.LOCKS[record_call]
        monkeypatch.setitem(locks.LOCKS, record_call, lambda *args: rule(*args)._replace(everything=True))
    begin_turn(one, hear_message(one, "job", None), b"token")
    sender = Thread(target=lambda: send(one, b"token", home, "a report"))

    def send_while_the_session_is_added() -> None:
        sender.start()
        sender.join(timeout=0.3)  # it waits for the line

    interrupt(monkeypatch, "entry_shown", send_while_the_session_is_added)
    added = hear_message(other, "new", home)
    sender.join()
    assert [entry.text for entry in list_entries(one, added)] == ["a report", "hello"]
    assert one.broken() == []


def test_a_destination_may_be_named_twice_by_who_locks_everything(
    ledgers: tuple[StoredLedger, StoredLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres import locks

    one, _ = ledgers
    begin_turn(one, hear_message(one, "job", None), b"token")
    rule = locks.LOCKS[record_call]
    twice = {"everything": True, "homes": ("mail:2", "mail:2")}
    monkeypatch.setitem(locks.LOCKS, record_call, lambda *args: rule(*args)._replace(**twice))
    send(one, b"token", "mail:2", "a report")
    assert [departure.channel for departure in one.depart(CAPACITIES).sends] == ["mail"]


def test_a_text_is_recorded_in_a_session_that_was_added_at_its_destination_meanwhile(
    ledgers: tuple[StoredLedger, StoredLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = ledgers
    begin_turn(one, hear_message(one, "job", None), b"token")
    interrupt(monkeypatch, "lock_sessions", lambda: hear_message(other, "mail", "mail:2"))
    send(one, b"token", "mail:2", "a report")
    mail = one.find("mail")
    assert mail is not None
    assert sorted(entry.text for entry in list_entries(one, mail)) == ["a report", "hello"]
    assert count_retries(one) == 1
    assert one.broken() == []


def test_a_session_that_was_told_a_text_is_held_when_the_text_is_erased_that_was_deleted_meanwhile(
    ledgers: tuple[StoredLedger, StoredLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = ledgers
    monkeypatch.setattr(erase, "ROWS_PER_STEP", 1)
    monkeypatch.setattr(age_out, "ENTRIES_PER_STEP", 1)
    chat, job = hear_message(one, "chat", "chat:1"), hear_message(one, "job", None)
    begin_turn(one, job, b"token")
    send(one, b"token", "chat:1", "a report")
    (departure,) = one.depart(CAPACITIES).sends
    assert one.receipt(departure.part, AttemptOutcome("silence"), RULES["chat"]) == "held"
    rev = max(entry.rev for entry in list_entries(one, chat))
    interrupt(monkeypatch, "find_sessions_with_copies", lambda: other.delete(job))
    one.erase(job)
    assert [part.state for part in one.parts()] == ["dropped"]
    assert max(entry.rev for entry in list_entries(one, chat)) > rev, "whoever watches the chat sees it"
    assert count_retries(one) == 1
    assert one.broken() == []


def test_a_session_whose_owner_is_told_of_a_used_up_limit_is_locked_when_the_limit_is_used_up(
    ledgers: tuple[StoredLedger, StoredLedger],
) -> None:
    one, _ = ledgers
    page, job = hear_message(one, "page", "web:page"), hear_message(one, "job", None)
    policy = LimitPolicy(all=Limits(turns=1))
    assert isinstance(one.write(turns.begin, job, "a lease", None, None, turns.ANY_AGENT, policy), turns.BegunTurn)
    assert [entry.text for entry in list_entries(one, page) if entry.role == "notice"]
    assert count_retries(one) == 1, "most turns reach no limit, and do not lock the owner's session"
    assert one.broken() == []


def test_an_owner_is_told_of_a_request_in_a_session_that_was_added_at_their_chat_meanwhile(
    ledgers: tuple[StoredLedger, StoredLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = ledgers
    item = ask_permission(one, hear_message(one, "job", None), b"token")
    name_owner(one, "9")
    interrupt(monkeypatch, "lock_sessions", lambda: hear_message(other, "own", "chat:9"))
    one.write(permission_requests.notify_owners, item, "bob", 600.0)
    own = one.find("own")
    assert own is not None
    assert [entry.role for entry in list_entries(one, own)].count("notice") == 1
    assert count_retries(one) == 1
    assert one.broken() == []


def test_a_session_that_began_to_wait_for_a_limit_meanwhile_is_locked_before_it_asks_again(
    ledgers: tuple[StoredLedger, StoredLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = ledgers
    ids = [hear_message(one, key, None) for key in "abc"]
    policy = LimitPolicy(all=Limits(turns=1))

    def try_to_begin(session: int) -> object:
        return other.write(turns.begin, session, "a lease", None, None, turns.ANY_AGENT, policy)

    assert isinstance(try_to_begin(ids[0]), turns.BegunTurn)
    assert isinstance(try_to_begin(ids[1]), turns.NotYetDue)
    interrupt(monkeypatch, "find_sessions_limited", lambda: try_to_begin(ids[2]))
    one.write(ask_again, LimitPolicy())
    assert one.read(lambda tx: tx.values(int, "limited_sessions", after=0)) == []
    waiting = [one.read(lambda tx, id=id: tx.get(SessionRow, "session_by_id", id=id).wake_at) for id in ids[1:]]
    assert all(due is not None and due <= now_ms() for due in waiting), waiting
    assert count_retries(one) == 1
    assert one.broken() == []


def test_a_session_that_was_added_while_a_restored_ledger_is_settled_is_locked_too(
    ledgers: tuple[StoredLedger, StoredLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = ledgers
    hear_message(one, "old", None)
    one.write(note_restored)
    interrupt(monkeypatch, "lock_every_session", lambda: hear_message(other, "new", None))
    settled = one.write(settle_copy)
    assert settled is not None and settled.sessions == 2
    assert count_retries(one) == 1
    assert one.broken() == []


def test_a_message_that_meets_many_sessions_holds_all(ledgers: tuple[StoredLedger, StoredLedger]) -> None:
    from semel.ledger.postgres import locks

    ids = [hear_message(ledgers[0], f"s{n}", None) for n in range(locks.MAX_WIDENED + 2)]
    wanted = locks.widen(locks.Locks(keys=("s0",)), ids)
    connection = ledgers[0].store._worker._require_connection()  # type: ignore[attr-defined]
    connection.queue("BEGIN")
    assert locks.take(connection, wanted, now_ms())().ids == set(ids)
    connection.end("ROLLBACK")


def test_a_transaction_that_meets_many_sessions_locks_all() -> None:
    from semel.ledger.postgres import locks

    widen = locks.widen
    widen = getattr(widen, "__wrapped__", widen)
    begin = locks.Locks(ids=(7,), ledger=True)
    assert widen(begin, {3, 2}) == locks.Locks(ids=(7, 2, 3), ledger=True)
    assert widen(begin, set(range(locks.MAX_WIDENED + 1))) == locks.Locks(ids=(7,), ledger=True, everything=True)
