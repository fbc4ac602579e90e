"""Shared by the tests of the ledger."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transaction_desk import Desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A ledger in memory whose books must hold when the test is over."""
    desk = Desk()
    yield desk
    desk.balanced()
    desk.store.close()
