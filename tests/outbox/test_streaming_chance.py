"""Reserve, fill and remove under whatever chance brings: lost answers, refused connections, turns that are lost or
stopped, other messages in between, and gateways that die at any point. At the end the platform's own log is read."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from outbox_desk import Desk, kill
from stream_world import Board

from semel.gateway.outbound.destinations import Destinations
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.ledger.admin import books
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.inbound import hear
from semel.ledger.storage.rows import OutgoingPart, SessionRow, TurnRow
from semel.ledger.turns import finish_turn, show, turn_ops, turns
from semel.testing import FakeChannel, Fault, FrozenClock

HOME, KEY = "chat:room", "main:chat:room"
FAULTS = [None] * 6 + [Fault.DROP, Fault.LOSE, Fault.REFUSE, Fault.LIMIT, Fault.ERROR_AFTER, Fault.BUG]
TURNS, BATCHES, DEATHS = 10, 4, 0.08


class Died(Exception):
    """SIGKILL to the gateway."""


class Life:
    """A gateway that runs turns by hand, on a ledger and a platform that outlive it."""

    def __init__(self, ledger: Path, safety: Safety, seed: int) -> None:
        self.ledger, self.dice, self.clock = ledger, random.Random(seed), FrozenClock()
        self.chat = FakeChannel("chat", safety, key_life=10**6, deletes=True)
        self.places = Destinations(
            {}, {"chat": ChannelSettings(name="chat", kind="fake", stream=True)}, {"chat": self.chat}
        )
        self.said: list[str] = []
        self.lives = 0

    async def __aenter__(self) -> Life:
        self.desk = await Desk(self.ledger, self.chat, clock=self.clock).__aenter__()
        self.lives += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        await kill(self.desk)

    async def chance(self) -> None:
        """Some time passes, or the gateway dies."""
        self.desk.outbox.kick()
        if self.dice.random() < DEATHS:
            raise Died
        if self.dice.random() < 0.6:
            await self.desk.pass_time(self.dice.choice([0.1, 2, 30]))

    async def write(self, body: Any, *args: Any) -> Any:
        done = await self.desk.store.write(body, *args)
        self.desk.outbox.kick()
        return done

    async def turns(self) -> None:
        """Turns until there were enough."""
        while len([text for text in self.said if text]) < TURNS or await self.desk.store.read(_busy):
            text = f"answer {len(self.said)}"
            if not await self.desk.store.read(_busy):
                event = hear.Event("channel:chat", text, "message", "go", text.encode())
                await self.write(hear.hear, event, [hear.Addressee(KEY, "main", HOME)])
            begun = await self.write(turns.begin, 1, f"g{self.lives}")
            if isinstance(begun, turns.BegunTurn):
                self.said.append(text)
                await self._turn(begun, text)

    async def _turn(self, begun: turns.BegunTurn, text: str) -> None:
        fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
        await self.write(turns.record_prompting, fence, "start" if begun.attempt == 1 else "resume", 1, "m", {})
        caller = Caller(begun.session, KEY, begun.turn, begun.root, "start" if begun.attempt == 1 else "resume")
        slots, shown = turn_ops.Slots(), ""
        for word in (text + " of it.").split(" ")[: self.dice.randrange(BATCHES + 1)]:
            await self.chance()
            shown += word + " "
            ops = [turn_ops.Preview(1, word + " "), turn_ops.Reserve(self.places.placeholder_leg(HOME, KEY))]
            slots = await self.write(show.show, fence, caller, ops, slots)
            if slots.reserved is not None:
                self.desk.outbox.previews.show(HOME, slots.reserved, lambda shown=shown: shown)
            if self.dice.random() < 0.2:
                await self._aside(caller)
        await self.chance()
        await self._end(fence, caller, slots, text)
        await self.chance()

    async def _aside(self, caller: Caller) -> None:
        """Something else is said there meanwhile."""
        from semel.ledger.delivery import claims

        text = f"aside {self.dice.random()}"
        await self.write(
            claims.say, caller, ClaimRequest("tool", text, HOME, legs=self.places.cut_legs(HOME, KEY, text))
        )

    async def _end(self, fence: turns.TurnFence, caller: Caller, slots: turn_ops.Slots, text: str) -> None:
        how = self.dice.choice(["answered", "answered", "answered", "cancelled by the ledger", "says nothing"])
        if how == "cancelled by the ledger":
            row = await self.desk.store.read(lambda tx: tx.one(TurnRow, "turn_get", id=fence.turn))
            await self.write(turns.cancel, fence.session, row, "Stopped.", 1)
            self.said[-1] = ""
        elif how == "says nothing":
            await self.write(finish_turn.finish, fence, caller, [], slots, finish_turn.End("answered", "end_turn"))
            self.said[-1] = ""
        else:
            block = turn_ops.Block(1, (ClaimRequest("block", text, HOME),))
            end = finish_turn.End("answered", "end_turn", None, 0, 1, self.places.cut_answer(HOME, KEY, text))
            await self.write(finish_turn.finish, fence, caller, [block], slots, end)


def _busy(tx: Any) -> bool:
    row = tx.one(SessionRow, "session_by_id", id=1)
    return row is not None and row.turn is not None


def _parts(tx: Any) -> list[Any]:
    return [
        tx.one(OutgoingPart, "part_get", id=n)
        for n in range(1, 2000)
        if tx.one(OutgoingPart, "part_get", id=n) is not None
    ]


async def live(ledger: Path, safety: Safety, seed: int) -> Life:
    life = Life(ledger, safety, seed)
    life.chat.platform.always = lambda op: life.dice.choice(FAULTS)
    while True:
        try:
            async with life:
                await life.turns()
                return life
        except Died:
            if life.said and await _lost(life):
                life.said[-1] = ""  # it never ended: its answer was not said, or another attempt says its own


async def _lost(life: Life) -> bool:
    async with Desk(life.ledger, clock=life.clock) as desk:
        return await desk.store.read(_busy)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(int(os.environ.get("SEMEL_SEEDS", "2"))))
@pytest.mark.parametrize("safety", list(Safety))
async def test_no_answer_comes_twice_none_is_lost_and_no_mark_stays(tmp_path: Path, safety: Safety, seed: int) -> None:
    life = await live(tmp_path / "semel.db", safety, seed)
    platform = life.chat.platform
    platform.always = lambda op: None
    async with Desk(life.ledger, life.chat, clock=life.clock) as desk:
        await desk.pass_time(3 * 3600)
        found = await desk.store.read(_parts)
        broken = [book for book in await desk.store.read(books.audit) if not book.ok]
        assert not broken, broken
    shown = Counter(Board(platform).messages())
    assert {row.state for row in found} <= {"sent", "held", "rejected", "dropped"}
    held = {row.op for row in found if row.state == "held"}
    assert not held or safety is Safety.AT_MOST_ONCE
    assert not any('"edit"' in op or '"delete"' in op for op in held), "what is idempotent is never held"
    answers = [text for text in life.said if text]
    assert len(answers) >= TURNS
    for text in answers:
        asks = any(f'"text":"{text}"' in op for op in held)
        assert shown[text] <= 1 and shown[text] + asks >= 1, f"{text}: shown {shown[text]} times"
    stray = sum(shown[text] for text in shown if text.endswith("…"))
    lost = sum(row.outcome == "quiet" and row.n == 0 and row.state == "dropped" for row in found)
    assert stray <= lost, "a mark stays only where nobody knows that it is there"
    assert safety is Safety.AT_MOST_ONCE or not stray


async def test_what_two_lost_attempts_showed_leaves_once_each_and_in_order(tmp_path: Path) -> None:
    """The second began as the first, so what it showed was not known to be another text when it was lost."""
    life = Life(tmp_path / "semel.db", Safety.AT_MOST_ONCE, 0)
    for seen in (["Let ", "me see."], ["Let me "]):
        async with life:
            if life.lives == 1:
                event = hear.Event("channel:chat", "Go.", "message", "go", b"go")
                await life.write(hear.hear, event, [hear.Addressee(KEY, "main", HOME)])
            begun = await life.write(turns.begin, 1, f"g{life.lives}")
            fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
            how = "start" if begun.attempt == 1 else "resume"
            await life.write(turns.record_prompting, fence, how, 1, "m", {})
            caller, slots = Caller(begun.session, KEY, begun.turn, begun.root, how), turn_ops.Slots()
            for text in seen:
                ops = [turn_ops.Preview(1, text), turn_ops.Reserve(life.places.placeholder_leg(HOME, KEY))]
                slots = await life.write(show.show, fence, caller, ops, slots)
                await life.desk.pass_time(2)
    async with life:
        begun = await life.write(turns.begin, 1, "g3")
        row = await life.desk.store.read(lambda tx: tx.one(TurnRow, "turn_get", id=begun.turn))
        await life.write(turns.cancel, 1, row, "Stopped.", None)
        await life.desk.pass_time(60)
        assert Board(life.chat.platform).messages() == ["Let me see.", "Let me ", "Stopped."]
        assert [book for book in await life.desk.store.read(books.audit) if not book.ok] == []
