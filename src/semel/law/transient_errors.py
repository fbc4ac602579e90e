"""Transient errors: decide whether a failed turn may succeed if it is tried again a little later (Law 9).

Agents report a failure as a JSON-RPC error with a code, a text and perhaps data; few say whether it is transient. The
evidence, in this order: the statement of Semel's own agents (`_meta.semel`), words of permanent errors, an HTTP status
that is named as one, words that model APIs and sockets use. An unknown error counts as permanent, so that a person
learns of it at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_RETRY_AFTER_S = 600.0  # if the agent asks for a longer wait, the turn fails at once
PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})

_STATUS = re.compile(r"(?:status|http|error|code)\W{0,12}(?:code\W{0,3})?([45]\d\d)\b|^\W*([45]\d\d)\b", re.I)
_FINAL = re.compile(
    r"quota|billing|credit|insufficient|unauthori[sz]ed|authenticat|forbidden|invalid.{0,12}(?:key|request)|not found"
    r"|context.{0,10}(?:length|window)|too long|log ?in",
    re.I,
)
_PASSING = re.compile(
    r"overloaded|rate.?limit|too many requests|time[d\s-]*out|temporar|try again|unavailable|bad gateway"
    r"|internal server error|econnreset|econnrefused|etimedout|eai_again|enetunreach|socket hang up"
    r"|connection (?:was |is )?(?:reset|closed|refused|error|lost|aborted|dropped)|stream (?:ended|closed|disconnected)"
    r"|network error|fetch failed|server disconnected|\bterminated\b",
    re.I,
)
_AFTER = re.compile(
    r"(?:retry|try again)[\w\s-]{0,16}?\b(?:after|in)\W{0,3}(\d+(?:\.\d+)?)\s*(ms|s\b|sec|m\b|min)?", re.I
)
_UNIT = {"ms": 0.001, "m": 60.0, "min": 60.0}


@dataclass(frozen=True)
class Failure:
    """passing: the failure is transient. retry_after: the wait in seconds that the agent asked for, if any."""

    passing: bool
    retry_after: float | None = None


def judge_failure(text: str, meta: Mapping[str, Any] | None = None) -> Failure:
    """Classify a failure by its text and its `meta` (the `_meta`, or the JSON-RPC error's code and data)."""
    own = (meta or {}).get("semel")
    if isinstance(own, Mapping) and isinstance(own.get("passing"), bool):
        after = own.get("retry_after")
        return _bounded(own["passing"], float(after) if isinstance(after, int | float) else None)
    return _bounded(_passes(text), _after(text))


def _passes(text: str) -> bool:
    if _FINAL.search(text):
        return False
    if found := _STATUS.search(text):
        return int(found[1] or found[2]) in PASSING_STATUS
    return _PASSING.search(text) is not None


def _after(text: str) -> float | None:
    found = _AFTER.search(text)
    return float(found[1]) * _UNIT.get((found[2] or "s").lower(), 1.0) if found else None


def _bounded(passing: bool, after: float | None) -> Failure:
    return Failure(passing and (after is None or after <= MAX_RETRY_AFTER_S), after)
