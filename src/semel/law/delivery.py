"""The state machine of a part: one piece of an utterance on its way to a platform (Law 7).

Rules, in prose:

- A part waits `queued` in the line of its destination. Only the head of a line is sent, so parts leave in order.
- `sending` is durable before the first byte leaves. The part then becomes
      `sent`      the platform gave a receipt
      `queued`    provably not sent, or a documented "not now": tried again after a back-off; or its place is reserved
      `rejected`  the platform's definite no; or it could not be sent before its *horizon*, 72 hours by default
      `unknown`   bytes may have left and no answer settles it; also if the gateway died meanwhile
- An `unknown` part is never retried blindly. The channel's safety class decides (`resolve_unknown`); until then the
  part stays the head of its line. While an earlier attempt may have arrived, the part is *in doubt*: "not sent" then
  proves only that the last attempt failed, so the part becomes `unknown` again; and a definite no makes it `held`.
- Edits, deletions and reactions are idempotent on every platform. If the outcome of such a part is unknown, it is sent
  again, whatever the safety class, until the horizon.
- A post to a platform that neither folds repeats nor tells what it has, but edits messages, is sent in two steps: a
  placeholder *reserves* its place, and an edit fills the place with the text. An edit can be repeated, so a lost answer
  leaves at worst a second placeholder. While the place is being reserved the text has provably not left: silence counts
  as "not sent".
- A `held` part may have arrived. It waits for a person to decide: resend, arrived or drop.
- A part that only posts or removes a placeholder (a message whose text comes later, by an edit) causes no notice when
  it fails, and does not wait for a person: where another part would be held, it is dropped in the same step.
- `sent`, `held`, `rejected` and `dropped` parts have left the line, and later parts go on.
- A queued notice that something is missing is dropped once that is settled: it departs, is refused and dropped in one
  step, so nothing leaves, and nobody is told.
- A `rejected` part did not arrive, and nothing sends it again by itself. It waits for a person: they resend it once
  they removed the cause, or drop it.
- A part that a person resends joins the tail: it arrives later than what was said after it.
- Three events send a part again that may have arrived. `again`: sending it twice has no further effect (an idempotency
  key, an edit). `repeat`: the operator prefers a possible duplicate to a held part. `resend`: a person decided so about
  a held part. A part is marked as a possible repeat by `repeat` and by the `resend` of a held part.
- A ledger restored from a backup knows less than the platforms: every part that was in line is `unknown` (Law 14).
- A platform may report later that a message it accepted has failed (a mail that bounces). The receipt was true, so the
  part stays `sent` and is marked as *failed later*; people and the agent get one notice, as for a rejected part.

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
    "reserved",  # the platform has the placeholder that reserves the part's place; the text leaves next, as an edit
    "not sent",  # provably nothing left, or "not now" (429, documented not-accepted answers)
    "refused",  # the platform's definite no
    "gave up",  # not sent, and the horizon has passed
    "silence",  # no answer shows whether it was sent (timeout, lost connection, crash)
    "again",  # of an unknown part: send it again, because that has no further effect
    "repeat",  # of an unknown part: send it again, because the operator accepts duplicates
    "found",  # a look-up showed that the platform has it, although no receipt came
    "absent",  # of an unknown part: a look-up showed that the platform does not have it
    "hold",  # of an unknown part: only a person can decide
    "resend",  # of a held or rejected part, by a person: send it again
    "arrived",  # of a held part, by a person: it arrived
    "drop",  # of a held or rejected part, by a person: do not send it
]

Effect = Literal[
    "advance",  # it left the line: the next part of its destination may be sent
    "tell",  # write a notice: people see it, the agent's next prompt carries it, it never wakes the agent (Law 7)
    "clear doubt",  # forget when the first doubtful attempt was made; the number of attempts stays
    "mark",  # from now on it is sent with a visible note that it is a repeat
    "join tail",  # it goes to the end of its line
]


@dataclass(frozen=True)
class Step:
    """The result of an event: the part's new state, and the effects to apply in the transaction that records it."""

    state: State
    effects: tuple[Effect, ...] = ()


