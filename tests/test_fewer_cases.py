"""Fewer cases: what `make test` leaves to `make test-long` is only what its neighbours show, too."""

from __future__ import annotations

import pytest

from fewer_cases import count_examples, cross, list_seeds

TABLES = [(("a", 1), ("b", 2)), range(5), "xyz"]


def test_all_combinations_are_there_and_each_case_is_in_one_without_a_mark() -> None:
    combinations = cross(*TABLES)
    assert len({each.values for each in combinations}) == len(combinations) == 2 * 5 * 3
    usual = [each.values for each in combinations if not each.marks]
    assert len(usual) == 5
    assert [set(column) for column in zip(*usual, strict=True)] == [{"a", "b"}, {1, 2}, set(range(5)), set("xyz")]
    assert {mark.name for each in combinations for mark in each.marks} == {"long"}


def test_of_seeds_and_examples_a_fifth_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.values[0] for each in list_seeds(11) if not each.marks] == [0, 5, 10]
    assert len(list_seeds(11)) == 11
    monkeypatch.delenv("ALL_EXAMPLES", raising=False)
    assert count_examples(400) == 80
    monkeypatch.setenv("ALL_EXAMPLES", "1")
    assert count_examples(400) == 400
