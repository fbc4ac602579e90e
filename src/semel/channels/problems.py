"""Report everything that is wrong with a channel's settings at once, in the error that `Kind.settings` raises."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2


MAX_SECONDS = 10**8  # of a setting
MAX_FILE_LIMIT = 10**9


class SettingsError(ValueError):
    """Everything that is wrong with a channel's settings: one or more problems, in the text separated by "; "."""

    def __init__(self, *problems: str):
        super().__init__("; ".join(problems))
        self.problems = problems


def raise_problems(problems: Iterable[str]) -> None:
    """Raise SettingsError with all problems, if there are any."""
    if known := tuple(problems):
        raise SettingsError(*known)


def explain(check: Callable[..., Any], *args: Any, **options: Any) -> Iterator[str]:
    """Call `check`, and yield the message of the ValueError that it raises, if it does."""
    try:
        check(*args, **options)
    except ValueError as error:
        yield str(error)


def find_seconds_problems(settings: object, *names: str) -> Iterator[str]:
    """Yield what is wrong with the settings of these names, which are seconds. `timeout` must be above 0."""
    for name in names:
        value = getattr(settings, name)
        if not 0 <= value < MAX_SECONDS or (name == "timeout" and value == 0):
            yield f"{name} should be a number of seconds{' above 0' if name == 'timeout' else ''}"


def find_file_limit_problems(limit: int) -> Iterator[str]:
    """Yield what is wrong with the setting `file_limit`, in bytes."""
    if not 1 <= limit <= MAX_FILE_LIMIT:
        yield f"file_limit should be 1 to {MAX_FILE_LIMIT} bytes"


def parse_url(name: str, text: str) -> httpx2.URL:
    """Parse the URL of the setting `name`. Raises ValueError."""
    import httpx2  # only now: a gateway without such a channel does not load it

    try:
        return httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise ValueError(f"{name} is not a URL: {error}") from None


def check_url(name: str, text: str, schemes: tuple[str, str] = ("https", "http"), example: str = "") -> None:
    """Raise ValueError unless the setting `name` is a URL with one of the schemes, a host, and at most a path.

    `example`: shown in the error.
    """
    url = parse_url(name, text)
    if url.scheme not in schemes or not url.host or url.query or url.fragment:
        like = f", like {example}" if example else ""
        raise ValueError(f"{name} should begin with {schemes[0]}:// or {schemes[1]}:// and name a host{like}")
    if url.username or url.password:
        raise ValueError(f"{name} should hold no user name or password")


def is_loopback(host: str | None) -> bool:
    """Return whether a host names this machine, which no other one can listen to."""
    if host is None:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
