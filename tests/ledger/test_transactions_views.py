"""What watchers are given after an absence, and the story of one thing (Law 8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from transaction_desk import Desk, block, leg

from semel.law.delivery import Rules
from semel.ledger.admin import explain
from semel.ledger.delivery import send_queue
from semel.ledger.delivery.claims import ClaimRequest
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity
from semel.ledger.inbound import hear, schedules
from semel.ledger.transcript import views
from semel.ledger.turns import turn_ops
from semel.timing.schedule import Firings

Json = dict[str, Any]


def since(desk: Desk, rev: int, limit: int = 1000) -> list[Json] | None:
    found = desk.look(views.read_changes, desk.session().id, rev, limit)
    return None if found is None else [c for c in found[1] if c["op"] != "session"]


def streaming(desk: Desk) -> Any:
    desk.hear("hi")
    begun = desk.begin()
    desk.show(begun, turn_ops.Preview(1, "one "))
    return begun


def test_a_live_text_is_sent_on_from_where_the_watcher_left(desk: Desk) -> None:
    begun = streaming(desk)
    rev = desk.session().rev
    desk.show(begun, turn_ops.Preview(1, "two "))
    desk.show(begun, turn_ops.Preview(1, "three"))
    assert since(desk, rev) == [{"op": "append", "rev": rev + 2, "seq": 2, "text": "two three"}]
    assert since(desk, rev + 1) == [{"op": "append", "rev": rev + 2, "seq": 2, "text": "three"}]
    assert since(desk, rev + 2) == []
    desk.finish(begun, block(1, "one two three"))


@pytest.mark.parametrize("end", ["replaced", "ended", "lost"])
def test_a_text_that_was_folded_meanwhile_is_sent_whole(desk: Desk, end: str) -> None:
    begun = streaming(desk)
    rev = desk.session().rev
    if end == "replaced":
        desk.show(begun, turn_ops.Preview(1, "tw"), turn_ops.Replace(1, "anew "), turn_ops.Preview(1, "and on"))
        want = "anew and on"
    elif end == "ended":
        desk.show(begun, turn_ops.Preview(1, "two"), block(1, "one two"))
        want = "one two"
    else:
        desk.begin(lease="g1")
        want = "one "
    (change,) = since(desk, rev) or []
    assert (change["op"], change["text"]) == ("entry", want)


def test_growth_after_a_replacement_is_sent_on_from_there(desk: Desk) -> None:
    begun = streaming(desk)
    desk.show(begun, turn_ops.Replace(1, "anew "))
    rev = desk.session().rev
    desk.show(begun, turn_ops.Preview(1, "and on"))
    (change,) = since(desk, rev) or []
    assert (change["op"], change["text"]) == ("append", "and on")


def test_the_same_holds_for_the_output_of_a_tool(desk: Desk) -> None:
    desk.hear("hi")
    begun = desk.begin()
    desk.show(begun, turn_ops.ItemOpen(1, "tool"), turn_ops.ItemGrow(1, "one ", "one "))
    rev = desk.session().rev
    desk.show(begun, turn_ops.ItemGrow(1, "two", "two"))
    assert since(desk, rev) == [{"op": "output", "rev": rev + 1, "id": 1, "text": "two"}]
    desk.show(begun, turn_ops.ItemSet(1, {"status": "done"}), turn_ops.ItemGrow(1, "!", "!"))
    (change,) = since(desk, rev) or []
    assert (change["op"], change["text"], change["status"]) == ("item", "one two!", "done")
    desk.show(begun, turn_ops.ItemSet(1, live=False))
    rev = desk.session().rev
    desk.show(begun, turn_ops.ItemGrow(1, "late", "late"))
    (change,) = since(desk, rev) or []
    assert (change["op"], change["text"]) == ("item", "one two!late")
    desk.finish(begun, block(2, "Done."))


def test_a_rev_from_the_future_and_too_much_to_tell_need_a_snapshot(desk: Desk) -> None:
    for n in range(5):
        desk.hear(str(n))
    rev = desk.session().rev
    assert since(desk, rev + 1) is None
    assert since(desk, 0, limit=5) is None
    assert since(desk, 0, limit=6) is not None
    assert since(desk, rev) == []


def test_pages_of_entries_lose_nothing_and_end(desk: Desk) -> None:
    for n in range(7):
        desk.hear(str(n))
    session, rev, seen = desk.session().id, 0, []
    while True:
        rows, rev = desk.look(views.read_entries, session, rev, 3)
        if not rows:
            break
        seen += [row["text"] for row in rows]
    assert seen == [str(n) for n in range(7)]


def test_history_is_parted_between_stretches_without_loss_or_overlap(desk: Desk) -> None:
    for n in range(6):
        desk.hear(str(n))
        begun = desk.begin()
        ops = [turn_ops.ItemOpen(1, "tool"), turn_ops.ItemOpen(2, "thought", live=False)]
        desk.show(begun, *ops)
        desk.finish(begun, block(3, f"answer {n}"), turn_ops.ItemSet(1, {"status": "done"}))
    session = desk.session().id
    page = desk.look(views.read_snapshot, session, 5)
    entries, items = page["entries"], page["items"]
    while page["more"]:
        page = desk.look(views.read_history, session, page["before"], 5)
        entries, items = page["entries"] + entries, page["items"] + items
    assert entries == desk.entries()
    assert items == desk.items()
    assert [i["id"] for i in items] == sorted(i["id"] for i in items)


# ---------------------------------------------------------------- why


def told(desk: Desk, ref: str) -> str:
    story = desk.look(explain.tell_story, ref)
    return "" if story is None else " | ".join(line["text"] for line in story["lines"])


def test_the_story_of_a_turn_begins_with_the_events_that_it_took(desk: Desk) -> None:
    first, second = desk.hear("one"), desk.hear("two")
    begun = desk.begin()
    story = told(desk, f"t{begun.turn}")
    assert story.startswith(f"e{first.event}: accepted "), story
    assert f"e{second.event}: accepted" in story and story.count(f"t{begun.turn} took it (entry ") == 2


def test_every_kind_of_thing_has_its_story(desk: Desk) -> None:
    desk.hear("hi", "chat", key="platform-7")
    begun = desk.begin("chat")
    desk.finish(begun, block(1, "Hello.", "chat:1"), closing=1, legs=(leg("Hello."),))
    rules = Rules("at-most-once")
    (one,) = desk.do(send_queue.depart, {"chat": ChannelCapacity(rules, 1)}).sends
    desk.do(send_queue.record_outcome, one.part, AttemptOutcome("receipt", receipt="msg-99"), rules)
    for ref in ("e1", "E1", "platform-7", "t1", "chat#1"):
        assert "Hello." in told(desk, ref)
    for ref in ("c1", "p1", "msg-99", "chat#2", " c1 "):
        assert "receipt msg-99" in told(desk, ref)


def test_a_notice_tells_the_story_of_what_it_is_about(desk: Desk) -> None:
    desk.hear("hi", "chat")
    begun = desk.begin("chat")
    desk.finish(begun, block(1, "Hello.", "chat:1"), closing=1, legs=(leg("Hello."),))
    rules = Rules("at-most-once")
    (one,) = desk.do(send_queue.depart, {"chat": ChannelCapacity(rules, 1)}).sends
    desk.do(send_queue.record_outcome, one.part, AttemptOutcome("refused", reason="blocked"), rules)
    story = told(desk, "chat#3")
    assert "rejected: blocked" in story
    assert story.count("chat#3: a notice: 'A message to chat:1 was rejected: blocked. ") == 1
    assert "a notice" not in told(desk, f"p{one.part}")


def test_what_was_said_names_the_message_that_asked_and_how_the_turn_ended(desk: Desk) -> None:
    asked = desk.hear("hi", "chat")
    begun = desk.begin("chat")
    desk.finish(begun, block(1, "Hello.", "chat:1"), closing=1, legs=(leg("Hello."),))
    for ref in ("chat#2", "p1", "c1"):
        first, began, *_ = lines = told(desk, ref).split(" | ")
        assert first.startswith(f"e{asked.event}: accepted ") and first.endswith(f"t{begun.turn} took it (entry 1)")
        assert began == f"t{begun.turn}: attempt 1 of root t{begun.turn} began"
        assert lines[-2] == "t1: done, stop reason end_turn" and "answered by c1, a text" in lines[-1], lines


def test_a_text_that_was_cut_off_says_that_its_turn_was_lost(desk: Desk) -> None:
    desk.hear("hi")
    begun = desk.begin()
    desk.show(begun, turn_ops.Preview(1, "One word"))
    desk.begin(lease="g1")
    assert f"t{begun.turn}: lost: the gateway ended before it" in told(desk, "s#2")


def test_a_refusal_tells_why(desk: Desk) -> None:
    desk.hear("hi")
    begun = desk.begin()
    desk.finish(begun, turn_ops.Block(1, (ClaimRequest("block", "x", None, problem="no destination is named 'bob'"),)))
    assert "no destination is named 'bob'" in told(desk, "s#2")


def test_a_fan_out_tells_of_each_session(desk: Desk) -> None:
    desk.hear("hi", "s", "chat", wakes=False)
    assert "recorded in s as entry 1" in told(desk, "e1")
    assert "it waits for the next turn of chat" in told(desk, "e1")


def test_a_schedules_name_tells_of_its_last_firing(desk: Desk) -> None:
    row = schedules.ScheduleDefinition("tea", "s", "Tea?", "every", "1h", "UTC", "once", "api", 3_600)
    desk.do(schedules.add, row)
    assert desk.look(explain.tell_story, "tea") is None
    assert desk.look(explain.describe_unknown, "tea").startswith("schedule 'tea' has not fired; when it is due: ")
    desk.do(schedules.add, replace(row, name="late", due=None))
    assert desk.look(explain.describe_unknown, "schedule:late").startswith("schedule 'late' is over and never fired: ")
    for due in (3_600, 7_200):
        [listed], _ = desk.look(schedules.list_due, due * 1000)
        desk.do(schedules.fire, listed, hear.Addressee("s", "main", None), Firings((due,)), due + 3_600)
    for ref in ("tea", "schedule:tea"):
        assert "accepted schedule at schedule:tea as '1970-01-01T02:00:00Z'" in told(desk, ref)


def test_the_id_of_a_run_tells_of_its_newest_report(desk: Desk) -> None:
    for kind in ("exec.started", "exec.finished"):
        desk.hear(f"`make` {kind}", key=f"0123abcd:{kind}")
    assert "'`make` exec.finished'" in told(desk, "0123abcd")


BAD = [
    "",
    " ",
    "e0",
    "e2",
    "c1",
    "p1",
    "t1",
    "s#0",
    "s#2",
    "nobody#1",
    "#1",
    "s#",
    "e" + "9" * 30,
    "s#" + "9" * 30,
    "e²",
    "\ud800",
    "a\x00b",
    "x" * 100_000,
]


@pytest.mark.parametrize("ref", BAD, ids=[ascii(ref)[:12] for ref in BAD])
def test_a_ref_to_nothing_is_none(desk: Desk, ref: str) -> None:
    desk.hear("hi")
    assert desk.look(explain.tell_story, ref) is None
