"""Helpers of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
FOLDERS = ("gateway", "people", "sessions", "system")
sys.path[:0] = [str(Path(__file__).parent), *(str(TESTS / name) for name in FOLDERS)]
