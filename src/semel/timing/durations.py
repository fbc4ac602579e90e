"""Durations as people and agents write them: "90", "90s", "10m", "1.5h", "1d", "1w"."""

from __future__ import annotations

import re

_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([smhdw]?)", re.ASCII)


def parse_duration(text: str) -> float | None:
    """Seconds. `None` if the text is not a duration."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _UNIT_S[found[2]]
