"""Hear: once, for ever, whatever stands in it (Laws 1 and 2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from transaction_desk import Desk, leg

from proof.machines.engines import ENGINE
from semel.law.delivery import Rules
from semel.ledger.admin.explain import ConflictOfEvent
from semel.ledger.delivery import send_queue
from semel.ledger.delivery.claims import ClaimRequest
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity
from semel.ledger.inbound import channel_batch, hear
from semel.ledger.turns import turns
from semel.text.wellformed import scrub

RULES = Rules("at-most-once")
TEXTS = {
    "nul": "a\x00b",
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u202eabc\u202c",
    "combining marks": "e" + "\u0301" * 1000,
    "a megabyte": "x" * 1_000_000,
    "beyond the first plane": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0010ffff",
    "empty": "",
    "line ends": "a\r\nb\rc\u2028d",
    "an escape in words": r"in JSON, write \u0000 for NUL",
}


def as_stored(value: Any) -> Any:
    """PostgreSQL holds no U+0000; what comes from outside has none any more (`scrub`)."""
    return scrub(value) if ENGINE == "postgres" else value


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_kept_as_it_came(desk: Desk, text: str) -> None:
    desk.hear(text)
    assert desk.entries()[0]["text"] == as_stored(text)
    begun = desk.begin()
    assert begun.events[0].text == as_stored(text)


def test_data_keeps_its_numbers_however_large(desk: Desk) -> None:
    data = {"big": 10**40, "low": -(2**70), "deep": [[{"n": 2**64}]], "nul": "\x00"}
    desk.hear("hi", more={"data": data})
    assert desk.entries()[0]["data"] == as_stored(data)
    assert desk.begin().events[0].data == {"data": as_stored(data)}


def test_a_repeat_is_answered_with_the_first_outcome_and_changes_nothing(desk: Desk) -> None:
    first = desk.hear("hi", key="m1")
    rev = desk.session().rev
    again = desk.hear("hi", key="m1")
    assert (again.event, again.status, again.woken_sessions) == (first.event, "duplicate", ())
    assert desk.session().rev == rev
    assert len(desk.entries()) == 1


def test_a_repeat_after_its_turn_wakes_nobody(desk: Desk) -> None:
    desk.hear("hi", key="m1")
    desk.finish(desk.begin())
    desk.hear("hi", key="m1")
    assert desk.begin() is None


def test_the_same_key_with_other_content_keeps_the_first_and_records_the_second_once(desk: Desk) -> None:
    first = desk.hear("hi", key="m1")
    for _ in range(3):
        other = desk.hear("ho", key="m1")
        assert (other.event, other.status, other.stored_digest) == (first.event, "conflict", first.stored_digest)
    assert [e["text"] for e in desk.entries()] == ["hi"]
    (kept,) = desk.look(lambda tx: tx.all(ConflictOfEvent, "conflicts_of", event=first.event))
    assert (kept.payload, kept.repeats) == ('{"text":"ho"}', 2)


def test_the_same_key_from_another_source_is_another_event(desk: Desk) -> None:
    assert desk.hear("hi", key="m1").event != desk.hear("hi", key="m1", source="node").event


def test_without_a_key_nothing_is_a_repeat(desk: Desk) -> None:
    assert desk.hear("hi").event != desk.hear("hi").event
    assert len(desk.begin().events) == 2


def test_one_event_for_several_sessions_is_heard_in_each_and_wakes_each(desk: Desk) -> None:
    done = desk.hear("hi", "s", "chat", "job", key="m1")
    assert done.woken_sessions == tuple(desk.session(k).id for k in ("s", "chat", "job"))
    assert {desk.begin(k).events[0].event for k in ("s", "chat", "job")} == {done.event}


def test_what_does_not_wake_waits_for_the_next_turn_and_joins_it(desk: Desk) -> None:
    desk.hear("progress", wakes=False)
    assert desk.begin() is None
    desk.hear("hello")
    assert [e.text for e in desk.begin().events] == ["progress", "hello"]


def test_what_does_not_wake_takes_no_wake_away(desk: Desk) -> None:
    desk.hear("hello")
    desk.hear("progress", wakes=False)
    assert isinstance(desk.begin(), turns.BegunTurn)


def test_a_clock_that_is_set_back_loses_no_wake(desk: Desk) -> None:
    desk.hear("hi")
    desk.now = 10
    begun = desk.begin()
    assert isinstance(begun, turns.BegunTurn)
    desk.now = 5_000
    desk.hear("more")
    desk.now = 20
    assert desk.finish(begun) is True
    assert isinstance(desk.begin(), turns.BegunTurn)


def test_a_failure_in_the_middle_of_a_fan_out_leaves_nothing_behind(desk: Desk) -> None:
    with pytest.raises(Exception, match=r"(?i)unique"):
        desk.hear("hi", "s", "chat", "s", key="m1")
    assert desk.session() is None
    assert desk.hear("hi", key="m1").status == "accepted"


def test_a_key_of_512_characters_and_a_session_key_of_200_are_kept(desk: Desk) -> None:
    key, session = "k" * 512, "s" * 200
    first = desk.hear("hi", session, key=key)
    assert desk.hear("hi", session, key=key).event == first.event
    assert desk.entries(session)[0]["event"] == first.event


def press(answer: str, who: str, message: str = "q1") -> channel_batch.MessageItem:
    digest = f"{answer} {who}".encode()
    event = hear.Event("channel:chat", f"pressed:{message}", "message", answer, digest, sender=who)
    return channel_batch.MessageItem(event, hear.Addressee("chat", "main", "chat:1"), "1", who, is_direct=False)


def record_presses(desk: Desk, *presses: channel_batch.MessageItem) -> None:
    for one in presses:
        desk.do(channel_batch.record_batch, "chat", "channel:chat", [one], None)


def confirm_sent(desk: Desk, receipt: str) -> int:
    """Let the part that waits leave, and arrive with this receipt. Return its id."""
    [sent] = desk.do(send_queue.depart, {"chat": ChannelCapacity(RULES, 9)}).sends
    desk.do(send_queue.record_outcome, sent.part, AttemptOutcome("receipt", receipt=receipt), RULES)
    return int(sent.part)


def list_notices(desk: Desk) -> list[str]:
    return [entry["text"] for entry in desk.entries("chat") if entry["role"] == "notice"]


def test_each_late_press_of_a_question_is_told_once_who_was_first(desk: Desk) -> None:
    presses = [("Tea", "ada"), ("Coffee", "bob"), ("Coffee", "bob"), ("Tea", "ada"), ("Tea", "bob")]
    record_presses(desk, *(press(answer, who) for answer, who in presses))
    told = [(entry["role"], entry["text"]) for entry in desk.entries("chat")]
    assert told == [("user", "Tea"), *[("notice", "That question is answered already: Tea, by ada.")] * 2]


@pytest.mark.parametrize("is_edited", [False, True], ids=["as it was asked", "edited since"])
def test_who_presses_after_an_answer_in_words_is_told_those_words(desk: Desk, is_edited: bool) -> None:
    desk.hear("hi", "chat")
    desk.begin("chat", spawn=desk.spawn(key="chat"))
    asked = desk.call(ClaimRequest("tool", "When?", "chat:1", "ask", legs=(leg("When?"),)))
    part = confirm_sent(desk, "q1")
    if is_edited:  # the channel's receipt of an edit is that of the message
        legs = (replace(leg("Well?"), op={"kind": "edit", "text": "Well?", "target_part": part}),)
        desk.call(ClaimRequest("tool", "Well?", "chat:1", "edit", legs=legs, edits=asked.claim_id), "k2", args=b"b")
        confirm_sent(desk, "q1")
    desk.hear("tomorrow", "chat", sender="bob")
    record_presses(desk, press("now", "ada"), press("now", "ada"), press("later", "bob"))
    answered = "That question is answered already: tomorrow, by bob."
    assert list_notices(desk) == [f"{answered} The agent gets the later answer as a message.", answered]
    assert [entry["text"] for entry in desk.entries("chat") if entry["role"] == "user"] == ["hi", "tomorrow", "now"]


def test_of_a_long_answer_a_late_press_is_told_the_beginning(desk: Desk) -> None:
    record_presses(desk, press("x" * 1000, "ada"), press("later", "bob"))
    assert len(list_notices(desk)[0]) < 200 and list_notices(desk)[0].endswith(", by ada.")


def test_a_press_that_answers_its_question_is_told_nothing(desk: Desk) -> None:
    desk.hear("hi", "chat")
    desk.begin("chat", spawn=desk.spawn(key="chat"))
    desk.call(ClaimRequest("tool", "When?", "chat:1", "ask", legs=(leg("When?"),)))
    confirm_sent(desk, "q1")
    record_presses(desk, press("now", "ada"))
    assert list_notices(desk) == []
    record_presses(desk, press("later", "bob"))
    assert list_notices(desk) == ["That question is answered already: now, by ada."]
