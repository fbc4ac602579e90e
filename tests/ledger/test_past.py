"""Law 4: the record is in order of hearing, a prompt's history in order of turns."""

from __future__ import annotations

import pytest

from proof.machines.engines import open_ledger
from semel.law.identity import digest_fields
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.inbound.hear import Addressee, Event, hear
from semel.ledger.storage.rows import EntryRow, Row, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import LedgerStore
from semel.ledger.turns import finish_turn, history, sessions, show, summary, turn_ops, turns


def say(store: LedgerStore, text: str) -> None:
    event = Event("api:s", None, "message", text, digest_fields({"text": text}))
    store.write_sync(hear, event, [Addressee("s", "demo", "web:s")])


def begin(store: LedgerStore) -> turns.BegunTurn:
    begun = store.write_sync(turns.begin, 1, "me")
    assert isinstance(begun, turns.BegunTurn)
    return begun


def finish(store: LedgerStore, begun: turns.BegunTurn, text: str) -> None:
    fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
    caller = Caller(begun.session, begun.key, begun.turn, begun.root)
    block = turn_ops.Block(1, (ClaimRequest("block", text, begun.home),))
    store.write_sync(
        finish_turn.finish, fence, caller, [block], turn_ops.Slots(), finish_turn.End("answered", "end_turn")
    )


def test_a_message_heard_during_a_turn_comes_after_its_answer_in_the_history() -> None:
    with open_ledger() as store:
        say(store, "u1")
        first = begin(store)
        say(store, "u2")
        finish(store, first, "a1")
        second = begin(store)
        finish(store, second, "a2")
        say(store, "u3")
        third = begin(store)

        def record(tx: Tx) -> list[str]:
            return [e.text for e in reversed(tx.all(EntryRow, "entries_last", session=1, before=99, limit=99))]

        assert store.read_sync(record) == ["u1", "u2", "a1", "a2", "u3"]
        heard = [one.text for one in store.read_sync(history.read_conversation, 1, 1, third.turn)]
        assert heard == ["u1", "a1", "u2", "a2"]


def test_what_an_agent_remembers_is_whole_turns_in_order_of_turns_without_the_running_one() -> None:
    with open_ledger() as store:
        for n in range(1, 4):
            say(store, f"u{n}")
            finish(store, begin(store), f"a{n}")
        say(store, "now")
        running = begin(store)
        all_of_it = store.read_sync(history.read_past_turns, 1, 1000)
        assert [one.text for one in all_of_it.spoken] == ["u1", "a1", "u2", "a2", "u3", "a3"]
        assert (all_of_it.turn, all_of_it.cut) == (running.turn, False)
        less = store.read_sync(history.read_past_turns, 1, 9)
        assert [one.text for one in less.spoken] == ["u2", "a2", "u3", "a3"]
        assert less.cut
        assert store.read_sync(history.read_past_turns, 1, 3).spoken == ()


def test_what_a_lost_attempt_said_and_did_is_not_told_as_past_but_as_begun() -> None:
    with open_ledger() as store:
        say(store, "u1")
        first = begin(store)
        fence = turns.TurnFence(first.session, first.turn, first.epoch)
        caller = Caller(first.session, first.key, first.turn, first.root)
        store.write_sync(turns.record_prompting, fence, "start", 1, "memory", {})
        tool = turn_ops.ItemOpen(
            1, "tool", "t1", body={"title": "deploy", "status": "running", "input": {"to": "prod"}}
        )
        store.write_sync(show.show, fence, caller, [tool, turn_ops.Preview(2, "half")], turn_ops.Slots())
        store.write_sync(turns.release_lease, fence)
        second = begin(store)
        told = store.read_sync(history.read_past_turns, 1, 1000)
        assert (told.turn, told.spoken) == (second.turn, ())
        assert [(d.title, d.status, d.input) for d in told.begun] == [("deploy", "no result", {"to": "prod"})]


def test_a_history_that_is_cut_begins_with_the_same_turn_for_some_turns() -> None:
    begins = []
    with open_ledger() as store:
        for n in range(120):
            say(store, f"u{n}")
            begun = begin(store)
            told = store.read_sync(history.read_past_turns, 1, 250)
            if told.cut:
                begins.append(told.spoken[0].text)
                assert told.spoken[0].role == "user"
                assert told.spoken[-1].text == f"a{n - 1}"
                assert sum(len(one.text) for one in told.spoken) > 250 * 2 // 3
            finish(store, begun, f"a{n}")
    assert len(begins) > 60
    assert len(set(begins)) <= len(begins) // 6


