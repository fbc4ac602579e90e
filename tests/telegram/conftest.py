from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "gateway"))  # the gateway's world

from telegram_house import TelegramHouse, telegram
from telegram_up import Up, gateway_and_double


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[TelegramHouse]:
    async with telegram(tmp_path) as house:
        yield house


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with gateway_and_double(tmp_path) as processes:
        yield processes
