"""What is held or rejected: what people are told, and what they decide."""

from __future__ import annotations

from pathlib import Path

import pytest
from outbox_desk import Desk, echo

from semel.gateway.ports import Safety
from semel.law.delivery import PartStepNotAllowed
from semel.ledger.admin import explain
from semel.ledger.delivery import parts, send_queue
from semel.ledger.transcript import entries
from semel.testing import FakeChannel, Fault

HOUR = 3600.0


async def test_at_most_once_is_held_after_a_lost_answer_and_later_parts_go_on(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.DROP)
    async with Desk(ledger, chat) as desk:
        ids = await desk.say("chat:room", "one", "two")
        await desk.pass_time(HOUR)
        assert await desk.states(ids) == ["held", "sent"]
        assert chat.platform.shown("room") == ["one", "two"]
        [notice] = await desk.notices()
        assert notice.text == (
            "A message to chat:room was held: the platform takes it, and its answer is lost; the platform neither "
            "folds repeats nor tells what it has, so it is not sent again by itself. "
            'It said "one". It may have arrived: decide with resend, arrived or drop.'
        )
        assert notice.tell == 1
        assert entries.load(notice.more) == {"kind": "delivery.held", "part": ids[0], "to": "chat:room"}


async def test_a_person_settles_what_is_held(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.LOSE, Fault.DROP, Fault.LOSE)
    async with Desk(ledger, chat) as desk:
        lost, came, never = await desk.say("chat:room", "lost", "came", "never")
        await desk.say("chat:room", "later")
        await desk.quiet()
        assert await desk.states([lost, came, never]) == ["held"] * 3
        assert (await desk.decide(came, "arrived"))["state"] == "sent"
        assert (await desk.decide(never, "drop"))["state"] == "dropped"
        assert (await desk.decide(lost, "resend"))["marked"] is True
        await desk.quiet()
        assert chat.platform.shown("room") == ["came", "later", "lost"], "a resend joins the tail"
        assert [post.marked for post in chat.platform.log] == [False, False, True]
        assert await desk.states([lost, came, never]) == ["sent", "sent", "dropped"]
        with pytest.raises(PartStepNotAllowed, match="this part is dropped; only a part that is held"):
            await desk.decide(never, "resend")
        with pytest.raises(parts.NoSuchPart, match="there is no part 99"):
            await desk.decide(99, "drop")


async def test_a_resend_waits_behind_what_is_in_line(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.LOSE, Fault.REFUSE)
    async with Desk(ledger, chat) as desk:
        [held] = await desk.say("chat:room", "held")
        await desk.quiet()
        await desk.say("chat:room", "waits", "waits too")
        await desk.decide(held, "resend")
        await desk.say("chat:room", "newest")
        await desk.pass_time(5)
        assert chat.platform.shown("room") == ["waits", "waits too", "held", "newest"]


async def test_resend_unknown_repeats_visibly(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.DROP)
    async with Desk(ledger, chat, resend_unknown=["chat"]) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(5)
        assert [(post.text, post.marked) for post in chat.platform.log] == [("hello", False), ("hello", True)]
        assert (await desk.part(part))["marked"] is True


async def test_a_definite_no_is_rejected_at_once_and_told(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.REJECT)
    async with Desk(ledger, chat) as desk:
        ids = await desk.say("chat:room", "x" * 100, "after")
        await desk.quiet()
        assert await desk.states(ids) == ["rejected", "sent"]
        [notice] = await desk.notices()
        assert notice.text == (f'A message to chat:room was rejected: 403 Forbidden. It began "{"x" * 80}…".')


async def test_a_person_has_a_rejected_part_sent_again_behind_what_is_in_line(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.REJECT)
    async with Desk(ledger, chat) as desk:
        [refused] = await desk.say("chat:room", "one")
        [later] = await desk.say("chat:room", "two")
        await desk.quiet()
        assert await desk.states([refused, later]) == ["rejected", "sent"]
        with pytest.raises(PartStepNotAllowed, match="only a part that is held can be marked as arrived"):
            await desk.decide(refused, "arrived")
        chat.platform.fail_next(Fault.REJECT)
        await desk.decide(refused, "resend")
        await desk.quiet()
        assert await desk.states([refused]) == ["rejected"]
        await desk.decide(refused, "resend")
        await desk.quiet()
        assert await desk.states([refused]) == ["sent"]
        assert chat.platform.shown("room") == ["two", "one"]
        assert [post.marked for post in chat.platform.log] == [False, False], "nobody has seen it before"
        assert len(await desk.notices()) == 2
        with pytest.raises(PartStepNotAllowed, match="this part is sent"):
            await desk.decide(refused, "resend")


