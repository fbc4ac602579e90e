"""Fixtures of the outbox's tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Where a ledger will be."""
    return tmp_path / "semel.db"
