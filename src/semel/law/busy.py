"""What becomes of a message that comes while its session is busy (Laws 2, 3).

| mode | while a turn runs | while none runs |
|---|---|---|
| `queue` | it waits; the next turn takes all that waits, each as its own message, in order | a turn begins |
| `steer` | it joins the running turn, if its agent is known to read a second prompt; else as `queue` | a turn begins |
| `interrupt` | the running turn is cancelled, then as `queue` | a turn begins |
| `collect` | it waits; the next turn begins when nothing more comes for a while | the same |

Nothing is merged, shortened or dropped by any of them.
"""

from __future__ import annotations

from typing import Literal, get_args

from semel.law.wake import Pause

Busy = Literal["queue", "steer", "interrupt", "collect"]
MODES: tuple[Busy, ...] = get_args(Busy)

COLLECT = Pause(debounce=2_000, max_wait=15_000)
"""How `collect` waits where nothing else is configured: people pause this long between two lines."""

Act = Literal["wake", "steer", "interrupt"]
"""What is to be done once the message is in the record."""


def act(mode: Busy, *, running: bool) -> Act:
    """What a message of this mode asks for, at the moment it is recorded."""
    if running and mode in ("steer", "interrupt"):
        return "steer" if mode == "steer" else "interrupt"
    return "wake"


def for_event(mode: Busy) -> Busy:
    """The mode of what happened, in a session of that mode: it may join a turn, but not stop a person's."""
    return "queue" if mode == "interrupt" else mode
