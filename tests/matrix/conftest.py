"""Fixtures of the Matrix channel's tests."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from matrix_house import House
from real_servers import synapse
from synapse import Synapse

__all__ = ["synapse"]
_numbers = itertools.count(1)


@pytest.fixture
def house(synapse: Synapse, tmp_path: Path) -> House:
    """A bot and two people of this test's own, on the real server."""
    return House(synapse, next(_numbers), tmp_path)
