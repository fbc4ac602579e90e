"""A gateway with a Telegram bot: what people write to it, and what they see of it."""

from __future__ import annotations

from pathlib import Path

from gateway_world import World, script, until
from telegram_house import ANNA, telegram

from semel.gateway.settings import ChannelSettings, PersonSettings


async def test_who_writes_to_a_channel_is_answered_without_mentioning_the_bot(tmp_path: Path) -> None:
    chat = -1_002_222_222_222
    anna = {"anna": PersonSettings(name="anna", role="owner", accounts=(f"tg:{ANNA}",))}
    settings = {"tg": ChannelSettings(name="tg", kind="telegram")}
    async with telegram(tmp_path) as house:
        house.double.group(chat, "Garden News", direct=True, status="administrator")

        async def is_polling() -> bool:
            return len(house.double.asked("getUpdates")) > 1  # the first one finds the present

        async def is_answered(words: str) -> bool:
            return any(words in text for text in house.double.texts(chat))

        async with World(tmp_path, channels={"tg": house.channel}, people=anna, channel_settings=settings):
            await until(is_polling)
            house.double.write(chat, script("Gladly."), sender=ANNA)
            await until(lambda: is_answered("Gladly."), 10)
            house.double.write(chat, "/status", sender=ANNA)
            await until(lambda: is_answered("Agent: demo"), 10)
