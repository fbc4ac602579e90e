"""Short outages during which Telegram takes what is sent, and every answer is lost: the usual case of a lost answer."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rig_telegram import TelegramRig

from semel.ledger.delivery import placeholders
from semel.testing.conformance import ledgers
from semel.testing.conformance.network import open_network
from semel.testing.conformance.process import GatewayProcess
from semel.testing.conformance.rig import NumberedTexts

CALM_S, OUTAGE_S = 2.0, 1.5


class Rig(TelegramRig):
    def __init__(self, reserve: bool) -> None:
        self.reserve = reserve

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        return {**super().settings(ports), "reserve": self.reserve}


async def send_through_outages(rig: Rig, home: Path, messages: int) -> dict[str, int]:
    """Send messages to four chats through outages, and return how many of what people see, and what is held."""
    async with rig, open_network(rig) as net, GatewayProcess(home / "gateway", rig) as gateway:
        gateway.configure(net.ports)
        words = NumberedTexts("o")
        texts = words.some(messages)
        chats = list(rig.addresses())
        ledgers.write_messages(gateway.ledger, {chat: texts[n :: len(chats)] for n, chat in enumerate(chats)})
        assert await gateway.start()
        outages = 0
        while not await gateway.is_idle():
            await asyncio.sleep(CALM_S)
            rig.double.fail("*", "drop", after=True, times=None)
            outages += 1
            await asyncio.sleep(OUTAGE_S)
            rig.double.clear_faults()
        await gateway.stop()
        ledgers.check_books(gateway.ledger)
        shown = {chat: list(await rig.shown(chat)) for chat in chats}
    states = Counter(part.state for part in ledgers.read_parts(gateway.ledger))
    seen = Counter(text for chat in chats for text in words.among(shown[chat]))
    for n, chat in enumerate(chats):
        assert list(words.among(shown[chat])) == [text for text in texts[n :: len(chats)] if text in seen]
    return {
        "outages": outages,
        "held": states["held"],
        "twice": sum(seen.values()) - len(seen),
        "unseen": messages - len(seen) - states["held"],
        "stray": sum(text == placeholders.TEXT for each in shown.values() for text in each),
    }


@pytest.mark.channels
@pytest.mark.parametrize("reserve", [True, False])
async def test_outages_of_answers_hold_nothing_if_places_are_reserved(
    tmp_path: Path, reserve: bool, record_property: Any
) -> None:
    told = await send_through_outages(Rig(reserve), tmp_path, 200)
    print(json.dumps({"reserve": reserve, **told}))
    assert told["twice"] == 0 and told["unseen"] <= 0
    if reserve:
        assert told["held"] == 0
        assert told["stray"] <= told["outages"] * 4, "at most one for each outage and chat"
