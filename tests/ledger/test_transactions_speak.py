"""Claims: whose call it is, who is told, what leaves, and what is never said twice (Laws 5, 6, 7, 10)."""

from __future__ import annotations

from typing import Any

import pytest
from transaction_desk import Desk, block, caller, fence, leg

from semel.law.delivery import Rules
from semel.ledger import people
from semel.ledger.delivery import held_notice, parts, send_queue
from semel.ledger.delivery.claims import ClaimRequest
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity
from semel.ledger.transcript import lookup
from semel.ledger.turns import finish_turn, interventions, spawns, tool_calls, turn_ops, turns, utterances

RULES = Rules("at-most-once")


def texts(desk: Desk, key: str = "s") -> list[str]:
    return [e["text"] for e in desk.entries(key) if e["role"] == "agent"]


def departed(desk: Desk) -> list[str]:
    out = []
    while sends := desk.do(send_queue.depart, {"chat": ChannelCapacity(RULES, 9)}).sends:
        for one in sends:
            out.append(one.op["text"])
            desk.do(send_queue.record_outcome, one.part, AttemptOutcome("receipt", receipt=f"r{one.part}"), RULES)
    return out


# ---------------------------------------------------------------- whose person is told


def test_two_sessions_with_one_home_know_what_either_said_there(desk: Desk) -> None:
    """Two agents talk with the same person in the same chat."""
    desk.hear("hi", "chat", "chat-too")
    desk.finish(desk.begin("chat"), block(1, "From the first.", "chat:1"))
    assert texts(desk, "chat") == texts(desk, "chat-too") == ["From the first."]
    assert desk.entries("chat-too")[-1]["from"] == "chat"
    assert [t.text for t in desk.begin("chat-too").entries_to_tell] == ["From the first."]
    assert desk.begin("chat") is None, "being told does not wake"


def test_what_a_claim_points_at_in_its_own_session_is_not_copied_to_another(desk: Desk) -> None:
    desk.hear("hi", "chat", "chat-too")
    desk.begin("chat", spawn=desk.spawn(key="chat"))
    desk.call(
        ClaimRequest("tool", "thumbsup", "chat:1", "reaction", more={"kind": "reaction", "emoji": "thumbsup", "of": 1})
    )
    there = desk.entries("chat-too")[-1]
    assert (there["kind"], there["emoji"], "of" in there) == ("reaction", "thumbsup", False)


def test_a_session_without_a_home_keeps_what_it_says(desk: Desk) -> None:
    desk.hear("run", "job")
    desk.finish(desk.begin("job"), block(1, "Ran.", "session:job"))
    assert texts(desk, "job") == ["Ran."]


# ---------------------------------------------------------------- the closing text leaves


def test_a_message_addressed_to_home_beside_bare_text_is_a_claim_of_its_own(desk: Desk) -> None:
    """Some names lead home. Both texts leave, each once."""
    desk.hear("hi", "chat")
    begun = desk.begin("chat")
    says = [ClaimRequest("block", text, "chat:1", legs=(leg(text),)) for text in ("Bare.", "Addressed.")]
    desk.finish(begun, turn_ops.Block(1, tuple(says)))
    assert texts(desk, "chat") == ["Bare.", "Addressed."]
    assert sorted(departed(desk)) == ["Addressed.", "Bare."]


@pytest.mark.parametrize("again", ["Part one.", "Part  one. "])
def test_a_closing_text_that_a_lost_attempt_said_but_never_sent_is_sent(desk: Desk, again: str) -> None:
    """Where only closing texts leave, a block of the lost attempt never did; its echo must not swallow it."""
    desk.hear("hi", "chat")
    desk.show(desk.begin("chat"), block(1, "Part one.", "chat:1"))
    second = desk.begin("chat", lease="g1")
    end = finish_turn.End("answered", "end_turn", closing=1, legs=(leg(again),))
    ops = [block(1, again, "chat:1")]
    desk.do(finish_turn.finish, fence(second), caller(second, "restart"), ops, turn_ops.Slots(), end)
    assert texts(desk, "chat") == ["Part one."], "said once"
    assert departed(desk) == [again], "and sent once"


