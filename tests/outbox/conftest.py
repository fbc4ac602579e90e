"""Fixtures of the outbox's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Where a ledger will be."""
    return tmp_path / "semel.db"
