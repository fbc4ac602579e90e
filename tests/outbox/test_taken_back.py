"""A preview of text that the record takes back, because it turned out to be a copy: it does not leave, nor stay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from gateway_world import script
from stream_world import ROOM, Board, asked, world

from semel.gateway.clock import SystemClock
from semel.gateway.outbound import previews
from semel.gateway.outbound.previews import DestinationPace, Previews
from semel.gateway.ports import NotSent, Op, Receipt, Safety
from semel.gateway.record import LedgerAccess
from semel.ledger.delivery.placeholders import PlaceholderReceipt
from semel.ledger.turns import turn_ops
from semel.testing import FakeChannel, Fault

DEST, PART = "chat:room", 7


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "MIN_EDIT_INTERVAL_S", 0.02)


class Placeholder:
    """A ledger that knows one message. `gate`: each read waits for it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.reads = 0

    async def read(self, *_: Any) -> PlaceholderReceipt:
        self.reads += 1
        await self.gate.wait()
        return PlaceholderReceipt("m1", "main:chat:room")


class Shown:
    """Previews in one message of a chat."""

    def __init__(self) -> None:
        self.ledger, self.chat = Placeholder(), FakeChannel("chat", Safety.AT_MOST_ONCE, deletes=True)
        clock = SystemClock()
        ledger: Any = self.ledger
        self.previews = Previews(
            ledger, {"chat": self.chat}, clock, DestinationPace(clock), asyncio.Event(), lambda: True
        )

    async def __aenter__(self) -> Shown:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.previews.stop()

    def show(self, text: str) -> None:
        self.previews.show(DEST, PART, lambda: text)

    @property
    def edits(self) -> list[str]:
        return [post.text for post in self.chat.platform.log]

    async def until_edited(self, *texts: str) -> None:
        async with asyncio.timeout(5):
            while self.edits != [*texts]:  # noqa: ASYNC110 - what is waited for is plain state
                await asyncio.sleep(0.005)

    async def until_it_reads(self) -> None:
        async with asyncio.timeout(5):
            while not self.ledger.reads:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


async def test_an_edit_shows_what_is_recorded_when_it_leaves_not_when_it_was_due() -> None:
    async with Shown() as chat:
        chat.ledger.gate.clear()
        chat.show("It isIt is 42")
        await chat.until_it_reads()
        chat.show("It is 42")
        chat.ledger.gate.set()
        await chat.until_edited("It is 42 …")


async def test_no_edit_leaves_while_the_record_takes_text_back() -> None:
    async with Shown() as chat:
        chat.ledger.gate.clear()
        chat.show("It isIt is 42")
        await chat.until_it_reads()
        chat.previews.withhold(PART)
        chat.ledger.gate.set()
        await asyncio.sleep(0.1)
        assert chat.edits == []
        chat.show("It is 42")
        await chat.until_edited("It is 42 …")


async def test_no_edit_leaves_once_its_preview_has_ended() -> None:
    async with Shown() as chat:
        chat.ledger.gate.clear()
        chat.show("It isIt is 42")
        await chat.until_it_reads()
        chat.previews.end(PART)
        chat.ledger.gate.set()
        async with asyncio.timeout(5):
            await chat.previews.wait_until_settled(DEST)
        assert chat.edits == []


async def test_text_that_was_taken_back_does_not_stay_if_its_edit_was_not_answered() -> None:
    """The edit arrived, although nobody answered: what the message says is not known, whatever was shown before."""
    async with Shown() as chat:
        chat.show("It is")
        await chat.until_edited("It is …")
        lost = [Fault.DROP]
        chat.chat.platform.always = lambda op: lost.pop() if lost else None
        chat.show("It isIt is")
        await chat.until_edited("It is …", "It isIt is …")
        chat.previews.withhold(PART)
        chat.show("It is")
        await chat.until_edited("It is …", "It isIt is …", "It is …")


class NeverNow(FakeChannel):
    """A chat that never takes an edit of a preview now, so that one is always due. `tried`: their texts."""

    tried: list[str]

    async def send(self, op: Op) -> Receipt:
        if op.kind == "edit" and op.text.endswith(previews.MORE_MARKER):
            self.tried.append(op.text)
            raise NotSent("not now", 0.0)
        return await super().send(op)


async def test_no_preview_leaves_from_a_turn_while_its_text_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent delivers a text again from a broken word on. Its first attempt is taken back once that is certain."""
    attempt = " ".join(f"step{n} is done" for n in range(20))
    channel, write, meanwhile = NeverNow("chat", Safety.AT_MOST_ONCE, deletes=True), LedgerAccess.write, list[str]()
    channel.tried = []

    async def slow(self: LedgerAccess, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = await write(self, body, *args, **kwargs)
        if any(isinstance(op, turn_ops.Replace) for arg in args if isinstance(arg, list) for op in arg):
            channel.tried.clear()
            await asyncio.sleep(0.2)  # committed, and the turn does not know it yet
            meanwhile.extend(["recorded", *channel.tried])
        return result

    monkeypatch.setattr(LedgerAccess, "write", slow)
    async with world(tmp_path, channel, args=("--name", "fast-agent")) as w:
        again = {"text": f"{attempt} and all of it is well", "chunks": 8, "delay": 0.1}
        await asked(w, channel, script({"text": attempt, "chunks": 2, "delay": 0.1}, again))
        await w.idle(ROOM)
        await w.sent()
        assert meanwhile == ["recorded"]
        assert Board(channel.platform).messages() == [f"{attempt} and all of it is well"]
