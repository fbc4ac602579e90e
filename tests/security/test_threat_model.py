"""docs/security.md is kept by tests: each threat has tests that exist, and each test of this folder has a threat."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THREAT = ["", "attack", "what stops it", "what does not"]
EVIDENCE = ["", "code", "the test"]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`|`::(\w+)`")
CODE = re.compile(r"`([\w/.]+)`")
FEWEST_THREATS = 75


def lines(headings: list[str]) -> list[tuple[str, list[str]]]:
    """(boundary, cells) of every line of every table with these headings."""
    found, boundary, inside = [], "", False
    for line in (ROOT / "docs/security.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            boundary, inside = line[3:], False
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells == headings:
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


THREATS = lines(THREAT)
TESTS = {cells[0]: cells for _, cells in lines(EVIDENCE)}


def test_the_threat_model_has_its_boundaries_and_its_lines() -> None:
    boundaries = {boundary for boundary, _ in THREATS}
    assert {
        "Agent against gateway", "Sender against owner", "Page against gateway", "Channel or platform against host",
        "Neighbour on the machine or the network", "Node, hook and their tokens", "Configuration and supply",
    } <= boundaries  # fmt: skip
    assert len(THREATS) >= FEWEST_THREATS
    assert [cells for _, cells in THREATS if len(cells) != len(THREAT) or not all(cells)] == []


def test_every_threat_has_one_id_and_one_line_of_evidence() -> None:
    ids = [cells[0] for _, cells in THREATS]
    assert len(set(ids)) == len(ids)
    assert [cells[0] for _, cells in lines(EVIDENCE)] == ids


@pytest.mark.parametrize("name", TESTS)
def test_the_evidence_names_code_and_tests_that_are_there(name: str) -> None:
    _, code, tests = TESTS[name]
    named = named_in(tests)
    assert named, f"{name} names no test"
    assert [f"{file}::{test}" for file, test in named if test not in defined(file)] == []
    assert [path for path in CODE.findall(code) if not (ROOT / "src/semel" / path).exists()] == []


def test_every_test_of_security_is_named_in_the_threat_model() -> None:
    named = {test for cells in TESTS.values() for test in named_in(cells[-1])}
    here = Path(__file__)
    own = {
        (str(path.relative_to(ROOT)), name)
        for path in here.parent.glob("test_*.py")
        if path != here
        for name in defined(str(path.relative_to(ROOT)))
    }
    assert own
    assert sorted(f"{file}::{name}" for file, name in own - named) == []
