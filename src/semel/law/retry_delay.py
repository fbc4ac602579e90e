"""When a part that was not sent is tried again (Law 7).

Doubling from one second: a short outage costs little delay. At most a minute apart within the first hour, so
that the end of an outage is noticed soon; at most ten minutes after that, so that a dead destination costs
little.
"""

from __future__ import annotations

FIRST_MS = 1_000
SOON_MS = 60_000
LATE_MS = 600_000
HOUR_MS = 3_600_000


def delay(attempts: int, *, age: int, jitter: float, retry_after: int | None = None) -> int:
    """Milliseconds until the next attempt, at least 1.

    attempts: how many were made, 1 or more. age: since the part was made, in ms. jitter: 0 <= jitter < 1,
    spreads the attempts of many destinations over half of the wait. retry_after: the platform's own wait in
    ms; never undercut.
    """
    cap = SOON_MS if age < HOUR_MS else LATE_MS
    wait = min(FIRST_MS << min(max(attempts, 1) - 1, 20), cap)
    own = wait // 2 + int(jitter * (wait / 2))
    return max(1, own, retry_after or 0)


def look_again(*, elapsed: int, settle: int) -> int:
    """Milliseconds until a platform that could not tell is asked again: it grows with the time it took so
    far."""
    return min(max(FIRST_MS, settle, elapsed // 2), LATE_MS)