TABLE: Mapping[State, Mapping[Event, Step]] = MappingProxyType(
    {
        "queued": {
            "departs": Step("sending"),
        },
        "sending": {
            "receipt": Step("sent", ("advance",)),
            "reserved": Step("queued", ("clear doubt",)),
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
        "rejected": {
            "resend": Step("queued", ("clear doubt", "join tail")),
            "drop": Step("dropped"),
        },
        "dropped": {},
    }
)

STATES: tuple[State, ...] = tuple(TABLE)
IN_LINE: frozenset[State] = frozenset({"queued", "sending", "unknown"})


class PartStepNotAllowed(ValueError):
    """The table has no transition for this event in the part's state."""


def step(state: State, event: Event) -> Step:
    """Return the step that the table has for this event in this state. Raises PartStepNotAllowed if it has none."""
    try:
        return TABLE[state][event]
    except KeyError:
        raise PartStepNotAllowed(_explain_refusal(state, event)) from None


def _explain_refusal(state: State, event: Event) -> str:
    if event == "resend":
        return f"this part is {state}; only a part that is held or rejected can be resent"
    if event == "drop":
        return f"this part is {state}; only a part that is held or rejected can be dropped"
    if event == "arrived":
        return f"this part is {state}; only a part that is held can be marked as arrived"
    return f"a part that is {state} does not take {event!r}"


Safety = Literal["idempotent", "reconcilable", "at-most-once"]

IDEMPOTENT_KINDS: frozenset[str] = frozenset({"edit", "delete", "react"})
"""The kinds of operations that have no further effect if they are sent twice, on every platform."""

HORIZON_MS = 72 * 3600 * 1000
MIN_ATTEMPTS = 10
"""How many attempts a part gets at least, even after its horizon: a machine that slept for days must not give up a part
after a single attempt."""
TRUSTED_KEY_LIFE_SHARE = 0.8
"""For what share of its life an idempotency key is relied on: the platform's clock differs from ours, and an attempt
takes time."""


@dataclass(frozen=True)
class Rules:
    """The properties of a channel that decide how its parts are retried. Times are in milliseconds."""

    safety: Safety
    key_life: int = 0  # how long the platform recognises a repeated idempotency key
    absence_proven_after: int = 0  # so long after an attempt, a look-up without a result proves that it was not sent
    can_look_up: bool = False  # the platform can be asked whether it has a message
    resend_unknown: bool = False  # the operator prefers a possible duplicate to a held part
    reserves: bool = False  # a post is sent in two steps: a placeholder reserves its place, and an edit fills it
    horizon: int = HORIZON_MS  # when it has passed, unknown parts are held, and unsent ones given up (MIN_ATTEMPTS)


Resolution = Literal["again", "look", "repeat", "hold"]


def resolve_unknown(rules: Rules, *, first_attempt_at: int, now: int, kind: str = "post") -> Resolution:
    """Decide how to resolve an unknown part.

    `first_attempt_at`: the time (ms) of the first attempt that may have arrived. `kind`: the part's operation, such as
    "post" or "edit". Returns one of:

    - "again", "repeat" or "hold": the event to apply.
    - "look": ask the platform, once `absence_proven_after` has passed. Its answer is the event `found` or `absent`; if
      it cannot tell, ask again later.
    """
    age = max(0, now - first_attempt_at)
    if rules.safety == "idempotent" and age < rules.key_life * TRUSTED_KEY_LIFE_SHARE:
        return "again"
    if age >= rules.horizon:
        return "hold"
    if kind in IDEMPOTENT_KINDS:
        return "again"
    if rules.safety == "reconcilable" or (rules.safety == "idempotent" and rules.can_look_up):
        return "look"
    return "repeat" if rules.resend_unknown else "hold"


def explain_hold(rules: Rules, *, first_attempt_at: int, now: int) -> str:
    """Return why an unknown part is held, for people: why Semel does not send it again by itself.

    The arguments are those of `resolve_unknown`, which returned "hold".
    """
    if now - first_attempt_at >= rules.horizon:
        return f"nothing settled this within {rules.horizon // 3_600_000} h, so it is not sent again by itself"
    if rules.safety == "at-most-once":
        return "the platform neither folds repeats nor tells what it has, so it is not sent again by itself"
    if not rules.key_life:
        return "sent again, it would be a second message, so it is not sent again by itself"
    minutes = round(rules.key_life * TRUSTED_KEY_LIFE_SHARE / 60_000)
    life = f"{minutes / 60:.3g} h" if minutes >= 120 else f"{minutes} min"
    return f"after {life} the platform may fold a repeat no more, so it is not sent again by itself"


def events_of_refusal(*, may_have_arrived: bool) -> tuple[Event, ...]:
    """Return the events to apply to a part after the platform's definite no.

    `may_have_arrived`: an earlier attempt may have. The no covers only the last one, so the part is then held.
    """
    return ("silence", "hold") if may_have_arrived else ("refused",)


def events_of_late_failure(state: State) -> tuple[Event, ...] | None:
    """Return the events to apply when a platform reports that a part in this state failed after it was accepted.

    They make the part `sent`, because the report proves that it was accepted; the caller then marks it as failed later.
    None if the report changes nothing: the part is queued, rejected or dropped.
    """
    if state == "sent":
        return ()
    return ("found",) if "found" in TABLE[state] else None


def events_of_restore(state: State) -> tuple[Event, ...]:
    """Return the events to apply to a part in this state after the ledger was restored from a backup.

    They make a `queued` or `sending` part `unknown`, because the platform may have it already. For a part in any other
    state, no event is needed.
    """
    return {"queued": ("departs", "silence"), "sending": ("silence",)}.get(state, ())  # type: ignore[return-value]


def event_of_not_sent(
    rules: Rules, *, may_have_arrived: bool, attempts: int, queued_at: int, now: int, retry_after: int = 0
) -> Event:
    """Return the event to apply after an attempt that provably sent nothing: it is tried again or given up.

    `may_have_arrived`: an earlier attempt may have; the part then becomes unknown again. `attempts`: how many were
    made. `queued_at`: when the part was first queued. `retry_after`: the pause that the platform asks for; if it is as
    long as the horizon, the part is given up. Times are in ms.
    """
    if may_have_arrived:
        return "silence"
    is_late = now - queued_at >= rules.horizon and attempts >= MIN_ATTEMPTS
    return "gave up" if is_late or retry_after >= rules.horizon else "not sent"
