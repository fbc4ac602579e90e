"""The state machine of a part: one piece of an utterance on its way to a platform (Law 7).

Rules, in prose:

- A part waits `queued` in the line of its destination. Only the head of a line is sent, so parts leave in order.
- `sending` is durable before the first byte leaves. The part then becomes
      `sent`      the platform gave a receipt
      `queued`    provably not sent, or a documented "not now": tried again after a back-off
      `rejected`  the platform's definite no; or it could not be sent until the horizon had passed
      `unknown`   bytes may have left and no answer settles it; also if the gateway died meanwhile
- An `unknown` part is never retried blindly. The channel's safety class decides (`resolve`); until then the part stays
  the head of its line. While an earlier attempt may have arrived, the part is *in doubt*: "not sent" then proves only
  that the last attempt failed, so the part goes back to `unknown`, and a definite no makes it `held`.
- Edits, deletions and reactions are idempotent on every platform. After an unknown outcome such a part is sent again,
  whatever the safety class, until the horizon.
- A `held` part may have arrived. It waits for a person to decide: resend, arrived or drop.
- A part without content for people (a reserved message, or its removal) causes no notice when it fails, and does not
  wait for a person: where another part would be held, it is dropped in the same step.
- `sent`, `held`, `rejected` and `dropped` parts have left the line, and later parts go on. A part that is resent joins
  the tail and is marked.
- A ledger restored from a backup knows less than the platforms: every part that was in line is `unknown` (Law 14).
- A platform may report later that a message it accepted has failed (a mail that bounces). The receipt was true, so the
  part stays `sent`, with the remark that it *failed later*; people and the agent are notified once, as of a rejection.

TABLE is the complete definition; docs/outbox.md draws its diagram from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

State = Literal["queued", "sending", "sent", "rejected", "unknown", "held", "dropped"]

Event = Literal[
    "departs",  # it is the head of its line, it is due, and its channel has a free slot
    "receipt",  # the platform confirmed that it has the part
    "not sent",  # provably nothing left, or "not now" (429, documented not-accepted answers)
    "refused",  # the platform's definite no
    "gave up",  # not sent, and the horizon has passed
    "silence",  # no answer that settles whether it was sent (timeout, lost connection, crash)
    "again",  # unknown: sending it twice has no further effect (idempotency key, an edit), so it is sent again
    "repeat",  # unknown: the operator prefers a possible duplicate to a held part
    "found",  # a look-up showed that the platform has it, although no receipt came
    "absent",  # unknown: the platform was asked, and does not have it
    "hold",  # unknown: only a person can settle it
    "resend",  # a person: send it again
    "arrived",  # a person: it arrived
    "drop",  # a person: never mind
]

Effect = Literal[
    "advance",  # it left the line: the next part of its destination may be sent
    "tell",  # write a notice: people see it, the agent's next prompt carries it, it never wakes the agent (Law 7)
    "clear doubt",  # none of the attempts so far can have arrived
    "mark",  # it is sent as a deliberate repeat and says so
    "join tail",  # it goes to the end of its line
]


@dataclass(frozen=True)
class Step:
    """The result of an event: the new state, and effects to apply in the transaction that records it."""

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


class PartStepNotAllowed(ValueError):
    """The table has no transition for this event in the part's state."""


def step(state: State, event: Event) -> Step:
    """The state after `event`, and the effects to apply. Raises PartStepNotAllowed if the table has no such step."""
    try:
        return TABLE[state][event]
    except KeyError:
        raise PartStepNotAllowed(_refusal(state, event)) from None


def _refusal(state: State, event: Event) -> str:
    if event in ("resend", "arrived", "drop"):
        return f"this part is {state}; only a part that is held can be resent, marked as arrived or dropped"
    return f"a part that is {state} does not take {event!r}"


Safety = Literal["idempotent", "reconcilable", "at-most-once"]

IDEMPOTENT_KINDS: frozenset[str] = frozenset({"edit", "delete", "react"})
"""Kinds of operations that are idempotent on every platform."""

HORIZON_MS = 72 * 3600 * 1000
LEAST_ATTEMPTS = 10
"""A part is given up after the horizon, but not before this many attempts: a machine that slept for days must not give
up a part after a single attempt."""
TRUSTED_KEY_LIFE_SHARE = 0.8
"""An idempotency key is trusted for this share of its life: the platform's clock differs from ours, and an attempt
takes time."""


@dataclass(frozen=True)
class Rules:
    """How a channel's declared properties govern its parts. Times in milliseconds."""

    safety: Safety
    key_life: int = 0  # how long the platform recognises a repeated idempotency key
    settle: int = 0  # how long after an attempt a look-up that finds nothing proves that it was not sent
    finds: bool = False  # the platform can be asked whether it has a message
    resend_unknown: bool = False  # the operator prefers a possible duplicate to a held part
    horizon: int = HORIZON_MS


Resolution = Literal["again", "look", "repeat", "hold"]


def resolve(rules: Rules, *, first: int, now: int, kind: str = "post") -> Resolution:
    """How to resolve an unknown part. `first`: when the first attempt that may have arrived was made.

    "look": ask the platform, not before `settle` has passed. Its answer is the event `found` or `absent`; if it cannot
    tell, it is asked again later. At the horizon, a person decides.
    """
    age = max(0, now - first)
    if rules.safety == "idempotent" and age < rules.key_life * TRUSTED_KEY_LIFE_SHARE:
        return "again"
    if age >= rules.horizon:
        return "hold"
    if kind in IDEMPOTENT_KINDS:
        return "again"
    if rules.safety == "reconcilable" or (rules.safety == "idempotent" and rules.finds):
        return "look"
    return "repeat" if rules.resend_unknown else "hold"


def refused(*, doubt: bool) -> tuple[Event, ...]:
    """The events of a definite no. In doubt, the no covers only the last attempt: an earlier one may have arrived."""
    return ("silence", "hold") if doubt else ("refused",)


def failed_later(state: State) -> tuple[Event, ...] | None:
    """The events to apply to a part, before it is marked as failed later, when its platform reports a late failure.

    A late failure proves that the platform had accepted the part. None: the report changes nothing, because the part
    has not been sent yet, is about to be sent again, or is already rejected or dropped.
    """
    if state == "sent":
        return ()
    return ("found",) if "found" in TABLE[state] else None


def doubted(state: State) -> tuple[Event, ...]:
    """What becomes of a part in line where it may have left without a trace: the ledger was put back from a copy."""
    return {"queued": ("departs", "silence"), "sending": ("silence",)}.get(state, ())  # type: ignore[return-value]


def not_sent(rules: Rules, *, doubt: bool, attempts: int, since: int, now: int, wait: int = 0) -> Event:
    """The event of an attempt that provably sent nothing. In doubt, that settles nothing.

    `since`: when the part began to wait. `wait`: the pause that the platform asks for; one as long as the horizon
    counts as a no. Times in ms.
    """
    if doubt:
        return "silence"
    late = now - since >= rules.horizon and attempts >= LEAST_ATTEMPTS
    return "gave up" if late or wait >= rules.horizon else "not sent"
