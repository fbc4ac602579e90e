"""Retries: how long to wait before the next attempt, and which failures of a turn are transient (Laws 7, 9).

Backoff: the delay doubles from one second, so that a short outage costs little. In the first hour it is at most one
minute, so that the end of an outage is noticed soon. After that it is at most ten minutes, so that a dead destination
costs little.

Transient errors: agents report a failure as a JSON-RPC error with a code, a text and perhaps data; few say whether it
is transient. The first of these that is present decides: what Semel's own agents state (`_meta.semel`), words of
permanent errors, an HTTP status that the text names as such or that is the error's code, and words that model APIs and
sockets use for transient errors. An unknown error counts as permanent, so that a person learns of it at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIRST_MS = 1_000
FIRST_HOUR_MAX_MS = 60_000
MAX_DELAY_MS = 600_000
HOUR_MS = 3_600_000


def retry_delay_ms(attempts: int, *, age: int, jitter: float, retry_after: int | None = None) -> int:
    """Return the milliseconds until the next attempt, at least 1.

    `attempts`: how many attempts were made, 1 or more. `age`: how old the part is that is retried, in ms. `jitter`: a
    random number, at least 0 and below 1, which spreads the attempts of many destinations over half of the delay.
    `retry_after`: the wait that the platform asks for, in ms; the result is at least this.
    """
    cap = FIRST_HOUR_MAX_MS if age < HOUR_MS else MAX_DELAY_MS
    delay = min(FIRST_MS << min(max(attempts, 1) - 1, 20), cap)
    backoff = delay // 2 + int(jitter * (delay / 2))
    return max(1, backoff, retry_after or 0)


def next_look_delay(*, elapsed: int, absence_proven_after: int) -> int:
    """Return the milliseconds until the next look-up, after one that gave no result.

    `elapsed`: how long ago the first attempt was, in ms. `absence_proven_after`: as in `semel.law.delivery.Rules`. The
    result is half of `elapsed`, but at least `absence_proven_after` and one second, and at most ten minutes.
    """
    return min(max(FIRST_MS, absence_proven_after, elapsed // 2), MAX_DELAY_MS)


# ---------------------------------------------------------------- transient errors

MAX_RETRY_AFTER_S = 600.0  # if an error asks for a longer wait, the turn fails at once
TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})

_STATUS = re.compile(r"(?:status|http|error|code)\W{0,12}(?:code\W{0,3})?([45]\d\d)\b|^\W*([45]\d\d)\b", re.I)
_PERMANENT_ERROR = re.compile(
    r"quota|billing|credit|insufficient|unauthori[sz]ed|authenticat|forbidden|invalid.{0,12}(?:key|request)|not found"
    r"|context.{0,10}(?:length|window)|too long|log ?in|content.?filter|max_output_tokens",
    re.I,
)
_TRANSIENT_ERROR = re.compile(
    r"overloaded|rate.?limit|too many requests|time[d\s-]*out|temporar|try again|unavailable|bad gateway"
    r"|internal server error|econnreset|econnrefused|etimedout|eai_again|enetunreach|socket hang up"
    r"|connection (?:was |is )?(?:reset|closed|refused|error|lost|aborted|dropped)|stream (?:ended|closed|disconnected)"
    r"|network error|fetch failed|server disconnected|\bterminated\b|other side closed|und_err_socket"
    r"|invalid.eof.state|resource (?:has been )?exhausted",
    re.I,
)
_RETRY_AFTER = re.compile(
    r"(?:retry|try again)[\w\s-]{0,16}?\b(?:after|in)\W{0,3}(\d+(?:\.\d+)?)\s*(ms|s\b|sec|m\b|min)?", re.I
)
_UNIT = {"ms": 0.001, "m": 60.0, "min": 60.0}


@dataclass(frozen=True)
class Failure:
    """A classified failure.

    `is_transient`: another attempt may succeed. `retry_after`: the wait that the error asks for, in seconds, if any.
    """

    is_transient: bool
    retry_after: float | None = None


def judge_failure(text: str, meta: Mapping[str, Any] | None = None) -> Failure:
    """Decide whether a failure is transient, by its text and `meta`.

    `meta`: the `_meta` of the prompt's answer, or the JSON-RPC error's code and data.
    """
    statement = (meta or {}).get("semel")
    if isinstance(statement, Mapping) and isinstance(statement.get("passing"), bool):
        retry_after = statement.get("retry_after")
        return _bound_delay(statement["passing"], float(retry_after) if isinstance(retry_after, int | float) else None)
    return _bound_delay(_is_transient(text, (meta or {}).get("code")), _read_delay(text))


def _is_transient(text: str, code: object) -> bool:
    if _PERMANENT_ERROR.search(text):
        return False
    if match := _STATUS.search(text):
        return int(match[1] or match[2]) in TRANSIENT_STATUSES
    if isinstance(code, int) and 400 <= code < 600:  # Gemini CLI: the model API's status as a JSON-RPC code
        return code in TRANSIENT_STATUSES
    return _TRANSIENT_ERROR.search(text) is not None


def _read_delay(text: str) -> float | None:
    match = _RETRY_AFTER.search(text)
    return float(match[1]) * _UNIT.get((match[2] or "s").lower(), 1.0) if match else None


def _bound_delay(passing: bool, retry_after: float | None) -> Failure:
    return Failure(passing and (retry_after is None or retry_after <= MAX_RETRY_AFTER_S), retry_after)
