"""What the operator's tests share: the gateway and the command line as people run them, of other folders' tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.extend(str(Path(__file__).parents[1] / folder) for folder in ("system", "cli"))