class Counted:
    """A transaction that notes what is read in it."""

    def __init__(self, tx: Tx) -> None:
        self.one = tx.one
        self.get = tx.get
        self.asked: list[str] = []
        self._tx = tx

    def all(self, row: type[Row], name: str, **params: object) -> list[Row]:
        self.asked.append(name)
        return self._tx.all(row, name, **params)


def test_the_cost_of_remembering_does_not_grow_with_the_history() -> None:
    with open_ledger() as store:
        for n in range(1500):
            say(store, f"u{n}")
            finish(store, begin(store), f"a{n}")
        say(store, "now")
        begin(store)

        def pages(tx: Tx) -> int:
            counted = Counted(tx)
            history.read_past_turns(counted, 1, 2_000)  # type: ignore[arg-type]
            return counted.asked.count("entries_before")

        assert store.read_sync(pages) <= 3


def fence_of(begun: turns.BegunTurn) -> turns.TurnFence:
    return turns.TurnFence(begun.session, begun.turn, begun.epoch)


def summarise(store: LedgerStore, begun: turns.BegunTurn, text: str, keep: int) -> history.Stretch:
    stretch = store.read_sync(history.find_turns_to_summarise, 1, keep, 100_000)
    assert stretch is not None
    store.write_sync(summary.add, fence_of(begun), text, stretch.covers)
    return stretch


def remembered(store: LedgerStore, room: int = 1000) -> tuple[str | None, list[str], bool]:
    told = store.read_sync(history.read_past_turns, 1, room)
    return told.summary.text if told.summary else None, [one.text for one in told.spoken], told.cut


def test_a_summary_stands_for_whole_turns_and_for_nothing_that_was_heard_meanwhile() -> None:
    with open_ledger() as store:
        say(store, "u1")
        first = begin(store)
        say(store, "u2")  # stands before a1 in the record, and is of the turn after it
        finish(store, first, "a1")
        second = begin(store)
        stretch = summarise(store, second, "sum", 0)
        assert [one.text for one in stretch.spoken] == ["u1", "a1"]
        assert remembered(store) == ("sum", [], False)
        finish(store, second, "a2")
        say(store, "u3")
        third = begin(store)
        assert remembered(store) == ("sum", ["u2", "a2"], False)
        assert store.read_sync(history.find_turns_to_summarise, 1, 1000, 1000) is None, "all of it is kept"
        again = summarise(store, third, "sum of sum", 0)
        assert again.before is not None
        assert (again.before.text, [one.text for one in again.spoken]) == ("sum", ["u2", "a2"])
        assert (again.covers.first, again.covers.last) == (1, 5)
        assert remembered(store) == ("sum of sum", [], False)
        finish(store, third, "a3")


def test_a_summary_that_does_not_fit_is_left_out_and_what_it_covers_is_not_told_instead() -> None:
    with open_ledger() as store:
        for n in range(1, 4):
            say(store, f"u{n}")
            begun = begin(store)
            if n == 3:
                summarise(store, begun, "a long summary", 0)
            finish(store, begun, f"a{n}")
        say(store, "now")
        begin(store)
        assert remembered(store, 18) == ("a long summary", ["u3", "a3"], False)
        assert remembered(store, 17) == ("a long summary", [], True)
        assert remembered(store, 10) == (None, [], True)


def test_a_summary_is_written_by_the_running_turn_of_its_chapter_only() -> None:
    with open_ledger() as store:
        say(store, "u1")
        finish(store, begin(store), "a1")
        say(store, "u2")
        begun = begin(store)
        stretch = store.read_sync(history.find_turns_to_summarise, 1, 0, 1000)
        assert stretch is not None
        row = store.read_sync(lambda tx: tx.one(SessionRow, "session_by_id", id=1))
        assert row is not None
        store.write_sync(sessions.begin_chapter, row)
        with pytest.raises(turns.Fenced):
            store.write_sync(summary.add, fence_of(begun), "late", stretch.covers)
        finish(store, begun, "a2")
        with pytest.raises(turns.Fenced):
            store.write_sync(summary.add, fence_of(begun), "later", stretch.covers)


def test_the_cost_of_remembering_ends_at_the_summary() -> None:
    with open_ledger() as store:
        for n in range(600):
            say(store, f"u{n}")
            begun = begin(store)
            if n == 500:
                summarise(store, begun, "sum", 0)
            finish(store, begun, f"a{n}")
        say(store, "now")
        begin(store)

        def read(tx: Tx) -> int:
            counted = Counted(tx)
            told = history.read_past_turns(counted, 1, 1_000_000)  # type: ignore[arg-type]
            assert told.spoken[0].text == "u500"
            return counted.asked.count("entries_before")

        assert store.read_sync(read) == 2
