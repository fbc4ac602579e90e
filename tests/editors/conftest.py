"""A gateway for the tests of a file, and a desk of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from gateway_editor import Desk, House, opened_desk


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened_desk(tmp_path_factory.mktemp("desk")) as desk:
        yield desk.house


@pytest.fixture
def desk(house: House) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(house, stack)
