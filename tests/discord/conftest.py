from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "gateway"))  # the gateway's world

from discord_house import DiscordHouse, discord

from semel.channels.discord import gateway


@pytest.fixture(autouse=True)
def identify_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The double takes an Identify at any time, unless a test says otherwise."""
    monkeypatch.setattr(gateway, "IDENTIFY_INTERVAL_S", 0.0)


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[DiscordHouse]:
    """The channel can send; it hears once a test calls `online`."""
    async with discord(tmp_path) as house:
        yield house


@pytest.fixture
async def hearing(there: DiscordHouse) -> DiscordHouse:
    await there.online()
    return there
