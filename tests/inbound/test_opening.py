"""Who opens a conversation, as with Telegram's /start, is greeted by the gateway; the agent is not asked."""

from __future__ import annotations

from pathlib import Path

from gateway_world import until
from inbound_world import ANN, EVE, KEY, Chat

from semel.gateway.ports import Incoming


async def test_a_person_who_opens_a_conversation_is_greeted_and_the_agent_is_not_asked(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.chat.tell(Incoming("message", "m1", "room", ANN, "/start", opens=True))

        async def greeted() -> bool:
            return bool(w.chat.platform.shown("room"))

        await until(greeted)
        texts = [row["text"] for row in await w.entries(KEY)]
        assert texts == ["/start", "Hello ann. What you write here goes to demo. /help lists what else you can do."]
        assert w.chat.platform.shown("room") == texts[1:]
        assert w.prompts() == []


async def test_a_stranger_is_not_greeted(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.chat.tell(Incoming("message", "m1", "room", EVE, "/start", opens=True))
        assert w.chat.platform.shown("room") == []
        assert await w.gateway.sessions() == []