def test_a_closing_text_that_a_tool_sent_does_not_leave_again(desk: Desk) -> None:
    desk.hear("hi", "chat")
    begun = desk.begin("chat", spawn=desk.spawn(key="chat"))
    desk.call(ClaimRequest("tool", "Done.", "chat:1", legs=(leg("Done."),)))
    desk.finish(begun, block(1, "Done.", "chat:1"), closing=1, legs=(leg("Done."),))
    assert departed(desk) == ["Done."]
    assert desk.entries("chat")[-1]["echoes"] == 1


def test_what_a_root_said_last_and_never_sent_is_known(desk: Desk) -> None:
    """An agent that resumes and knows that it has answered adds nothing: its answer has to leave all the same."""
    desk.hear("hi", "chat")
    first = desk.begin("chat")
    desk.show(first, block(1, "Working.", "chat:1"), turn_ops.Preview(2, "All done: 42."))
    assert last_text(desk, first.root) == ("Working.", "unsent")
    second = desk.begin("chat", lease="g1")
    assert last_text(desk, first.root) == ("All done: 42.", "unsent")
    end = finish_turn.End("answered", "end_turn")
    desk.do(finish_turn.finish, fence(second), caller(second, "resume"), [], turn_ops.Slots(), end)
    assert departed(desk) == ["All done: 42."]
    assert last_text(desk, first.root) == ("All done: 42.", "arrived")


def last_text(desk: Desk, root: int) -> tuple[str, str]:
    last = utterances.find_last_text(desk.look(utterances.list_utterances, root, "chat:1"))
    assert last is not None
    return last.text, last.fate


def test_what_a_tool_sent_last_is_not_the_text_that_was_written_last(desk: Desk) -> None:
    desk.hear("hi", "chat")
    first = desk.begin("chat", spawn=desk.spawn(key="chat"))
    desk.show(first, block(1, "Working.", "chat:1"))
    desk.call(ClaimRequest("tool", "Result.", "chat:1", legs=(leg("Result."),)))
    assert last_text(desk, first.root) == ("Working.", "unsent")


def test_a_restart_consumes_what_was_said_copy_by_copy(desk: Desk) -> None:
    desk.hear("hi")
    desk.show(desk.begin(), block(1, "ha"), block(2, "ha"))
    second = desk.begin(lease="g1")
    ops = [block(1, "ha"), block(2, "ha"), block(3, "ha")]
    end = finish_turn.End("answered", "end_turn")
    desk.do(finish_turn.finish, fence(second), caller(second, "restart"), ops, turn_ops.Slots(), end)
    assert texts(desk) == ["ha", "ha", "ha"]


# ---------------------------------------------------------------- tool calls


def ready(desk: Desk) -> Any:
    desk.hear("hi")
    return desk.begin(spawn=desk.spawn())


def test_a_call_handed_over_again_is_answered_as_before(desk: Desk) -> None:
    ready(desk)
    what = ClaimRequest("tool", "Once.", "web:s")
    assert desk.call(what) == desk.call(what)
    assert texts(desk) == ["Once."]
    with pytest.raises(tool_calls.CallIdReused):
        desk.call(what, args=b"other")


def test_a_reissued_call_is_answered_with_the_id_of_what_was_said(desk: Desk) -> None:
    """A tool server was started anew and its client made the open call again: an edit may refer to the answer."""
    ready(desk)
    what = ClaimRequest("tool", "Once.", "web:s")
    first = desk.call(what, "k1", conn="c1")
    again = desk.call(what, "k2", conn="c2")
    assert again == first
    assert desk.call(what, "k2", conn="c2") == first
    assert texts(desk) == ["Once."]
    assert desk.look(lookup.find_message, desk.session().id, 1, f"c{again.claim_id}").seq == first.seq
    assert desk.entries()[-1]["echoes"] == 1


def test_the_same_call_on_one_connection_is_said_twice(desk: Desk) -> None:
    ready(desk)
    what = ClaimRequest("tool", "ha", "web:s")
    desk.call(what, "k1")
    desk.call(what, "k2")
    assert texts(desk) == ["ha", "ha"]


