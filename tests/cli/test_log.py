"""The log: what libraries have to say goes the same way as our own words."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import warnings
from semel.faces.log import configure_logging
configure_logging("json")
warnings.warn("this setting is not used", UserWarning)
"""


def test_a_warning_of_a_library_is_a_line_of_the_log() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    [line] = [json.loads(one) for one in done.stderr.splitlines()]
    assert (line["logger"], line["level"]) == ("py.warnings", "warning")
    assert "this setting is not used" in line["event"]
