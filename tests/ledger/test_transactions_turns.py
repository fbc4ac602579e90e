"""Begin, settle, finish: one turn at a time, nothing lost between them (Laws 2, 3, 6, 7, 9, 10)."""

from __future__ import annotations

from typing import Any

import pytest
from transaction_desk import Desk, block, caller, fence

from semel.ledger.delivery.claims import ClaimRequest
from semel.ledger.inbound import answers, hear
from semel.ledger.turns import turn_ops, turns, withdrawals
from semel.ledger.turns.withdrawals import Withdrawal


def test_nothing_begins_where_nothing_wakes(desk: Desk) -> None:
    desk.hear("hi")
    begun = desk.begin()
    assert desk.begin() is None, "a turn runs"
    assert desk.finish(begun) is False
    assert desk.begin() is None


def test_a_wake_during_a_turn_makes_exactly_one_more(desk: Desk) -> None:
    desk.hear("one")
    begun = desk.begin()
    for n in range(3):
        desk.hear(f"more {n}")
    assert desk.finish(begun) is True
    assert [e.text for e in desk.begin().events] == ["more 0", "more 1", "more 2"]
    assert desk.begin() is None


def test_the_next_gateway_takes_over_with_the_same_events_and_no_others(desk: Desk) -> None:
    desk.hear("one")
    first = desk.begin()
    desk.hear("two")
    second = desk.begin(lease="g1")
    assert (second.root, second.attempt, second.lost_turn) == (first.turn, 2, first.turn)
    assert [e.text for e in second.events] == ["one"]
    assert desk.finish(second) is True


def withdraw(desk: Desk, key: str) -> Withdrawal:
    done: Withdrawal = desk.do(withdrawals.withdraw_message, desk.session().id, "api", key)
    return done


def test_a_withdrawn_message_ends_alone_though_the_gateway_died_meanwhile(desk: Desk) -> None:
    desk.hear("one")
    first = desk.begin()
    for text in ("before", "wrong", "behind"):
        desk.hear(text, key=text)
    assert [withdraw(desk, "wrong") for _ in range(2)] == [Withdrawal(True)] * 2
    assert desk.finish(desk.begin(lease="g1")) is True
    begun = desk.begin(lease="g1")
    assert [event.text for event in begun.events] == ["before", "behind"] and begun.entries_to_tell == ()
    assert withdraw(desk, "behind") == Withdrawal(False, begun.root), "its turn is to be stopped"
    assert withdraw(desk, "wrong") == Withdrawal(True), "a repeat has the same answer, however late"
    ended: dict[str, Any] = {entry["text"]: entry.get("ended") for entry in desk.entries()}
    assert ended["wrong"]["state"] == "cancelled" and first.turn < ended["wrong"]["turn"] < begun.turn
    assert ended["before"] is None and not any("Stopped by" in entry["text"] for entry in desk.entries())
    desk.finish(begun)
    assert desk.begin(lease="g1") is None


def test_a_retry_means_the_failed_turn_and_not_a_message_that_was_withdrawn_meanwhile(desk: Desk) -> None:
    desk.hear("one")
    begun = desk.begin()
    desk.hear("wrong", key="wrong")
    withdraw(desk, "wrong")
    desk.finish(begun, event="errored", error="no credit")
    desk.hear("/retry", command=("retry", ""))
    assert [event.text for event in desk.begin().events] == ["one"]


def test_a_message_that_is_withdrawn_before_its_turn_begins_asks_for_none(desk: Desk) -> None:
    desk.hear("wrong", key="wrong")
    assert (withdraw(desk, "unheard"), withdraw(desk, "wrong")) == (Withdrawal(False), Withdrawal(True))
    assert desk.begin() is None
    desk.hear("right")
    assert [event.text for event in desk.begin().events] == ["right"]


def test_a_message_that_asked_for_no_turn_is_withdrawn_as_any_other(desk: Desk) -> None:
    desk.hear("one")
    first = desk.begin()
    desk.hear("wrong", key="wrong", wakes=False)
    assert withdraw(desk, "wrong") == Withdrawal(True)
    desk.balanced()
    desk.finish(first)
    desk.hear("two")
    assert [event.text for event in desk.begin().events] == ["two"]
    desk.hear("idle", "t", key="idle", wakes=False)
    assert desk.do(withdrawals.withdraw_message, desk.session("t").id, "api", "idle") == Withdrawal(True)
    assert [entry["ended"]["state"] for entry in (desk.entries()[1], desk.entries("t")[0])] == ["cancelled"] * 2


