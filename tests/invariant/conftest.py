"""The invariant is tested in the worlds of the gateway's, the models' and the system's tests."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(Path(__file__).parent), *(str(TESTS / room) for room in ("gateway", "model", "system"))]
