"""What comes in, on a running gateway with a real ledger and the scripted agent."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))

from inbound_world import Chat


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[Chat]:
    async with Chat(tmp_path) as world:
        yield world
