"""What is done with an agent's process before it is asked: its replay runs out, and how it is asked is made durable."""

from __future__ import annotations

import asyncio
from typing import Any

from semel.gateway.ports import Died, Update
from semel.gateway.record import Record
from semel.gateway.spawns import Live
from semel.law import turn as law
from semel.law.stream import Fold
from semel.ledger import turns
from semel.ledger.turns import Fence

REPLAY_QUIET = 0.05  # seconds without a signal after which a replay counts as over


async def replayed(live: Live, fold: Fold) -> None:
    """Let a replay run out: what a restored agent tells of the past, before it is asked anything."""
    kept: list[Any] = []
    while True:
        try:
            signal = await asyncio.wait_for(live.signals.get(), REPLAY_QUIET)
        except TimeoutError:
            break
        if isinstance(signal, Update):
            fold.update(signal.data, replay=signal.replay)
        else:
            kept.append(signal)
            if isinstance(signal, Died):
                break
    fold.replayed()
    for one in kept:
        live.signals.put_nowait(one)


async def ask_row(record: Record, fence: Fence, how: law.How, live: Live) -> None:
    """Make durable how the agent is asked, before it is."""
    agent = live.conversation
    about = {"modes": agent.modes, "models": agent.models}
    await record.write(turns.asked, fence, how, live.spawn, agent.memory, about)
