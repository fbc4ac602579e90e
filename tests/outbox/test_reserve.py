"""A post in two steps: a placeholder reserves its place, and an edit fills it, so that a lost answer holds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from outbox_desk import Desk, kill
from stream_world import Board, TypingChannel

from semel.gateway.ports import Op, Receipt, Rejected, Safety
from semel.ledger.admin import books
from semel.ledger.backup.settle_restored import settle_copy
from semel.ledger.delivery import send_queue
from semel.ledger.storage.sql import Tx
from semel.testing import Fault, Platform

HOUR = 3600.0
DOTS = "…"


class Chat(TypingChannel):
    """An at-most-once platform where messages can be edited and deleted."""

    def __init__(self, platform: Platform | None = None, **facts: Any) -> None:
        super().__init__("chat", Safety.AT_MOST_ONCE, platform, **{"deletes": True, **facts})
        self.board = Board(self.platform)


def desk(ledger: Path, chat: Chat) -> Desk:
    return Desk(ledger, chat, reserve=["chat"])


def steps(chat: Chat) -> list[tuple[str, str]]:
    return [(post.kind, post.text) for post in chat.platform.log]


async def check_books(at: Desk) -> None:
    assert [book for book in await at.store.read(books.audit) if not book.ok] == []


async def test_a_post_reserves_its_place_and_fills_it(ledger: Path) -> None:
    chat = Chat(pace=1.0)
    async with desk(ledger, chat) as at:
        [part] = await at.say("chat:room", "hello")
        await at.quiet()
        assert steps(chat) == [("post", DOTS), ("edit", "hello")], "the text does not wait for the pace"
        told = await at.part(part)
        assert (told["state"], told["kind"], told["receipt"]) == ("sent", "post", "m1")
        await check_books(at)


async def test_lost_answers_hold_nothing_and_show_nothing_twice(ledger: Path) -> None:
    chat = Chat()
    chat.platform.fail_next(Fault.DROP, Fault.LOSE, None, Fault.DROP, Fault.ERROR_AFTER)
    async with desk(ledger, chat) as at:
        ids = await at.say("chat:room", "one", "two")
        await at.pass_time(HOUR)
        assert await at.states(ids) == ["sent", "sent"]
        assert chat.board.messages() == [DOTS, "one", "two"], "a lost answer leaves at worst a placeholder"
        assert await at.notices() == []
        await check_books(at)


async def test_an_outage_leaves_one_placeholder_however_long_it_lasts(ledger: Path) -> None:
    chat = Chat(typing=True)
    chat.platform.fail_always(Fault.DROP)

    async def fail(address: str) -> None:
        raise OSError("no answer")

    chat.meanwhile = fail
    async with desk(ledger, chat) as at:
        ids = await at.say("chat:room", "one", "two")
        await at.pass_time(HOUR)
        assert steps(chat) == [("post", DOTS)]
        assert "the platform gives no answers now: no answer" in (await at.part(ids[0]))["error"]
        chat.platform.fail_always(None)
        chat.meanwhile = None
        await at.pass_time(HOUR)
        assert await at.states(ids) == ["sent", "sent"]
        assert chat.board.messages() == [DOTS, "one", "two"]


@pytest.mark.parametrize("lost", [1, 2], ids=["at the placeholder", "at the text"])
async def test_a_kill_holds_nothing(ledger: Path, lost: int) -> None:
    chat = Chat()
    chat.platform.fail_next(*[None] * (lost - 1), Fault.HANG_AFTER)
    at = desk(ledger, chat)
    await at.__aenter__()
    [part] = await at.say("chat:room", "one")
    await at.until(lambda: len(chat.platform.log) == lost)
    await kill(at)
    async with desk(ledger, chat) as at:
        await at.pass_time(HOUR)
        assert (await at.part(part))["state"] == "sent"
        assert chat.board.messages() == [DOTS, "one"] if lost == 1 else ["one"]


async def test_a_place_that_somebody_removed_is_given_up(ledger: Path) -> None:
    """The text is then posted as it is, and the placeholder is deleted if it is still there."""
    chat = NoFill()
    async with desk(ledger, chat) as at:
        [part] = await at.say("chat:room", "one")
        await at.quiet()
        assert (await at.part(part))["state"] == "sent"
        assert steps(chat) == [("post", DOTS), ("post", "one"), ("delete", "")]
        assert chat.board.messages() == ["one"]
        await check_books(at)


class NoFill(Chat):
    """Refuses each edit for good."""

    async def send(self, op: Op) -> Receipt:
        if op.kind == "edit":
            raise Rejected("message to edit not found")
        return await super().send(op)


async def test_what_is_refused_leaves_no_placeholder(ledger: Path) -> None:
    chat = Chat()
    chat.platform.fail_next(None, Fault.REJECT, Fault.REJECT)
    async with desk(ledger, chat) as at:
        [part] = await at.say("chat:room", "one")
        await at.quiet()
        assert (await at.part(part))["state"] == "rejected"
        assert chat.board.messages() == []
        await at.decide(part, "resend")
        await at.quiet()
        assert (await at.part(part))["state"] == "sent"
        assert chat.board.messages() == ["one"]
        await check_books(at)


async def test_a_fill_that_may_have_arrived_and_is_refused_is_held(ledger: Path) -> None:
    chat = Chat()
    chat.platform.fail_next(None, Fault.DROP, Fault.REJECT)
    async with desk(ledger, chat) as at:
        [part] = await at.say("chat:room", "one")
        await at.pass_time(HOUR)
        assert (await at.part(part))["state"] == "held"
        await at.decide(part, "resend")
        await at.quiet()
        assert (await at.part(part))["state"] == "sent"
        assert chat.board.messages() == ["one", "one"], "a person asked for it"
        assert [post.marked for post in chat.platform.log] == [False, False, False, True], (
            "the placeholder is no repeat"
        )


async def test_a_report_of_a_placeholder_is_its_receipt_and_not_that_of_the_text(ledger: Path) -> None:
    chat = Chat()
    chat.platform.fail_next(Fault.DROP)
    async with desk(ledger, chat) as at:
        [part] = await at.say("chat:room", "one")
        await at.quiet()
        assert (await at.part(part))["state"] == "queued"
        assert await at.store.write(send_queue.settle_reported_part, "chat", f"key-{part}-0", "m1")
        at.outbox.kick()
        await at.quiet()
        assert chat.board.messages() == ["one"], "the placeholder was found, and filled"
        assert not await at.store.write(send_queue.settle_reported_part, "chat", f"key-{part}-0", "m1")


async def test_a_ledger_that_was_put_back_holds_what_had_only_reserved_its_place(ledger: Path) -> None:
    """Since the copy, the place may have been filled: the text would come twice."""
    chat = Chat()
    chat.platform.fail_always(Fault.DROP)
    async with desk(ledger, chat) as at:
        [part] = await at.say("chat:room", "one")
        await at.quiet()
        assert (await at.part(part))["state"] == "queued"
    chat.platform.fail_always(None)
    at = desk(ledger, chat)
    await at.store.write(put_back)
    async with at:
        await at.pass_time(HOUR)
        assert (await at.part(part))["state"] == "held"
        assert steps(chat) == [("post", DOTS)]


def put_back(tx: Tx) -> None:
    tx.run("ledger_copied", at=tx.now, incarnation=0)
    settle_copy(tx)


async def test_a_file_is_sent_as_it_is(ledger: Path, tmp_path: Path) -> None:
    chat = Chat()
    async with desk(ledger, chat) as at:
        await at.say("chat:room", "a list", kind="file", file=str(tmp_path / "list.txt"), name="list.txt")
        await at.quiet()
        assert [kind for kind, _ in steps(chat)] == ["file"]


async def test_a_text_that_says_nothing_needs_no_place(ledger: Path) -> None:
    """A platform refuses it: nothing may stay in the chat."""
    chat = Chat()
    async with desk(ledger, chat) as at:
        await at.say("chat:room", " \n")
        await at.quiet()
        assert steps(chat) == [("post", " \n")]


async def test_without_the_setting_a_post_is_one_message(ledger: Path) -> None:
    chat = Chat()
    async with Desk(ledger, chat) as at:
        await at.say("chat:room", "hello")
        await at.quiet()
        assert steps(chat) == [("post", "hello")]
