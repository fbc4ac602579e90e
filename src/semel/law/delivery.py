"""The life of a part: one piece of an utterance as it leaves for a platform (Law 7).

Rules, in prose:

- A part waits in its destination's line, `queued`. Only the head of a line leaves: parts leave in order.
- `sending` is durable before the first byte leaves. From there it is
      `sent`      the platform gave a receipt
      `queued`    provably not sent, or a documented "not now": tried again after a back-off
      `rejected`  the platform's definite no; or it could not be sent until the horizon had passed
      `unknown`   bytes may have left and no answer settles it; also: the gateway died meanwhile
- `unknown` is never blindly retried. The channel's safety class decides (`resolve`), and it stays the head of
  its line until then. While an earlier attempt may have arrived, the part is *in doubt*: "not sent" then
  proves only that the last attempt failed, so it goes back to `unknown`, and a definite no makes it `held`.
- To edit, to delete and to react is to make something so: done twice, it is so once. Such a part leaves again after
  an unknown outcome on every class, until the horizon.
- `held` waits for a person: it may have arrived. They say resend, arrived or drop.
- What says nothing (a message that is only reserved, and its removal) is told to nobody when it fails, and waits for
  nobody: where another part is held, it is dropped in the same step.
- `sent`, `held`, `rejected` and `dropped` have left the line: later parts go on. A resend joins the tail,
  marked.
- A ledger that was put back from a copy knows less than its platforms: whatever was in line is `unknown` (Law 14).
- A platform may tell later that a message failed which it took (a mail that bounces). The receipt was no lie, so the
  part stays `sent`, with the remark that it *failed later*; people and the agent are told as of a rejection, once.

The table is the whole of it; docs/outbox.md draws its diagram from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

State = Literal["queued", "sending", "sent", "rejected", "unknown", "held", "dropped"]

Event = Literal[
    "departs",  # it is the head of its line, it is due, and its channel has room
    "receipt",  # the platform's answer: it has it
    "not sent",  # provably nothing left, or "not now" (429, documented not-accepted answers)
    "refused",  # the platform's definite no
    "gave up",  # not sent, and the horizon has passed
    "silence",  # no answer that settles it
    "again",  # unknown: to repeat it changes nothing (a key that is folded, an edit), so the same part leaves again
    "repeat",  # unknown: the operator chose repeats over holds
    "found",  # the platform was seen to have it, though its answer was not
    "absent",  # unknown: the platform was asked, and has it not
    "hold",  # unknown: nothing can settle it but a person
    "resend",  # a person: send it again
    "arrived",  # a person: it arrived
    "drop",  # a person: never mind
]

Effect = Literal[
    "advance",  # it left the line: the next part of its destination may go
    "tell",  # a notice: people see it, it rides in the agent's next prompt, it never wakes (Law 7)
    "clear doubt",  # no attempt that was made can have arrived
    "mark",  # it is a deliberate repeat, and says so
    "join tail",  # it stands in line again, last
]


@dataclass(frozen=True)
class Step:
    """What an event makes of a part. Effects are done in the transaction that records the state."""

    state: State
    effects: tuple[Effect, ...] = ()


TABLE: Mapping[State, Mapping[Event, Step]] = MappingProxyType(
    {
        "queued": {
            "departs": Step("sending"),
        },
        "sending": {
            "receipt": Step("sent", ("advance",)),
            "not sent": Step("queued", ("clear doubt",)),
            "refused": Step("rejected", ("advance", "tell")),
            "gave up": Step("rejected", ("advance", "tell")),
            "silence": Step("unknown"),
            "found": Step("sent", ("advance",)),
        },
        "unknown": {
            "found": Step("sent", ("advance",)),
            "absent": Step("queued", ("clear doubt",)),
            "again": Step("queued"),
            "repeat": Step("queued", ("mark",)),
            "hold": Step("held", ("advance", "tell")),
        },
        "held": {
            "found": Step("sent"),
            "resend": Step("queued", ("clear doubt", "mark", "join tail")),
            "arrived": Step("sent"),
            "drop": Step("dropped"),
        },
        "sent": {},
        "rejected": {},
        "dropped": {},
    }
)

STATES: tuple[State, ...] = tuple(TABLE)
IN_LINE: frozenset[State] = frozenset({"queued", "sending", "unknown"})


class NotAllowed(ValueError):
    """A part in that state does not take that event."""


def step(state: State, event: Event) -> Step:
    """The state after `event`, and what must happen with it. Raises NotAllowed where the table has no such
    step."""
    try:
        return TABLE[state][event]
    except KeyError:
        raise NotAllowed(_refusal(state, event)) from None


def _refusal(state: State, event: Event) -> str:
    if event in ("resend", "arrived", "drop"):
        return f"this part is {state}; only a part that is held can be resent, marked as arrived or dropped"
    return f"a part that is {state} does not take {event!r}"


Safety = Literal["idempotent", "reconcilable", "at-most-once"]

REPEATABLE: frozenset[str] = frozenset({"edit", "delete", "react"})
"""Kinds of operations that make something so: on every platform, done twice it is so once."""

HORIZON_MS = 72 * 3600 * 1000
LEAST_ATTEMPTS = 10
"""A part is given up after the horizon, but not before it was tried this often: a machine that slept for days
must not give up what it tried once."""
KEY_LIFE_USED = 0.8
"""The platform's clock is not ours, and an attempt takes time: a key is trusted for this share of its
life."""


@dataclass(frozen=True)
class Rules:
    """What a channel's table of facts means for its parts. Times in milliseconds."""

    safety: Safety
    key_life: int = 0  # how long the platform folds a repeated key
    settle: int = 0  # how long after an attempt "it is not there" proves that it was not sent
    finds: bool = False  # the platform can be asked what it has
    resend_unknown: bool = False
    horizon: int = HORIZON_MS


