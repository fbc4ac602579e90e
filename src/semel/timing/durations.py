"""Parse durations as people and agents write them ("90", "90s", "1.5h", "1h30m", "1w"), and Retry-After headers.

Format durations for people ("2.5 s", "3 min 12 s").
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([smhdw]?)", re.ASCII)
_SUM = re.compile(r"(\d{1,15}w)?\s*(\d{1,15}d)?\s*(\d{1,15}h)?\s*(\d{1,15}m)?\s*(\d{1,15}s)?", re.ASCII)


def parse_duration(text: str) -> float | None:
    """Return a duration in seconds; None if the text is not a duration. A sum begins with its largest unit."""
    if (match := _DURATION.fullmatch(text.strip())) is not None:
        return float(match[1]) * _UNIT_S[match[2]]
    terms = _SUM.fullmatch(text.strip())
    if terms is None or not any(terms.groups()):
        return None
    return float(sum(int(term[:-1]) * _UNIT_S[term[-1]] for term in terms.groups() if term))


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units: "5 ms", "2.5 s", "3 min 12 s", "1 h 3 min", "90 d"."""
    if 0 < seconds < 0.01:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    left = round(seconds)
    if left >= 3600:
        left -= left % 60
    if left >= 86_400:
        left -= left % 3600
    amounts = []
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, length)
        if number:
            amounts.append(f"{number} {unit}")
    return " ".join(amounts)


def read_retry_after(value: str, now: float) -> float | None:
    """Parse a Retry-After header (RFC 9110, 10.2.3): a number of seconds, or a date.

    Returns the seconds to wait from `now` (seconds since the epoch), or None if the value is empty or malformed.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None
