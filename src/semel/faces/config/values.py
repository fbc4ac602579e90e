"""Types of settings: durations, sizes, names, and tables that reject unknown settings."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from semel.timing.durations import parse_duration

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"  # no ':', which separates the parts of a session key
_PATTERN = r"^[A-Za-z0-9._:@!+=~*?\[\]-]{1,200}$"  # the characters of session keys, and *?[]


def seconds(value: object) -> object:
    """Convert "90s", "10m", "2h" or "1d" to seconds; other types pass unchanged. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if (duration := parse_duration(value)) is None:
        raise ValueError(f'{value!r} is not a duration: write seconds, or like "90s", "10m", "2h"')
    return duration


def written(value: object) -> object:
    """Convert a TOML datetime or integer to text; other types pass unchanged."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def size(value: object) -> object:
    """Convert "500kB", "10MB" or "1GB" to bytes; other types pass unchanged. Raises ValueError."""
    if isinstance(value, str):
        found = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*(B|kB|MB|GB)", value.strip())
        if not found:
            raise ValueError(f'{value!r} is not a size: write bytes, or like "500kB", "10MB", "1GB"')
        return round(float(found[1]) * {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}[found[2]])
    return value


Size = Annotated[int, Field(ge=0), BeforeValidator(size)]
Duration = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(seconds)]
Pause = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(seconds)]
Name = Annotated[str, Field(pattern=_NAME)]
Pattern = Annotated[str, Field(pattern=_PATTERN)]


class Table(BaseModel):
    """A table in semel.toml; an unknown setting is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
