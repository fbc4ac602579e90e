"""Whatever a platform answers, its part is settled and its destination goes on (Law 7)."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from outbox_desk import WHY_HELD, Desk

from semel.channels.webhook import WebhookChannel, WebhookSettings
from semel.gateway.outbound.outbox import UNRECORDED
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Safety, Unknown
from semel.law.identity import KEY_LENGTH
from semel.ledger.delivery import send_queue
from semel.testing import FakeChannel, Fault
from semel.text.wellformed import MAX_REASON_CHARS

sys.path.append(str(Path(__file__).parents[1] / "channels"))

from http_server import answers, serve

HOUR = 3600.0
EVERY_CLASS = list(Safety)
UNUSABLE: list[Any] = ["\ud800evil", "\x1b[2Jevil", "evil\0", "", "x" * (KEY_LENGTH + 1), None, b"bytes", ["m1"]]


class Odd(FakeChannel):
    """Its platform takes every message, and answers as it likes."""

    def __init__(self, answer: Any, safety: Safety = Safety.AT_MOST_ONCE) -> None:
        super().__init__("chat", safety)
        self.answer = answer

    async def send(self, op: Op) -> Receipt:
        await super().send(op)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return Receipt(self.answer)


@pytest.mark.parametrize("safety", EVERY_CLASS)
@pytest.mark.parametrize("id", UNUSABLE, ids=ascii)
async def test_a_message_whose_id_cannot_be_kept_is_sent_and_what_follows_leaves(
    ledger: Path, id: Any, safety: Safety, caplog: pytest.LogCaptureFixture
) -> None:
    chat = Odd(id, safety)
    async with Desk(ledger, chat) as desk:
        [first] = await desk.say("chat:room", "one")
        [edit] = await desk.say("chat:room", "won", kind="edit", target_part=first)
        [last] = await desk.say("chat:room", "two")
        await desk.quiet()
        assert await desk.states([first, edit, last]) == ["sent", "rejected", "sent"]
        assert chat.platform.shown("room") == ["one", "two"], "nothing goes to an id that is another one"
        assert "receipt" not in await desk.part(first)
        assert "its platform gave none" in (await desk.part(edit))["error"]
        assert f"'chat' accepted part {first} but gave no message id that can be stored" in caplog.text


@pytest.mark.parametrize("id", ["m 1", "ключ", "\u202e<1@x>", "\U0001f600", "x" * KEY_LENGTH])
async def test_an_id_of_odd_characters_is_kept_to_the_letter_and_edits_go_there(ledger: Path, id: str) -> None:
    chat = Odd(id)
    async with Desk(ledger, chat) as desk:
        [first] = await desk.say("chat:room", "one")
        await desk.say("chat:room", "won", kind="edit", target_part=first)
        await desk.quiet()
        assert (await desk.part(first))["receipt"] == id
        assert [(post.kind, post.target) for post in chat.platform.log] == [("post", None), ("edit", id)]


async def test_a_number_for_an_id_is_its_digits(ledger: Path) -> None:
    async with Desk(ledger, Odd(12)) as desk:
        [part] = await desk.say("chat:room", "one")
        await desk.quiet()
        assert (await desk.part(part))["receipt"] == "12"


async def test_a_receiver_of_webhooks_does_not_stop_its_own_destination(ledger: Path) -> None:
    """What a JSON escape makes of an answer is no UTF-8: one answer of a receiver is not the end of it."""
    async with serve(answers(200, b'{"id": "\\ud800evil"}')) as server:
        hook = WebhookChannel("hook", WebhookSettings(url=server.url, allow_private=True))
        async with Desk(ledger, hook) as desk:
            [first] = await desk.say("hook:room", "one")
            [second] = await desk.say("hook:room", "two")
            await desk.until(lambda: len(server.requests) == 2)
            await desk.quiet()
            assert await desk.states([first, second]) == ["sent", "sent"]
        async with Desk(ledger, hook) as desk:
            await desk.quiet()
            assert len(server.requests) == 2, "nothing is POSTed again after a start"


async def test_an_echo_settles_a_part_whatever_id_it_tells(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.DROP)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "one")
        await desk.quiet()
        assert await desk.store.write(send_queue.settle_reported_part, "chat", "key-1-0", "\ud800")
        assert "receipt" not in await desk.part(part) and await desk.states([part]) == ["sent"]


@pytest.fixture
def no_log() -> Iterator[None]:
    """No logger writes, whatever its level: what pytest would keep of the log cannot go to another process."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Unsayable(Rejected):
    """An error of a channel from elsewhere that cannot be shown."""

    def __str__(self) -> str:
        raise UnicodeError("no")


