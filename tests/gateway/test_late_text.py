"""What an agent tells after its answer leaves for its chat as it is recorded (found by `python -m proof schedules`)."""

from __future__ import annotations

from pathlib import Path

from gateway_world import World, script, until

from semel.gateway.ports import Safety, Update
from semel.gateway.settings import ChannelSettings
from semel.testing import FakeChannel


async def test_text_after_the_answer_leaves_without_waiting_for_the_next_message(tmp_path: Path) -> None:
    chat = FakeChannel("chat", Safety.IDEMPOTENT)
    settings = {"chat": ChannelSettings(name="chat", kind="fake")}
    async with World(tmp_path, channels={"chat": chat}, channel_settings=settings) as w:
        await w.gateway.say("demo:chat:room", script("First this."))
        await w.idle("demo:chat:room")
        await w.sent()
        [live] = w.gateway.spawns.live.values()
        content = {"type": "text", "text": "And then that."}
        live.signals.put_nowait(Update({"sessionUpdate": "agent_message_chunk", "content": content}))
        w.gateway.spawns._schedule_aftermath(live)

        async def arrived() -> bool:
            return chat.platform.shown("room") == ["First this.", "And then that."]

        await until(arrived)