def test_a_settled_turn_is_fenced_off(desk: Desk) -> None:
    desk.hear("one")
    first = desk.begin()
    desk.begin(lease="g1")
    for deed in (lambda: desk.show(first, turn_ops.Preview(1, "x")), lambda: desk.finish(first)):
        with pytest.raises(turns.Fenced):
            deed()
    with pytest.raises(turns.Fenced):
        desk.do(turns.release_lease, fence(first))
    with pytest.raises(turns.Fenced):
        desk.do(turns.record_prompting, fence(first), "start", 1, "m", {})


def test_what_streamed_behind_a_rewritten_preview_is_in_the_partial_entry(desk: Desk) -> None:
    desk.hear("one")
    begun = desk.begin()
    desk.show(begun, turn_ops.Preview(1, "Half of"), turn_ops.Replace(1, "Anew "))
    desk.show(begun, turn_ops.Preview(1, "and on "))
    desk.show(begun, turn_ops.Preview(1, "and on"))
    desk.begin(lease="gateway B")
    entry = desk.entries()[1]
    assert (entry["text"], entry["partial"], "live" in entry) == ("Anew and on and on", True, False)


def test_what_was_shown_when_a_turn_was_lost_stays_partial_and_is_told(desk: Desk) -> None:
    desk.hear("one")
    first = desk.begin()
    desk.show(
        first, turn_ops.Preview(1, "Half an "), turn_ops.Preview(1, "answ"), turn_ops.ItemOpen(2, "tool", started=True)
    )
    second = desk.begin(lease="g1")
    entry = desk.entries()[-1]
    assert (entry["text"], entry["partial"], "live" in entry) == ("Half an answ", True, False)
    assert [(t.text, t.partial) for t in second.entries_to_tell] == [("Half an answ", True)]
    assert second.has_started_tools is True
    assert desk.items()[0]["status"] == "no result"


@pytest.mark.parametrize(("call", "status", "states", "started"), [
    ("c1", "pending", ["open"], False),
    ("c1", "running", ["open"], True),
    ("c1", "pending", ["answered"], True),
    ("c1", "pending", ["answered", "open"], True),
    ("c2", "pending", ["open"], True),
    (["c1"], "pending", ["open"], True),
])  # fmt: skip
def test_a_call_that_only_waits_for_permission_has_not_started(
    desk: Desk, call: object, status: str, states: list[str], started: bool
) -> None:
    desk.hear("one")
    begun = desk.begin()
    tool = turn_ops.ItemOpen(1, "tool", "c1", body={"status": status}, started=True)
    requests = [turn_ops.ItemOpen(n, "permission", body={"call": call, "state": s}) for n, s in enumerate(states, 2)]
    desk.show(begun, tool, *requests)
    assert desk.begin(lease="g1").has_started_tools is started


def test_a_third_loss_fails_the_turn_tells_it_and_lets_the_next_begin(desk: Desk) -> None:
    desk.hear("one")
    for lease in ("g0", "g1", "g2"):
        assert isinstance(desk.begin(lease=lease), turns.BegunTurn)
    desk.hear("two")
    assert isinstance(desk.begin(lease="g3"), turns.GivenUp)
    assert "lost 3 times" in desk.entries()[-1]["text"]
    begun = desk.begin(lease="g3")
    assert [e.text for e in begun.events] == ["two"]
    assert len(begun.entries_to_tell) == 1


def test_a_notice_rides_in_every_prompt_until_one_reached_an_agent(desk: Desk) -> None:
    desk.hear("one")
    desk.do(turns.add_notice, desk.session().id, "A message was held.")
    begun = desk.begin()
    assert [t.text for t in begun.entries_to_tell] == ["A message was held."]
    desk.finish(begun, event="errored")  # the agent could not be started: it was told nothing
    desk.hear("two")
    begun = desk.begin()
    assert [t.text for t in begun.entries_to_tell] == ["A message was held."]
    desk.do(turns.add_notice, desk.session().id, "And another.")
    desk.finish(begun, last_prompted_seq=max(t.seq for t in begun.entries_to_tell))
    desk.hear("three")
    assert [t.text for t in desk.begin().entries_to_tell] == ["And another."]


