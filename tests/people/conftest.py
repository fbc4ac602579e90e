"""The gateway's world, for tests in this room."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("gateway", "cli", "http")] + [str(Path(__file__).parent)]