def test_an_answered_call_is_not_reissued(desk: Desk) -> None:
    ready(desk)
    what = ClaimRequest("tool", "ha", "web:s")
    desk.call(what, "k1", conn="c1")
    desk.do(tool_calls.mark_answered, b"token", "k1")
    desk.call(what, "k2", conn="c2")
    assert texts(desk) == ["ha", "ha"]


def test_a_late_call_is_said_one_after_a_cancel_and_one_of_the_dead_are_refused(desk: Desk) -> None:
    begun = ready(desk)
    desk.finish(begun)
    late = desk.call(ClaimRequest("tool", "Late.", "web:s"), "k1", args=b"1")
    assert late.outcome == "said"
    assert desk.entries()[-1]["late"] is True
    desk.hear("two")
    begun = desk.begin(spawn=1)
    desk.finish(begun, event="cancelled")
    assert desk.call(ClaimRequest("tool", "No.", "web:s"), "k2", args=b"2").reason == "its turn was cancelled"
    desk.do(spawns.record_end, 1, "killed")
    desk.hear("three")
    desk.begin()
    assert desk.call(ClaimRequest("tool", "No.", "web:s"), "k3", args=b"3").outcome == "refused"
    assert texts(desk) == ["Late."]


def test_a_call_that_was_announced_in_a_cancelled_turn_is_refused_though_another_runs(desk: Desk) -> None:
    first = ready(desk)
    desk.finish(first, event="cancelled")
    desk.hear("two")
    desk.begin(spawn=1)
    assert desk.call(ClaimRequest("tool", "No.", "web:s"), tool="T1", turn=first.turn).outcome == "refused"


def test_a_process_that_was_not_asked_yet_may_not_speak(desk: Desk) -> None:
    desk.hear("hi")
    desk.spawn()
    assert desk.call(ClaimRequest("tool", "x", "web:s")).reason == "no turn of this agent process has begun"


def test_a_stranger_leaves_no_row(desk: Desk) -> None:
    ready(desk)
    before = desk.session().rev
    with pytest.raises(tool_calls.UnknownToken):
        desk.call(ClaimRequest("tool", "x", "web:s"), token=b"who")
    assert desk.session().rev == before


def test_a_refused_file_leaves_a_notice_and_no_message(desk: Desk) -> None:
    ready(desk)
    made = desk.call(ClaimRequest("tool", "", None, "file", problem="it lies outside the workspace"))
    assert made.outcome == "refused"
    assert (
        desk.entries()[-1]["text"]
        == "Held back a file: it lies outside the workspace. Tell the agent if you still want it."
    )


# ---------------------------------------------------------------- what an agent refers to


@pytest.mark.parametrize(
    "ref", ["²", "c²", "9" * 30, "c" + "9" * 30, "9" * 5000, "e1", "1\x00", "\ud800", "c1x", "0", "-1"]
)
def test_a_reference_to_nothing_finds_nothing(desk: Desk, ref: str) -> None:
    ready(desk)
    assert desk.look(lookup.find_message, desk.session().id, 1, ref) is None


def test_a_reference_finds_the_message_it_names(desk: Desk) -> None:
    begun = ready(desk)
    made = desk.call(ClaimRequest("tool", "Mine.", "web:s"))
    find = lambda ref: desk.look(lookup.find_message, desk.session().id, 1, ref)  # noqa: E731
    assert (find("").seq, find("").own) == (1, False)
    assert find("1").seq == 1
    assert (find("2").seq, find("2").own) == (2, True)
    assert find(f"C{made.claim_id}").seq == 2
    desk.hear("other", "chat")
    assert desk.look(lookup.find_message, desk.session("chat").id, 1, f"c{made.claim_id}") is None
    assert isinstance(begun, turns.BegunTurn)


# ---------------------------------------------------------------- what may not have arrived


