"""What `make test` leaves to `make test-long`: most examples of a property, most combinations of cases.

    @given(st.text())
    @settings(max_examples=count_examples(400))
    def test_any_text_is_that_text(text: str) -> None: ...

    @pytest.mark.parametrize(("end", "home"), cross(ENDS, HOMES))
    def test_a_chat_gets_no_fragment(end: str, home: str) -> None: ...

Each of them starts an agent or takes many milliseconds, and what one of them finds, a neighbour nearly always finds,
too. CI runs all of them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

import pytest

FRACTION = 5


def count_examples(count: int) -> int:
    """Return `count` where ALL_EXAMPLES is set, as `make test-long` does, else a fifth of it."""
    return count if os.environ.get("ALL_EXAMPLES") else count // FRACTION


def list_seeds(count: int) -> list[pytest.ParameterSet]:
    """Return the seeds from 0 on: a fifth of them without a mark, the others with the mark `long`."""
    return [pytest.param(seed, marks=pytest.mark.long if seed % FRACTION else ()) for seed in range(count)]


def cross(*tables: Iterable[Any]) -> list[pytest.ParameterSet]:
    """Return each combination of the tables' cases; a case that is a tuple holds several arguments.

    Those that `make test` needs to see each case of each table are without a mark; the others have the mark `long`.
    """
    cases = [[case if isinstance(case, tuple) else (case,) for case in table] for table in tables]
    longest = max(range(len(cases)), key=lambda table: len(cases[table]))
    combinations = []
    for numbers in itertools.product(*(range(len(table)) for table in cases)):
        is_usual = all(number == numbers[longest] % len(table) for number, table in zip(numbers, cases, strict=True))
        values = itertools.chain.from_iterable(table[number] for number, table in zip(numbers, cases, strict=True))
        combinations.append(pytest.param(*values, marks=() if is_usual else pytest.mark.long))
    return combinations
