from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from teams_house import TeamsHouse, teams

from semel.channels import downloads

sys.path[:0] = [str(Path(__file__).parents[1] / "gateway")]


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[TeamsHouse]:
    async with teams(tmp_path) as house:
        yield house


@pytest.fixture
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is asked for again at once."""
    monkeypatch.setattr(downloads, "RETRY_DELAY_S", 0.0)