@pytest.mark.parametrize(
    ("error", "state", "why"),
    [
        (Rejected("no\ud800\x1b[2J\0\n you"), "rejected", "no\ufffd [2J\u2400 you"),
        (Rejected("x" * 1_000_000), "rejected", "x" * (MAX_REASON_CHARS - 1) + "…"),
        (Rejected(), "rejected", "Rejected"),
        (Unsayable(), "rejected", "Unsayable"),
        (Unknown("\udfff"), "held", f"\ufffd; {WHY_HELD}"),
        (RuntimeError("\ud800"), "held", f"the channel failed: \ufffd; {WHY_HELD}"),
        (asyncio.CancelledError(), "held", f"the channel gave no reason; {WHY_HELD}"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_reason_is_one_line_that_can_be_stored_and_shown(
    ledger: Path, error: BaseException, state: str, why: str, no_log: None
) -> None:
    chat = Odd(error)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "one")
        await desk.quiet()
        found = await desk.part(part)
        assert (found["state"], found["error"]) == (state, why)
        chat.answer = "m2"
        [after] = await desk.say("chat:room", "two")
        await desk.quiet()
        assert await desk.states([after]) == ["sent"]


async def test_a_time_to_wait_that_is_none_is_not_waited_for(ledger: Path) -> None:
    chat = Odd(NotSent("429", "soon"))  # type: ignore[arg-type]
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "one")
        await desk.quiet()
        assert await desk.states([part]) == ["queued"]
        chat.answer = "m1"
        await desk.pass_time(60)
        assert await desk.states([part]) == ["sent"]


@pytest.mark.parametrize(
    ("safety", "settled", "attempts"),
    [(Safety.IDEMPOTENT, "sent", 2), (Safety.RECONCILABLE, "sent", 1), (Safety.AT_MOST_ONCE, "held", 1)],
)
async def test_an_outcome_that_cannot_be_recorded_is_as_if_no_answer_had_come(
    ledger: Path, safety: Safety, settled: str, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the reason is, a part does not stay `sending` until the next start, with all behind it."""
    chat = FakeChannel("chat", safety)
    async with Desk(ledger, chat) as desk:
        failed: list[str] = []

        def fail_once(body: Any) -> None:
            if body is send_queue.record_outcome and not failed:
                failed.append("once")
                raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

        desk.before_write = fail_once
        [part] = await desk.say("chat:room", "one")
        [after] = await desk.say("chat:room", "two")
        await desk.pass_time(HOUR)
        assert await desk.states([part, after]) == [settled, "sent"]
        assert chat.platform.attempts["key-1-0"] == attempts
        assert chat.platform.shown("room") == ["one", "two"]
        assert f"the outcome of part {part} cannot be recorded: receipt" in caplog.text
        if settled == "held":
            assert (await desk.part(part))["error"] == f"{UNRECORDED}: receipt; {WHY_HELD}"


async def test_a_look_that_cannot_be_recorded_is_made_again(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.RECONCILABLE)
    chat.platform.fail_next(Fault.DROP)
    async with Desk(ledger, chat) as desk:
        failed: list[str] = []

        def fail_at_the_look(body: Any) -> None:
            if body is send_queue.record_outcome and chat.platform.finds and not failed:
                failed.append("once")
                raise ValueError("a row that makes no sense")

        desk.before_write = fail_at_the_look
        [part] = await desk.say("chat:room", "one")
        await desk.pass_time(HOUR)
        assert failed and await desk.states([part]) == ["sent"]
        assert chat.platform.finds["key-1-0"] == 2 and chat.platform.attempts["key-1-0"] == 1
