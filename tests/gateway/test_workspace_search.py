"""Files of a workspace are found by a part of their path: the best first, nothing hidden, nothing outside, at a bounded
cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.gateway import workspace_search
from semel.gateway.workspace_search import find_files


def make(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()


def test_files_whose_name_begins_so_come_first_and_of_these_the_ones_near_the_top(tmp_path: Path) -> None:
    make(tmp_path, "deep/er/clock.py", "src/clock.py", "a/alarm-clock.py", "clock/readme.md", "other.py")
    assert find_files(tmp_path, "Clock", 20) == [
        "src/clock.py", "deep/er/clock.py", "a/alarm-clock.py", "clock/readme.md",
    ]  # fmt: skip
    assert find_files(tmp_path, "src/cl", 20) == ["src/clock.py"]
    assert len(find_files(tmp_path, "", 3)) == 3


def test_hidden_and_made_files_and_links_are_left_out(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    make(inside, ".env", ".git/config", "node_modules/x/index.js", "a/__pycache__/b.pyc", "a/b.py", "odd\nname")
    make(outside, "secret")
    (inside / "way").symlink_to(outside)
    (inside / "link").symlink_to(outside / "secret")
    assert find_files(inside, "", 20) == ["a/b.py"]


def test_a_search_looks_at_a_bounded_number_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, *(f"many/{number}" for number in range(30)), "top")
    monkeypatch.setattr(workspace_search, "MAX_LOOKED_AT", 12)
    assert len(find_files(tmp_path, "", 100)) == 11, "the top, and what was reached below it"


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert find_files(tmp_path / "gone", "", 20) == []
