"""Report everything that is wrong with a channel's settings at once, in the ValueError that `Kind.settings` raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def raise_problems(problems: Iterable[str]) -> None:
    """Raise ValueError with all problems, separated by "; ", if there are any."""
    if text := "; ".join(problems):
        raise ValueError(text)


def explain(check: Callable[..., Any], *args: Any) -> Iterator[str]:
    """Call `check`, and yield the message of the ValueError that it raises, if it does."""
    try:
        check(*args)
    except ValueError as error:
        yield str(error)
