"""These tests use the house of tests/system and the editor without a screen of tests/editors.

Editors that `make test-editors` does not install are tested only if their folders are given.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "system"), str(TESTS / "editors")]

FOLDERS = {
    "test_agent_shell.py": ("AGENT_SHELL_PATH",),
    "test_codecompanion.py": ("CODECOMPANION_PATH", "PLENARY_PATH"),
}
"""The variables that name an editor's folders, by the file of its tests."""
collect_ignore = [file for file, variables in FOLDERS.items() if not all(map(os.environ.get, variables))]


def pytest_report_header() -> list[str]:
    return [f"not collected: {file}, which needs {' and '.join(FOLDERS[file])}" for file in collect_ignore]
