from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mattermost_house import MattermostHouse, mattermost


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[MattermostHouse]:
    async with mattermost(tmp_path) as house:
        yield house
