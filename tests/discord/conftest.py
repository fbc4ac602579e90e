from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "gateway"))  # the gateway's world

from discord_house import DiscordHouse, discord


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[DiscordHouse]:
    """The channel can send; it hears once a test calls `online`."""
    async with discord(tmp_path) as house:
        yield house


@pytest.fixture
async def hearing(there: DiscordHouse) -> DiscordHouse:
    await there.online()
    return there
