"""Export and import on a running gateway, with a real ledger."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

for room in ("gateway",):
    sys.path.insert(0, str(Path(__file__).parents[1] / room))

from gateway_world import World  # noqa: E402


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path) as world:
        yield world
