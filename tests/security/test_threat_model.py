"""docs/security.md is kept by tests: every line of its tables names one that exists, and no test here is unnamed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADINGS = ["who and what", "what stops it", "what does not", "the test"]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`|`::(\w+)`")
LEAST = 75  # lines


def lines() -> list[tuple[str, list[str]]]:
    """(boundary, cells) of every line of every table of threats."""
    found, boundary, inside = [], "", False
    for line in (ROOT / "docs/security.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            boundary, inside = line[3:], False
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells == HEADINGS:
            inside = True
        elif not cells:
            inside = False
        elif inside and set("".join(cells)) != {"-"}:
            found.append((boundary, cells))
    return found


def named_in(cell: str) -> list[tuple[str, str]]:
    """(file, name) of the tests in a cell; `::name` is in the file that was named before it."""
    found, last = [], ""
    for file, name, also in NAMED.findall(cell):
        last = file or last
        found.append((last, name or also))
    return found


@cache
def defined(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.exists():
        return frozenset()
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M))


LINES = lines()


def test_the_threat_model_has_its_boundaries_and_its_lines() -> None:
    boundaries = {boundary for boundary, _ in LINES}
    assert {
        "Agent against gateway", "Sender against owner", "Page against gateway", "Channel or platform against host",
        "Neighbour on the machine or the network", "Node, hook and their tokens", "Configuration and supply",
    } <= boundaries  # fmt: skip
    assert len(LINES) >= LEAST
    assert [cells for _, cells in LINES if len(cells) != len(HEADINGS) or not all(cells)] == []


@pytest.mark.parametrize(("boundary", "cells"), LINES, ids=[f"{n}" for n in range(len(LINES))])
def test_every_line_names_a_test_that_is_there(boundary: str, cells: list[str]) -> None:
    named = named_in(cells[-1])
    assert named, f"{boundary}: {cells[0]} names no test"
    assert [f"{file}::{name}" for file, name in named if name not in defined(file)] == []


def test_every_test_of_security_is_named_in_the_threat_model() -> None:
    named = {one for _, cells in LINES for one in named_in(cells[-1])}
    here = Path(__file__)
    own = {
        (str(path.relative_to(ROOT)), name)
        for path in here.parent.glob("test_*.py")
        if path != here
        for name in defined(str(path.relative_to(ROOT)))
    }
    assert own
    assert sorted(f"{file}::{name}" for file, name in own - named) == []
