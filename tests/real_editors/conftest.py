"""These tests use the house of tests/system and the editor without a screen of tests/editors."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "system"), str(TESTS / "editors")]
