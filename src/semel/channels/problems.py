"""Report everything that is wrong with a channel's settings at once, in the error that `Kind.settings` raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2


class SettingsError(ValueError):
    """Everything that is wrong with a channel's settings: one or more problems, in the text separated by "; "."""

    def __init__(self, *problems: str):
        super().__init__("; ".join(problems))
        self.problems = problems


def raise_problems(problems: Iterable[str]) -> None:
    """Raise SettingsError with all problems, if there are any."""
    if known := tuple(problems):
        raise SettingsError(*known)


def explain(check: Callable[..., Any], *args: Any) -> Iterator[str]:
    """Call `check`, and yield the message of the ValueError that it raises, if it does."""
    try:
        check(*args)
    except ValueError as error:
        yield str(error)


def parse_url(name: str, text: str) -> httpx2.URL:
    """Parse the URL of the setting `name`. Raises ValueError."""
    import httpx2  # only now: a gateway without such a channel does not load it

    try:
        return httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise ValueError(f"{name} is not a URL: {error}") from None
