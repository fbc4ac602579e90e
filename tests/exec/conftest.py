from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from exec_house import House


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A gateway that runs for all tests that do not end it. At the end, its books hold."""
    house = House(tmp_path_factory.mktemp("node"))
    try:
        yield house.up()
        house.balanced()
    finally:
        house.end()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """One whose gateway is not up yet."""
    house = House(tmp_path)
    try:
        yield house
    finally:
        house.end()
