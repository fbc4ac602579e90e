"""A final failure reaches the person: on another channel of theirs, in the session, and never in a circle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from outbox_desk import Desk

from semel.gateway.ports import Safety
from semel.ledger import people
from semel.ledger.admin import books
from semel.ledger.delivery import parts, send_queue
from semel.ledger.people import PersonAccount
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.testing import FakeChannel, Fault


def ann(tx: Tx, *channels: str) -> None:
    """Ann has an account on each channel, and was met there in a direct conversation, at "room"."""
    for channel in channels:
        people.save_account(tx, PersonAccount(channel, "ann", "ann", "owner", "added"))
        people.remember_place(tx, channel, "room", "ann", True)


def two() -> tuple[FakeChannel, FakeChannel]:
    return FakeChannel("chat", Safety.AT_MOST_ONCE), FakeChannel("mail", Safety.IDEMPOTENT)


async def balanced(desk: Desk) -> None:
    broken = [book for book in await desk.store.read(books.audit) if not book.ok]
    assert not broken, broken


async def test_a_rejected_message_is_told_on_another_channel_of_the_same_person(ledger: Path) -> None:
    chat, mail = two()
    chat.platform.fail_next(Fault.REJECT)
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        [part] = await desk.say("chat:room", "The build is red.")
        await desk.quiet()
        [told] = mail.platform.shown("room")
        assert told == ('A message for you on chat could not be delivered: 403 Forbidden. It said "The build is red.".')
        rejected, elsewhere = await desk.notices()
        assert rejected.text.startswith("A message to chat:room was rejected")
        assert elsewhere.text == told
        assert entries.load(elsewhere.more) == {"kind": "delivery.elsewhere", "to": "mail:room", "part": part}
        assert (rejected.tell, elsewhere.tell) == (1, 0), "the agent is told once"
        await balanced(desk)


async def test_a_held_message_is_told_as_one_that_may_have_arrived(ledger: Path) -> None:
    chat, mail = two()
    chat.platform.fail_next(Fault.DROP)
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        await desk.say("chat:room", "hello")
        await desk.quiet()
        assert mail.platform.shown("room") == [
            "A message for you on chat may not have arrived: the platform takes it, and its answer is lost; the "
            "platform neither folds repeats nor tells what it has, so it is not sent again by itself. "
            'It said "hello".'
        ]


@pytest.mark.parametrize("decision", ["arrived", "drop", "resend"])
async def test_a_notice_that_waits_does_not_leave_once_a_person_has_decided(
    ledger: Path, decision: send_queue.Decision
) -> None:
    chat, mail = two()
    chat.platform.fail_next(Fault.DROP)
    mail.platform.fail_next(Fault.LIMIT)
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        [held] = await desk.say("chat:room", "hello")
        await desk.quiet()
        await desk.decide(held, decision)
        await desk.pass_time(3600)
        assert mail.platform.shown("room") == []
        from proof.conversations import read_record  # another test runs this file where `proof` is not

        [notice] = await list_notice_parts(desk)
        assert notice["state"] == "dropped" and read_record(ledger).needless == {notice["claim"]}
        chat.platform.fail_next(Fault.DROP)
        [lost] = await desk.say("chat:room", "later")
        await desk.pass_time(60)
        told = mail.platform.shown("room")
        assert await desk.states([lost]) == ["held"] and [text for text in told if "later" in text] == told != []
        await balanced(desk)


async def test_a_notice_that_waits_leaves_if_nobody_has_decided(ledger: Path) -> None:
    chat, mail = two()
    chat.platform.fail_next(Fault.DROP)
    mail.platform.fail_next(Fault.LIMIT)
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        await desk.say("chat:room", "hello")
        await desk.pass_time(3600)
        assert len(mail.platform.shown("room")) == 1


async def list_notice_parts(desk: Desk) -> list[dict[str, Any]]:
    """The parts on the other channel."""
    return [part for part in await desk.store.read(parts.list_newest) if part["channel"] == "mail"]


async def test_the_conversation_there_knows_what_its_person_was_told(ledger: Path) -> None:
    chat, mail = two()
    chat.platform.fail_next(Fault.REJECT)
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        await desk.store.write(
            lambda tx: tx.number("session_add", key="main:mail:room", agent="main", home="mail:room", at=tx.now)
        )
        await desk.say("chat:room", "hello")
        await desk.quiet()
        [notice] = await desk.notices("main:mail:room")
        assert notice.text == mail.platform.shown("room")[0]
        await balanced(desk)


async def test_one_such_notice_leaves_in_ten_minutes(ledger: Path) -> None:
    chat, mail = two()
    chat.platform.fail_always(Fault.REJECT)
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        for n in range(5):
            await desk.say("chat:room", f"{n}")
            await desk.pass_time(100)
        assert len(mail.platform.log) == 1
        await desk.pass_time(101)
        await desk.say("chat:room", "last")
        await desk.quiet()
        assert [text.rpartition(" ")[2] for text in mail.platform.shown("room")] == ['"0".', '"last".']
        assert len([n for n in await desk.notices() if n.text.startswith("A message to chat:room")]) == 6
        await balanced(desk)


async def test_a_failure_notice_that_fails_makes_no_other(ledger: Path) -> None:
    chat, mail = two()
    news = FakeChannel("news", Safety.AT_MOST_ONCE)
    for channel in (chat, mail, news):
        channel.platform.fail_always(Fault.REJECT)
    async with Desk(ledger, chat, mail, news) as desk:
        await desk.store.write(ann, "chat", "mail", "news")
        await desk.say("chat:room", "hello")
        await desk.pass_time(3600)
        tries = [sum(channel.platform.attempts.values()) for channel in (chat, mail, news)]
        assert sorted(tries) == [0, 1, 1], "the message, and one notice of it"
        await balanced(desk)


async def test_nobody_is_told_on_a_channel_that_is_not_there(ledger: Path) -> None:
    chat, _ = two()
    chat.platform.fail_next(Fault.REJECT)
    async with Desk(ledger, chat) as desk:
        await desk.store.write(ann, "chat", "mail")
        await desk.say("chat:room", "hello")
        await desk.quiet()
        assert len(await desk.notices()) == 1


async def test_what_is_given_up_after_three_days_is_told_elsewhere_too(ledger: Path) -> None:
    chat, mail = two()
    chat.platform.fail_always(Fault.REFUSE)
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        await desk.say("chat:room", "hello")
        await desk.pass_time(2 * 3600)
        assert mail.platform.log == []
        await desk.clock.advance(71 * 3600)
        await desk.pass_time(3600)
        [told] = mail.platform.shown("room")
        assert told.startswith("A message for you on chat could not be delivered: given up after ")
