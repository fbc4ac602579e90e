"""Which events wake a session, when the wake is due, and what happens if the session is busy (Laws 2, 3).

A session has at most one pending wake, with one due time. With a `WakeDelay`, the wake is due once no further event has
arrived for `debounce` ms, but at the latest `max_wait` ms after the first event.

Busy modes say what happens to a message that arrives while a turn runs:

| mode | while a turn runs | while none runs |
|---|---|---|
| `queue` | it waits; the next turn takes every waiting message, in order, each as its own message | a turn begins |
| `steer` | it joins the running turn if the agent is known to read a second prompt; else as `queue` | a turn begins |
| `interrupt` | the running turn is cancelled, then as `queue` | a turn begins |
| `collect` | it waits; the next turn begins when no more messages have come for a while | the same |

No mode merges, shortens or drops a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

PERSON_KINDS = frozenset({"message", "answer"})  # what a person said; all other kinds are things that happened
QUIET_KINDS = frozenset({"exec.started", "exec.progress", "reaction", "edit", "delete", "notice"})
"""Kinds of events that wait for the next turn instead of causing one."""


def wakes(kind: str, *, automatic: bool = False, allowed: bool = False) -> bool:
    """Whether an event of this kind wakes its session.

    `automatic`: a program sent it, such as a bot or an auto-reply. `allowed`: the session lets programs wake it.
    Otherwise their messages wait for the next turn, because two programs could wake each other endlessly.
    """
    return kind not in QUIET_KINDS and (allowed or not automatic)


@dataclass(frozen=True)
class WakeDelay:
    """How long a wake waits for further events, in milliseconds.

    `debounce`: from the latest event on; 0: no wait. `max_wait`: from the first event on.
    """

    debounce: int = 0
    max_wait: int = 0


NO_PAUSE = WakeDelay()


@dataclass(frozen=True)
class Wake:
    """A pending wake. `due`: when its turn begins. `since`: when the first of its events arrived. Both are in ms."""

    due: int
    since: int


def next_wake(now: int, pending: Wake | None, pause: WakeDelay) -> Wake:
    """Return the session's pending wake after one more waking event.

    `now`: when the event arrived, in ms. `pending`: the session's wake before the event, if there was one. `pause`: how
    long the wake waits for further events.
    """
    since = pending.since if pending is not None else now
    if not pause.debounce:
        return Wake(now if pending is None else min(now, pending.due), since)
    if pending is not None and pending.due <= now:
        return pending  # the wake is due already
    return Wake(min(now + pause.debounce, since + max(pause.debounce, pause.max_wait)), since)


def time_until_due(now: int, wake: Wake) -> int:
    """Return the milliseconds until a wake is due; 0 if it is, or if the clock was set back to before its events."""
    return max(0, wake.due - now) if now >= wake.since else 0


# ---------------------------------------------------------------- busy modes

Busy = Literal["queue", "steer", "interrupt", "collect"]
MODES: tuple[Busy, ...] = get_args(Busy)

COLLECT = WakeDelay(debounce=2_000, max_wait=15_000)
"""The default delay of the mode `collect`: about as long as people pause between two lines."""

BusyAction = Literal["wake", "steer", "interrupt"]
"""What the gateway does once the message is recorded: wake the session, steer the message into the running turn, or
cancel that turn."""


def decide_action(mode: Busy, *, running: bool) -> BusyAction:
    """Return the action for a message with this busy mode. `running`: a turn runs when the message is recorded."""
    if running and mode in ("steer", "interrupt"):
        return "steer" if mode == "steer" else "interrupt"
    return "wake"


def mode_for_event(mode: Busy) -> Busy:
    """Return the busy mode for an event that is not a person's message: the session's `mode`, but never "interrupt"."""
    return "queue" if mode == "interrupt" else mode
