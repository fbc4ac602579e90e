"""The state machine of a turn, and the retry policy for lost and failed turns (Laws 2, 3, 9, 10).

A turn is one run of the agent over the events bound to it. It is `running` until one of these:

- `answered`   the agent ended the prompt                         -> done
- `errored`    the agent ended it with an error                   -> failed
- `cancelled`  a person stopped it                                -> cancelled
- `lost`       its agent or its gateway died, or it failed with a
               transient error and the time for a retry has come  -> lost
- `given up`   it was lost and may not be tried again             -> failed

After a transient error, a turn stays `running`, without an agent, until it is retried: it keeps its events, new
messages wait, and a person can stop it.

`done`, `failed` and `cancelled` are finished: their events stay bound to them, and no transition leaves them. A `lost`
turn binds no events: they move to the next attempt of the same root, in the transaction that begins that attempt. At
most three attempts share a root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["running", "done", "failed", "cancelled", "lost"]
Event = Literal["answered", "errored", "cancelled", "lost", "given up"]
How = Literal["start", "restart", "resume", "recall"]
"""How an attempt begins. "start": with the prompt. "restart": with the same prompt again. "resume": with a request to
continue, because the agent has its memory again. "recall": without a prompt, because that memory holds the answer."""

STOPPED_BY_NEWER_MESSAGE = "a newer message"  # the cause when a message in busy mode `interrupt` cancels a turn
STOPPED_BY_NEW_CHAPTER = "a new chapter"  # the cause when /new cancels a turn of the previous chapter
MAX_ATTEMPTS = 3
RETRY_DELAYS_S = (5.0, 60.0)  # seconds before the second and the third attempt after a transient error

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


class TurnStepNotAllowed(ValueError):
    """The table has no transition for this event in the turn's state: the caller acts on an outdated state (Law 10)."""


def step(state: State, event: Event) -> State:
    """Return the state that follows `state` after `event`. Raises TurnStepNotAllowed if the table has none."""
    try:
        return TABLE[state][event]
    except KeyError:
        raise TurnStepNotAllowed(f"a turn that is {state} cannot become {event}") from None


@dataclass(frozen=True)
class LossDecision:
    """What follows a lost turn.

    `how`: how the next attempt begins, or "give up". `reason`: if it is given up, the reason to show.
    """

    how: How | Literal["give up"]
    reason: str = ""


def decide_after_loss(
    *,
    attempt: int,
    tools_started: bool,
    restored: bool,
    history_complete: bool,
    history_begun: bool = False,
    calls_hidden: bool = False,
    max_attempts: int = MAX_ATTEMPTS,
) -> LossDecision:
    """Decide how a lost turn continues, so that nothing runs twice by itself (Law 9).

    `attempt`: the number of the attempt that would run now (2 for the first retry).
    `tools_started`: a tool call of a lost attempt of this root had started, by the record or by the agent's memory.
    `restored`: the agent has its own memory of the session again (loaded or resumed).
    `history_complete`: that memory holds the complete answer of the interrupted turn, with evidence that it ended.
    `history_begun`: that memory holds something that the agent said or did in that turn. If the prompt were restarted,
    the agent would repeat it.
    `calls_hidden`: the agent was prompted in a lost attempt and does not tell its tool calls, so that one may have
    started without a record.
    `max_attempts`: the number of attempts that the agent is allowed, at most MAX_ATTEMPTS.
    """
    if history_complete:
        return LossDecision("recall")
    if attempt > max_attempts:
        return LossDecision("give up", f"it was lost {max_attempts} times" if max_attempts > 1 else "it was lost")
    if restored and (tools_started or calls_hidden or history_begun):
        return LossDecision("resume")
    if not (tools_started or calls_hidden):
        return LossDecision("restart")
    return LossDecision(
        "give up",
        f"a tool call {'had' if tools_started else 'may have'} started and the agent could not restore its session: "
        "running it again could repeat what the tool did",
    )


def explain_giving_up(reason: str, death: str | None, earlier_errors: Sequence[str | None]) -> str:
    """Return why a turn is given up after its last attempt was lost, with the last reasons that are known.

    `reason`: that of the `LossDecision`. `death`: how the agent ended, as a clause; None if its gateway ended.
    `earlier_errors`: why the attempts before failed or were lost, in their order; None if that is unknown.
    """
    text = f"{reason}; the last time the agent {death}" if death else reason
    earlier = next((error for error in reversed(earlier_errors) if error), death)
    return text if earlier in (None, death) else f"{text}; the time before: {earlier.rstrip('. ')}"


def delay_after_failure(
    *, attempt: int, is_transient: bool, retry_after: float | None, max_attempts: int = MAX_ATTEMPTS
) -> float | None:
    """Return the seconds until a failed turn is retried; None if it is not retried.

    `attempt`: the number of the attempt that failed (1 for the first). `is_transient`, `retry_after` (seconds): as in
    `semel.law.retries.Failure`. The delay is at least that of RETRY_DELAYS_S and at least `retry_after`.
    """
    if not is_transient or attempt >= min(max_attempts, MAX_ATTEMPTS):
        return None
    return max(RETRY_DELAYS_S[attempt - 1], retry_after or 0.0)
