"""Fixtures of the Matrix channel's tests."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from matrix_gateway import Gateway
from matrix_house import House
from real_servers import synapse
from synapse import Synapse

__all__ = ["synapse"]
_numbers = itertools.count(1)


@pytest.fixture
def house(synapse: Synapse, tmp_path: Path) -> House:
    """A bot and two people of this test's own, on the real server."""
    return House(synapse, next(_numbers), tmp_path)


@pytest.fixture
async def gateway(house: House, tmp_path: Path) -> AsyncIterator[Gateway]:
    """`semel up` with the bot's account. Alice is its owner, Bob a member."""
    running = Gateway(tmp_path / "gateway", house.server.url, house.bot.id, house.alice.id, house.bob.id)
    await running.up()
    yield running
    running.end()
