from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(TESTS / "system"), str(TESTS / "gateway")]
