"""The data directory that version 0.1.0 left behind (`make_old_data.py`), unpacked for each test."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / folder) for folder in ("gateway", "cli"))]

from upgrade_desk import OldData  # noqa: E402


@pytest.fixture
def old(tmp_path: Path) -> OldData:
    with tarfile.open(HERE / "data-0.1.0.tar.xz") as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # CPython before 3.11.4 has none
        archive.extractall(tmp_path / "old", **safely)
    return OldData(tmp_path / "old" / "data", json.loads((tmp_path / "old" / "exports.json").read_text()))
