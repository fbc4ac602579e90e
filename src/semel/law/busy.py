"""Busy modes: what happens to a message that arrives while its session is busy (Laws 2, 3).

| mode | while a turn runs | while none runs |
|---|---|---|
| `queue` | it waits; the next turn takes every waiting message, in order, each as its own message | a turn begins |
| `steer` | it joins the running turn if the agent is known to read a second prompt; else as `queue` | a turn begins |
| `interrupt` | the running turn is cancelled, then as `queue` | a turn begins |
| `collect` | it waits; the next turn begins when no more messages have come for a while | the same |

No mode merges, shortens or drops a message.
"""

from __future__ import annotations

from typing import Literal, get_args

from semel.law.wake import Pause

Busy = Literal["queue", "steer", "interrupt", "collect"]
MODES: tuple[Busy, ...] = get_args(Busy)

COLLECT = Pause(debounce=2_000, max_wait=15_000)
"""The default pause of `collect`, in milliseconds: about as long as people pause between two lines."""

Act = Literal["wake", "steer", "interrupt"]
"""What the gateway does once the message is recorded."""


def act(mode: Busy, *, running: bool) -> Act:
    """The action for a message of this mode. `running`: a turn runs when the message is recorded."""
    if running and mode in ("steer", "interrupt"):
        return "steer" if mode == "steer" else "interrupt"
    return "wake"


def for_event(mode: Busy) -> Busy:
    """The mode for an event that is not a person's message: like the session's, but it never interrupts a turn."""
    return "queue" if mode == "interrupt" else mode