Resolution = Literal["again", "look", "repeat", "hold"]


def resolve(rules: Rules, *, first: int, now: int, kind: str = "post") -> Resolution:
    """What an unknown part needs next. `first`: when the first attempt left that may have arrived.

    "look" means: ask the platform, not before `settle`; the answer is `found` or `absent`, or it cannot tell
    and is asked again later. At the horizon, a person decides.
    """
    age = max(0, now - first)
    if rules.safety == "idempotent" and age < rules.key_life * KEY_LIFE_USED:
        return "again"
    if age >= rules.horizon:
        return "hold"
    if kind in REPEATABLE:
        return "again"
    if rules.safety == "reconcilable" or (rules.safety == "idempotent" and rules.finds):
        return "look"
    return "repeat" if rules.resend_unknown else "hold"


def refused(*, doubt: bool) -> tuple[Event, ...]:
    """What a definite no means. In doubt it speaks of the repeat only: the first one may have arrived."""
    return ("silence", "hold") if doubt else ("refused",)


def failed_later(state: State) -> tuple[Event, ...] | None:
    """What becomes of a part, before the remark, when its platform tells that it failed: it had taken it.

    None: that says nothing new of it. It did not leave yet, or is to leave again; or it is over otherwise.
    """
    if state == "sent":
        return ()
    return ("found",) if "found" in TABLE[state] else None


def doubted(state: State) -> tuple[Event, ...]:
    """What becomes of a part in line where it may have left without a trace: the ledger was put back from a copy."""
    return {"queued": ("departs", "silence"), "sending": ("silence",)}.get(state, ())  # type: ignore[return-value]


def not_sent(rules: Rules, *, doubt: bool, attempts: int, since: int, now: int, wait: int = 0) -> Event:
    """What "not sent" means for a part that waits since `since`. In doubt it settles nothing.

    `wait`: what the platform asks for; beyond the horizon it is as good as a no.
    """
    if doubt:
        return "silence"
    late = now - since >= rules.horizon and attempts >= LEAST_ATTEMPTS
    return "gave up" if late or wait >= rules.horizon else "not sent"
