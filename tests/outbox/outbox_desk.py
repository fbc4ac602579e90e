"""A desk to test the outbox at: a real ledger in a file, fake channels, and a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from semel.gateway.outbound.outbox import Outbox
from semel.gateway.ports import Channel
from semel.law.delivery import Rules, explain_hold
from semel.ledger.delivery import parts, send_queue
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import AddedClaim, EntryRow, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.testing import FrozenClock

BOUND = 20.0
"""Seconds a test waits for something that should happen at once: other things run on this machine."""
WHY_HELD = explain_hold(Rules("at-most-once"), first_attempt_at=0, now=0)
"""The end of the error of a part that is held on an at-most-once channel."""


def say(tx: Tx, dest: str, texts: list[str], session: str = "main:test", **op: Any) -> list[int]:
    """One said claim with its entry and one part for each text; the ids of the parts."""
    row = tx.one(SessionRow, "session_by_key", key=session)
    home = row.id if row else tx.number("session_add", key=session, agent="main", home=None, at=tx.now)
    text = "".join(texts)
    numbers = entries.take_next(tx, home)
    claim = tx.get(
        AddedClaim, "claim_add", session=home, turn=None, root=None, how="tool", kind="text", late=0, spawn=None,
        conn=None, call=None, tool=None, args=None, dest=dest, digest=None, text=text, outcome="said",
        reason=None, echo_of=op.pop("echo_of", None), seq=numbers.seq, at=tx.now,
    ).id  # fmt: skip
    entries.add_entry(tx, home, role="agent", text=text, claim=claim, numbers=numbers)
    ids, lo = [], 0
    for n, each in enumerate(texts):
        ids.append(
            int(
                tx.number(
                    "part_add", line=parts.take_place(tx, dest), claim=claim, n=n, lo=lo, hi=lo + len(each),
                    channel=dest.partition(":")[0], dest=dest, key=f"key-{claim}-{n}",
                    op=entries.dump({"kind": "post", "text": each, **op}), at=tx.now,
                )
            )
        )  # fmt: skip
        lo += len(each)
    return ids


def echo(tx: Tx, part: int) -> None:
    """The agent repeats what that part said: an echo that relies on it."""
    row = parts.get(tx, part)
    tx.get(
        AddedClaim, "claim_add", session=row.session, turn=None, root=None, how="block", kind="text", late=0,
        spawn=None, conn=None, call=None, tool=None, args=None, dest=row.dest, digest=None, text="", outcome="echo",
        reason=None, echo_of=row.claim, seq=None, at=tx.now,
    )  # fmt: skip


class Desk:
    """`async with Desk(path, channel, ...) as desk`: the outbox runs."""

    def __init__(self, path: Path, *channels: Channel, clock: FrozenClock | None = None, **options: Any) -> None:
        self.clock = clock or FrozenClock()
        self.store = Store.open(path, clock=self.clock.now)
        self.writes = 0
        self.outbox = Outbox(
            self,
            {channel.name: channel for channel in channels},
            options.pop("outbox_clock", self.clock),
            jitter=lambda: 0.5,
            **options,
        )
        self.task: asyncio.Task[None] | None = None
        self.before_write: Callable[[Any], None] = lambda body: None

    async def write(self, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.writes += 1
        self.before_write(body)
        return await self.store.write(body, *args, **kwargs)

    async def read(self, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await self.store.read(body, *args, **kwargs)

    async def __aenter__(self) -> Desk:
        self.task = asyncio.create_task(self.outbox.run())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self.task is not None
        await self.outbox.stop(0)
        await asyncio.wait_for(self.task, BOUND)
        self.store.close()

    async def say(self, dest: str, *texts: str, **more: Any) -> list[int]:
        ids: list[int] = await self.store.write(say, dest, list(texts), **more)
        self.outbox.kick()
        return ids

    async def decide(self, part: int, decision: send_queue.Decision, by: str = "a person") -> dict[str, Any]:
        done = await self.store.write(send_queue.decide, part, decision, by)
        self.outbox.kick()
        return done

    async def quiet(self) -> None:
        """Nothing is under way and nothing is due."""
        await asyncio.wait_for(self.outbox.wait_until_idle(), BOUND)

    async def until(self, true: Callable[[], bool]) -> None:
        """Something is true that the event loop makes true."""
        async with asyncio.timeout(BOUND):
            while not true():  # noqa: ASYNC110 - what is waited for is plain state
                await asyncio.sleep(0.001)

    async def pass_time(self, seconds: float) -> None:
        """Time passes, and everything that is due in it happens."""
        await self.quiet()
        end = self.clock.now() + round(seconds * 1000)
        while (at := self.clock.next) is not None and at <= end:
            await self.clock.advance_to_next()
            await self.quiet()
        await self.clock.advance((end - self.clock.now()) / 1000)
        await self.quiet()

    async def part(self, id: int) -> dict[str, Any]:
        return await self.store.read(parts.get_json, id)

    async def states(self, ids: list[int]) -> list[str]:
        return [(await self.part(id))["state"] for id in ids]

    async def notices(self, session: str = "main:test") -> list[Any]:
        def look(tx: Tx) -> list[Any]:
            row = tx.get(SessionRow, "session_by_key", key=session)
            assert row.wake_at is None, "a notice must never wake"
            rows = tx.all(EntryRow, "entries_last", session=row.id, before=10**9, limit=1000)
            return [entry for entry in reversed(rows) if entry.role == "notice"]

        return await self.store.read(look)


async def kill(desk: Desk) -> None:
    """As SIGKILL does it: whatever is under way is recorded by nobody."""
    assert desk.task is not None
    desk.outbox._ledger = None  # type: ignore[assignment]
    await desk.outbox.previews.stop()
    tasks = [desk.task, *desk.outbox._under_way]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    desk.store.close()
