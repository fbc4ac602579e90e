"""The life of a turn (Laws 2, 3, 9, 10).

A turn is one run of the agent over the events bound to it. It is `running` until one of these:

- `answered`   the agent ended the prompt                         -> done
- `errored`    the agent ended it with an error                   -> failed
- `cancelled`  a person stopped it                                -> cancelled
- `lost`       its agent or its gateway died, or it failed for a
               passing reason and its time to be tried again came -> lost
- `given up`   it was lost and may not be tried again             -> failed

A turn that failed for a passing reason stays `running`, without an agent, until it is tried again: its events are
still its own, whatever is said meanwhile waits, and a person can stop it.

`done`, `failed` and `cancelled` are finished: their events stay bound to them. `lost` is dead: it binds no
event, its events move to the next attempt of the same root, in the transaction that begins it. Nothing
leaves a finished state. At most three attempts share a root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["running", "done", "failed", "cancelled", "lost"]
Event = Literal["answered", "errored", "cancelled", "lost", "given up"]
How = Literal["start", "restart", "resume", "recall"]

NEWER = "a newer message"  # who stopped a turn that was interrupted
CHAPTER = "a new chapter"  # who stopped one that belongs to the chapter before
MAX_ATTEMPTS = 3
BACK_OFF = (5.0, 60.0)  # seconds before the second and the third attempt after a failure that passes

TABLE: dict[State, dict[Event, State]] = {
    "running": {
        "answered": "done",
        "errored": "failed",
        "cancelled": "cancelled",
        "lost": "lost",
        "given up": "failed",
    },
    "done": {},
    "failed": {},
    "cancelled": {},
    "lost": {},
}

FINISHED: frozenset[State] = frozenset({"done", "failed", "cancelled"})


class NotAllowed(ValueError):
    """A turn in that state does not take that event: the caller is fenced off (Law 10)."""


def step(state: State, event: Event) -> State:
    """The state after `event`. Raises NotAllowed where the table has no such step."""
    try:
        return TABLE[state][event]
    except KeyError:
        raise NotAllowed(f"a turn that is {state} cannot become {event}") from None


@dataclass(frozen=True)
class Next:
    """What to do with the next attempt of a lost turn. `why` is for the person if it is given up."""

    how: How | Literal["give up"]
    why: str = ""


def after_loss(
    *,
    attempt: int,
    tools_started: bool,
    restored: bool,
    history_complete: bool,
    history_begun: bool = False,
    most: int = MAX_ATTEMPTS,
) -> Next:
    """Law 9: nothing runs twice by itself.

    attempt: the number of the attempt that would run now (2 for the first retry).
    most: the attempts that its agent is given, at most MAX_ATTEMPTS.
    tools_started: a tool call of a lost attempt of this root had started, by the record or by the agent's memory.
    restored: the agent has its own memory of the session again (loaded or resumed).
    history_complete: that memory holds the complete answer of the interrupted turn, with evidence that it ended.
    history_begun: it holds something that the agent said or did in that turn. Asked from the start, the agent would
        say it again, and do what it may have begun behind it.
    """
    if history_complete:
        return Next("recall")
    if attempt > most:
        return Next("give up", f"it was lost {most} times" if most > 1 else "it was lost")
    if restored and (tools_started or history_begun):
        return Next("resume")
    if not tools_started:
        return Next("restart")
    return Next(
        "give up",
        "a tool call had started and the agent could not restore its session: running it again could repeat what "
        "the tool did",
    )


def after_failure(*, attempt: int, passing: bool, retry_after: float | None, most: int = MAX_ATTEMPTS) -> float | None:
    """Seconds until a turn that failed in its `attempt` is tried again; None: it is failed, and visible.

    A wait that was asked for (`retry_after`, seconds) is kept to; ours is the least.
    """
    if not passing or attempt >= min(most, MAX_ATTEMPTS):
        return None
    return max(BACK_OFF[attempt - 1], retry_after or 0.0)