def test_a_notice_never_wakes(desk: Desk) -> None:
    desk.hear("one")
    desk.finish(desk.begin())
    desk.do(turns.add_notice, desk.session().id, "A message was held.")
    assert desk.begin() is None


def test_a_preview_that_nothing_ended_does_not_outlive_its_turn(desk: Desk) -> None:
    desk.hear("one")
    begun = desk.begin()
    desk.show(begun, turn_ops.Preview(1, "and so"))
    desk.finish(begun)
    assert [(e["text"], e.get("partial")) for e in desk.entries()[1:]] == [("and so", True)]


def test_a_preview_taken_back_to_nothing_is_an_entry_all_the_same(desk: Desk) -> None:
    """It was seen: it has its row and its claim, and is not left streaming."""
    desk.hear("one")
    begun = desk.begin()
    desk.show(begun, turn_ops.Preview(1, "hm"), turn_ops.Replace(1, ""))
    desk.finish(begun, turn_ops.Block(1, (), partial=True))
    entry = desk.entries()[-1]
    assert "live" not in entry
    assert entry["partial"] is True


def test_a_quiet_word_that_was_already_shown_is_said(desk: Desk) -> None:
    desk.hear("one")
    begun = desk.begin()
    desk.show(begun, turn_ops.Preview(1, "NO_REPLY"))
    desk.finish(begun, block(1, "NO_REPLY", quiet_words=("NO_REPLY",)))
    assert [e["text"] for e in desk.entries()] == ["one", "NO_REPLY"]


def test_a_quiet_word_that_was_held_is_not(desk: Desk) -> None:
    desk.hear("one", kind="heartbeat", source="heartbeat:s")
    desk.finish(desk.begin(), block(1, " NO_REPLY\n", quiet_words=("NO_REPLY",)))
    assert [e["role"] for e in desk.entries()] == ["event"]


def test_a_question_outlives_the_agent_that_asked_it(desk: Desk) -> None:
    desk.hear("one")
    spawn = desk.spawn()
    desk.begin(spawn=spawn)
    desk.call(ClaimRequest("tool", "Which?", "web:s", "ask", more={"options": ["red"]}))
    desk.begin(lease="g1")
    (item,) = desk.items()
    assert item["state"] == "open"
    done = desk.do(answers.record_answer, desk.session().id, item["id"], "red", "anna", b"d")
    assert (done.status, done.outcome.status) == ("answered", "accepted")
    assert desk.do(answers.record_answer, desk.session().id, item["id"], "blue", "bob", b"e").status == "already"
    assert [e["text"] for e in desk.entries() if e["role"] == "user"] == ["one", "red"]


def test_a_permission_request_of_a_lost_turn_is_closed(desk: Desk) -> None:
    desk.hear("one")
    asked = {"state": "open", "options": [{"optionId": "yes"}]}
    desk.show(desk.begin(), turn_ops.ItemOpen(1, "permission", "r1", body=asked))
    desk.begin(lease="g1")
    (item,) = desk.items()
    assert item["state"] == "cancelled"
    assert desk.do(answers.record_answer, desk.session().id, item["id"], "yes", "anna", b"d").status == "closed"


def test_an_answer_before_the_deadline_stands_and_one_that_a_stop_overtakes_does_not(desk: Desk) -> None:
    desk.hear("one")
    begun = desk.begin()
    asked = {"state": "open", "options": [{"optionId": "yes"}]}
    for slot in (1, 2, 3):
        desk.show(begun, turn_ops.ItemOpen(slot, "permission", f"r{slot}", body=asked))
    for item in desk.items()[:2]:
        assert desk.do(answers.record_answer, desk.session().id, item["id"], "yes", "anna", b"d").status == "answered"
    desk.show(begun, *(turn_ops.ItemSet(slot, {"state": "expired"}, live=False) for slot in (1, 3)))
    desk.show(begun, *(turn_ops.ItemSet(slot, {"state": "cancelled"}, live=False) for slot in (2, 3)))
    assert [item["state"] for item in desk.items()] == ["answered", "cancelled", "expired"]
    assert desk.slots.expired == {3}