async def test_a_person_drops_what_was_rejected_and_it_counts_as_rejected_no_more(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.REJECT)
    async with Desk(ledger, chat) as desk:
        [refused] = await desk.say("chat:room", "one")
        await desk.quiet()
        assert await desk.store.read(parts.count_rejected) == 1
        assert (await desk.decide(refused, "drop"))["state"] == "dropped"
        assert await desk.store.read(parts.count_rejected) == 0
        assert (await desk.store.read(parts.count_undelivered, "chat:room")).rejected.total == 0
        assert len(await desk.notices()) == 1, "the person who dropped it knows"
        with pytest.raises(PartStepNotAllowed, match="this part is dropped; only a part that is held or rejected"):
            await desk.decide(refused, "drop")


async def test_what_was_resent_after_a_no_is_marked_once_it_may_have_arrived(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.REJECT, Fault.DROP)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "one")
        await desk.pass_time(60)
        await desk.decide(part, "resend")
        await desk.pass_time(60)
        assert await desk.states([part]) == ["held"] and not (await desk.part(part)).get("marked")
        await desk.decide(part, "resend")
        await desk.quiet()
        assert [post.marked for post in chat.platform.log] == [False, True]
        story = await desk.store.read(explain.tell_story, f"p{part}")
        begun = [line["text"].partition(": ")[2] for line in story["lines"] if " began" in line["text"]]
        asked = ", marked as a repeat that a person asked for"
        assert begun == ["attempt 1 began", "attempt 2 began", f"attempt 3 began{asked}"]


async def test_a_rejected_part_whose_content_was_deleted_is_not_sent_again(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.REJECT)
    async with Desk(ledger, chat) as desk:
        [refused] = await desk.say("chat:room", "one")
        await desk.quiet()
        await desk.store.write(lambda tx: tx.run("erase_part", id=refused))
        with pytest.raises(PartStepNotAllowed, match="the content of this part was deleted"):
            await desk.decide(refused, "resend")
        assert await desk.states([refused]) == ["rejected"]


async def test_one_notice_says_that_an_echo_relied_on_what_was_rejected(ledger: Path) -> None:
    """Law 5: if an original is rejected later, one notice says so."""
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_always(Fault.REFUSE)
    async with Desk(ledger, chat) as desk:
        ids = await desk.say("chat:room", "one", "two")
        await desk.store.write(echo, ids[0])
        await desk.quiet()
        chat.platform.fail_always(Fault.REJECT)
        await desk.pass_time(10)
        assert await desk.states(ids) == ["rejected", "rejected"]
        texts = [notice.text for notice in await desk.notices()]
        assert len(texts) == 2
        assert ["A text that repeated it was therefore not sent." in text for text in texts] == [
            True,
            False,
        ]


async def test_an_original_that_a_person_drops_is_told_if_an_echo_relied_on_it(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.LOSE, Fault.LOSE)
    async with Desk(ledger, chat) as desk:
        [relied] = await desk.say("chat:room", "one")
        [plain] = await desk.say("chat:room", "two")
        await desk.store.write(echo, relied)
        await desk.quiet()
        await desk.decide(relied, "drop")
        await desk.decide(plain, "drop")
        kinds = [entries.load(notice.more)["kind"] for notice in await desk.notices()]
        assert kinds == ["delivery.held", "delivery.held", "delivery.dropped"]


async def test_our_own_message_heard_back_settles_a_held_part(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.DROP)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.quiet()
        write = desk.store.write
        assert await write(send_queue.settle_reported_part, "other", "key-1-0", "m1") is False
        assert await write(send_queue.settle_reported_part, "chat", "nobody's key", "m1") is False
        assert await write(send_queue.settle_reported_part, "chat", "key-1-0", "m1") is True
        assert await write(send_queue.settle_reported_part, "chat", "key-1-0", "m1") is False
        found = await desk.part(part)
        assert (found["state"], found["receipt"]) == ("sent", "m1")
