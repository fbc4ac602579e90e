"""What makes one test of many cases: each is checked, and a failure names those that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from each_case import for_each


def test_each_case_is_checked_and_those_that_fail_are_named(tmp_path: Path) -> None:
    checked = []

    @for_each("number, place", [(number, "here") for number in range(20)])
    def check(number: int, place: str, tmp_path: Path) -> None:
        checked.append((number, place, tmp_path))
        assert number % 2, "even"

    with pytest.raises(ExceptionGroup, match="10 of 20 cases fail") as found:
        check(tmp_path=tmp_path)
    assert checked == [(number, "here", tmp_path) for number in range(20)]
    named = [note for failure in found.value.exceptions for note in failure.__notes__]
    assert named == [f"in the case ({number}, 'here')" for number in (0, 2, 4, 6, 8)]
    assert all(f"in the case ({number}, 'here')" in str(found.value) for number in (10, 12, 14, 16, 18))


def test_no_case_at_all_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="there is no case"):
        for_each("number", [])(lambda number: None)()


@for_each("number", range(3))
def test_the_other_arguments_are_fixtures(number: int, tmp_path: Path) -> None:
    (tmp_path / str(number)).touch(exist_ok=False)
    assert len(list(tmp_path.iterdir())) == number + 1