def test_only_an_option_that_was_offered_permits(desk: Desk) -> None:
    desk.hear("one")
    asked = {"state": "open", "options": [{"optionId": "yes"}]}
    desk.show(desk.begin(), turn_ops.ItemOpen(1, "permission", "r1", body=asked))
    (item,) = desk.items()
    session = desk.session().id
    assert desk.do(answers.record_answer, session, item["id"], "rm -rf", "anna", b"d").status == "no such option"
    assert desk.do(answers.record_answer, session + 1, item["id"], "yes", "anna", b"d").status == "unknown"
    assert desk.do(answers.record_answer, session, item["id"] + 1, "yes", "anna", b"d").status == "unknown"
    assert desk.do(answers.record_answer, session, item["id"], None, "anna", b"d").status == "answered"


def test_a_turn_without_a_word_is_told_and_one_that_only_sent_is_not(desk: Desk) -> None:
    desk.hear("one")
    desk.finish(desk.begin())
    assert [e["kind"] for e in desk.entries() if e["role"] == "notice"] == ["turn.empty"]
    desk.hear("two")
    begun = desk.begin(spawn=desk.spawn())
    desk.call(ClaimRequest("tool", "Sent.", "web:s"))
    desk.finish(begun)
    assert len([e for e in desk.entries() if e["role"] == "notice"]) == 1


def test_a_finished_turn_is_not_finished_twice(desk: Desk) -> None:
    desk.hear("one")
    begun = desk.begin()
    desk.finish(begun, block(1, "Done."))
    with pytest.raises(turns.Fenced):
        desk.finish(begun, block(1, "Done."))
    assert [e["text"] for e in desk.entries()] == ["one", "Done."]


def test_what_arrives_for_an_item_after_its_end_joins_it(desk: Desk) -> None:
    desk.hear("one")
    begun = desk.begin()
    desk.show(begun, turn_ops.ItemOpen(1, "tool"), turn_ops.ItemGrow(1, "out", "out"), turn_ops.ItemSet(1, live=False))
    desk.show(begun, turn_ops.ItemGrow(1, "put", "put"))
    slots = desk.slots
    desk.finish(begun, block(2, "Done."))
    desk.hear("two")
    later = desk.begin()
    desk.slots = turn_ops.Slots(items=slots.items)
    desk.show(later, turn_ops.ItemGrow(1, "!", "!"), turn_ops.ItemSet(1, {"status": "done"}))
    (item,) = desk.items()
    assert (item["text"], item["status"], "live" in item) == ("output!", "done", False)
    assert caller(later).turn != item["turn"]


def test_a_turn_whose_agent_was_never_asked_was_not_tried(desk: Desk) -> None:
    desk.hear("hi")
    first = desk.do(turns.begin, desk.session().id, "g0")
    for n in range(5):  # gateways that die while they start its agent
        again = desk.do(turns.begin, desk.session().id, f"g{n + 1}")
        assert (again.turn, again.attempt, again.root) == (first.turn, 1, first.root)
        assert [e.text for e in again.events] == ["hi"]
        with pytest.raises(turns.Fenced):
            desk.do(turns.check_fence, fence(first))
        first = again


def test_a_message_behind_a_stop_that_is_not_carried_out_yet_does_not_join_the_turn(desk: Desk) -> None:
    desk.hear("one")
    begun = desk.begin()
    for text, command in (("before", None), ("/stop", ("stop", "")), ("behind", None)):
        event = hear.Event("api", None, "message", text, text.encode(), busy="steer", command=command)
        desk.do(hear.hear, event, [hear.Addressee("s", "main", "web:s", reads_steered=True)], None)
    assert [e.text for e in desk.do(turns.bind_steered, fence(begun))] == ["before"]
    assert desk.finish(begun) is True
    assert [e.text for e in desk.begin().events] == ["behind"]
