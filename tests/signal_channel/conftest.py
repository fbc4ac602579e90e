from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "gateway")]
collect_ignore = [] if os.environ.get("SIGNAL_CLI") else ["test_signal_real.py"]  # it needs that program
