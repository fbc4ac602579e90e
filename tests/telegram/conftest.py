from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from telegram_house import TelegramHouse, telegram


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[TelegramHouse]:
    async with telegram(tmp_path) as house:
        yield house
