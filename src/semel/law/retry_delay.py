"""Backoff: how long to wait before a part is sent again, or a platform is asked again (Law 7).

The delay doubles from one second, so that a short outage costs little. It is at most one minute in the first hour, so
that the end of an outage is noticed soon, and at most ten minutes after that, so that a dead destination costs little.
"""

from __future__ import annotations

FIRST_MS = 1_000
FIRST_HOUR_MAX_MS = 60_000
MAX_DELAY_MS = 600_000
HOUR_MS = 3_600_000


def retry_delay_ms(attempts: int, *, age: int, jitter: float, retry_after: int | None = None) -> int:
    """Milliseconds until the next attempt, at least 1.

    attempts: attempts made so far, 1 or more. age: the part's age in ms. jitter: 0 <= jitter < 1, spreads the attempts
    of many destinations over half of the delay. retry_after: the minimum that the platform asks for, in ms.
    """
    cap = FIRST_HOUR_MAX_MS if age < HOUR_MS else MAX_DELAY_MS
    wait = min(FIRST_MS << min(max(attempts, 1) - 1, 20), cap)
    own = wait // 2 + int(jitter * (wait / 2))
    return max(1, own, retry_after or 0)


def next_look_delay(*, elapsed: int, settle: int) -> int:
    """Milliseconds until a platform whose look-up settled nothing is asked again: half of the time that has passed so
    far, within bounds."""
    return min(max(FIRST_MS, settle, elapsed // 2), MAX_DELAY_MS)
