"""What an agent tells of the past is heard out, also where the gateway stands still for a moment (Laws 4, 6)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from semel.gateway.ports import Update
from semel.gateway.turns.live_agent import LiveAgent
from semel.gateway.turns.planner import REPLAY_QUIET_S, read_replay


def told(text: str) -> Update:
    return Update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}, replay=True)


async def test_what_comes_while_the_gateway_stands_still_belongs_to_the_replay() -> None:
    unused: Any = None
    live = LiveAgent(1, 1, "s", "main", unused, 60.0, unused)
    loop = asyncio.get_running_loop()
    live.signals.put_nowait(told("It is on."))

    def stand_still() -> None:
        time.sleep(2 * REPLAY_QUIET_S)  # nothing is read meanwhile; what came passes one task on its way here
        loop.call_soon(loop.call_soon, live.signals.put_nowait, told("It is warm."))

    loop.call_later(REPLAY_QUIET_S / 4, stand_still)
    await read_replay(live)

    assert "".join(one.text for one in live.fold.items()) == "It is on.It is warm."
