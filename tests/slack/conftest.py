from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from slack_house import SlackHouse, slack


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[SlackHouse]:
    async with slack(tmp_path) as house:
        yield house
