"""What the operator's tests share: a gateway as people run it, of the tests of the whole system."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "system"))