def test_of_what_is_held_the_chat_is_told_while_it_waits_for_a_person_there_and_once(desk: Desk) -> None:
    desk.hear("hi", "chat", "chat-too")
    begun = desk.begin("chat", spawn=desk.spawn(key="chat"))
    announced = turn_ops.Announcement("May I?", (leg("May I?"),))
    bodies = {slot: {"title": "rm", "state": "open", "first": slot, "options": []} for slot in (1, 2)}
    opened = (turn_ops.ItemOpen(n, "permission", body=body, announcement=announced) for n, body in bodies.items())
    desk.show(begun, *opened)
    question = ClaimRequest("tool", "Which?", "chat:1", "ask", legs=(leg("Which?"),), more={"kind": "ask"})
    desk.call(question)
    while sends := desk.do(send_queue.depart, {"chat": ChannelCapacity(RULES, 9)}).sends:
        desk.do(send_queue.record_outcome, sends[0].part, AttemptOutcome("silence", reason="lost"), RULES)
    assert desk.look(held_notice.list_chats_to_notify) == ["chat:1"]
    desk.show(begun, turn_ops.ItemSet(2, {"state": "expired"}, live=False))
    desk.do(held_notice.notify_chat, "chat:1")
    told = [entry["text"] for entry in desk.entries("chat") if entry.get("kind") == held_notice.KIND]
    assert [text.partition(" of ")[0] for text in told] == [
        "The agent waits for a permission, but its request", "A question",
    ]  # fmt: skip
    assert desk.look(held_notice.list_chats_to_notify) == []


def test_a_chat_is_not_told_of_a_request_whose_turn_is_being_stopped(desk: Desk) -> None:
    desk.hear("hi", "chat")
    begun = desk.begin("chat", spawn=desk.spawn(key="chat"))
    body = {"title": "rm", "state": "open", "first": 1, "options": []}
    desk.show(
        begun,
        turn_ops.ItemOpen(1, "permission", body=body, announcement=turn_ops.Announcement("May I?", (leg("May I?"),))),
    )
    [part] = desk.do(send_queue.depart, {"chat": ChannelCapacity(RULES, 9)}).sends
    desk.do(send_queue.record_outcome, part.part, AttemptOutcome("silence", reason="lost"), RULES)
    assert desk.look(held_notice.list_chats_to_notify) == ["chat:1"]
    desk.do(interventions.request_stop, begun.session, turns.StopRequest("ada"))
    assert desk.look(held_notice.list_chats_to_notify) == []


@pytest.mark.parametrize("dest", ["chat:1", "mail:9"], ids=["in the chat", "on another channel"])
@pytest.mark.parametrize("decision", [None, "arrived", "drop", "resend"])
def test_a_notice_that_waits_leaves_only_if_what_it_tells_of_is_not_settled(
    desk: Desk, dest: str, decision: send_queue.Decision | None
) -> None:
    for channel, address in (("chat", "1"), ("mail", "9")):
        desk.do(people.save_account, people.PersonAccount(channel, address, "ann", "owner", "added"))
        desk.do(people.remember_place, channel, address, address, direct=True)
    desk.hear("hi", "chat")
    desk.finish(desk.begin("chat"), block(1, "Hello.", "chat:1", legs=(leg("Hello."),)))
    [sent] = desk.do(send_queue.depart, {"chat": ChannelCapacity(RULES, 9)}).sends
    lost = AttemptOutcome("silence", reason="lost")
    desk.do(send_queue.record_outcome, sent.part, lost, RULES, channels=("chat", "mail"))
    if dest == "chat:1":
        desk.do(held_notice.notify_chat, dest)
    if decision is not None:
        desk.do(send_queue.decide, sent.part, decision)
    room = {name: ChannelCapacity(RULES, 9 if dest.startswith(name) else 0) for name in ("chat", "mail")}
    left = [departure for departure in desk.do(send_queue.depart, room).sends if departure.part != sent.part]
    listed = desk.look(parts.list_newest)
    states = [part["state"] for part in listed if part["id"] != sent.part and part["dest"] == dest]
    assert (len(left), states) == ((1, ["sending"]) if decision is None else (0, ["dropped"]))
