"""The part `agents` of the proof: docs/measured.md is its list, every way to behave is used, and a sample holds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("greenlet")

from proof.agents.measured import AGENTS, BEHAVIOURS, LOOK, PLATFORMS, dashed
from proof.schedules.agents import CANCELS, GOES_ON
from proof.schedules.deeds import CALLS, NOTES_TOLD, OUTPUTS, RETRIES
from proof.schedules.memories import HOLDS, TELLS
from proof.schedules.platforms import FAULTS

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def lines(section: str) -> list[list[str]]:
    """The cells of the lines of a section's table, without its headings."""
    text = (ROOT / "docs/measured.md").read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


@pytest.mark.parametrize(("section", "behaviours"), [("Agents", AGENTS), ("Platforms", PLATFORMS)])
def test_what_was_measured_is_behaved_and_what_is_behaved_was_measured(section: str, behaviours: Any) -> None:
    rows = lines(section)
    assert [row for row in rows if len(row) != 3 or not all(row)] == []
    assert [row[0] for row in rows] == [*behaviours]


def test_what_is_done_elsewhere_is_a_test_that_exists() -> None:
    rows = lines("Elsewhere")
    named = [found for row in rows for found in NAMED.findall(row[2])]
    assert len(named) == len(rows) > 10
    for file, name in named:
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text("utf-8"), re.M), f"{file}::{name}"


def _values(one: Any) -> Iterator[Any]:
    """Everything that stands somewhere in it as a value."""
    if isinstance(one, dict):
        for value in one.values():
            yield from _values(value)
    elif isinstance(one, list | tuple):
        for value in one:
            yield from _values(value)
    else:
        yield one


def test_every_way_to_behave_that_the_schedules_know_belongs_to_a_behaviour() -> None:
    parts = [part for one in BEHAVIOURS.values() for part in (one.agent, one.steps, one.later, one.actions)]
    used = set(_values([LOOK, *map(_plain, parts)]))
    usual = {"as it was", "cancelled", "goes on", "once"}  # what an agent does that has no habit
    known = {*HOLDS, *TELLS, *RETRIES, *OUTPUTS, *CALLS, *NOTES_TOLD, *CANCELS, *GOES_ON, *FAULTS}
    assert known - used - usual == set()


def _plain(part: Any) -> Any:
    return dict(part) if hasattr(part, "keys") else list(part)


def test_a_name_on_the_command_line_means_one_behaviour() -> None:
    assert len({dashed(name) for name in BEHAVIOURS}) == len(BEHAVIOURS)


@pytest.mark.long
@pytest.mark.parametrize("name", ["history holds a broken text and its retry", "key is folded only for a while"])
def test_a_few_cases_hold_and_something_dies_in_them(name: str, tmp_path: Path) -> None:
    number = [*BEHAVIOURS].index(name)
    done = subprocess.run(
        [sys.executable, "-m", "proof.agents.work", str(number), str(number + 1), "1", str(tmp_path), "13"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "PYTHONHASHSEED": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["broken"] for one in told] == [[]] * len(told)
    assert len(told) > 3
    assert {one["counts"]["lives"] for one in told} > {1}, "the gateway died in some"
