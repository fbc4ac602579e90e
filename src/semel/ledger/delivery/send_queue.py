"""Send parts: departures, outcomes, look-ups, recovery at start-up, and the decisions of people (Law 7).

Each public function that takes `tx` is the body of one transaction. `semel.law.delivery` holds the state machine of a
part. This module stores the effects of its transitions, with the notices and the changes that watchers must see.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from semel.law import delivery as law
from semel.law import retries
from semel.law.identity import BadKey, check_event_key
from semel.ledger.delivery import (
    notices,
    other_channel,
    part_transitions,
    parts,
    placeholders,
    reservations,
    stale_notices,
)
from semel.ledger.delivery.part_transitions import PartMove
from semel.ledger.delivery.parts import MARKED_AS_REPEAT, PARKED
from semel.ledger.storage.rows import EventRow, OutgoingPart
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, part_requests
from semel.text.wellformed import MAX_REASON_CHARS, one_line

MAX_PARTS_SCANNED = 64
"""Parts of a channel that one transaction reads at most, so that a long queue delays no other writer."""


@dataclass(frozen=True)
class Departure:
    """A part that the channel must now send, or look up. `op`: the channel operation as a JSON object.

    `key`: the part's idempotency key. `is_marked`: the text must be marked as a possible repeat.
    """

    part: int
    claim: int
    channel: str
    dest: str
    key: str
    op: Mapping[str, Any]
    session: str
    is_marked: bool
    first: int  # ms: departure of the first attempt that may have arrived
    at: int  # ms: when the claim was recorded
    n: int = 0  # index of the part in its message
    answers: Mapping[str, Any] | None = None  # {"id", "sender", "data"} of the message that the part answers
    reserves: bool = False  # it only reserves the part's place: the text leaves later
    attempts: int = 0  # how many were made before this one, since its place was reserved or a person resent it


@dataclass(frozen=True)
class ChannelCapacity:
    """A channel's delivery rules, and `room`: how many attempts the channel can begin now."""

    rules: law.Rules
    room: int


@dataclass(frozen=True)
class DueParts:
    """The parts that `depart` found due: those to send and those to look up.

    `due`: when the next part becomes due (ms) on a channel that still has room; None if no part waits for a time.
    `held_at`: the destinations of parts that were held instead.
    """

    sends: tuple[Departure, ...] = ()
    look_ups: tuple[Departure, ...] = ()
    due: int | None = None
    held_at: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttemptOutcome:
    """The outcome of an attempt to send a part, or of a look-up. `retry_after` is in ms.

    An attempt has one of the first four results, a look-up one of the last four. `reason` is cut to one line. `receipt`
    becomes None if the platform's message id is not a valid key (`semel.law.identity`).
    """

    result: Literal["receipt", "not sent", "refused", "silence", "found", "absent", "cannot tell", "hold"]
    receipt: str | None = None
    reason: str | None = None
    retry_after: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "receipt", _valid_platform_id(self.receipt))
        object.__setattr__(self, "reason", None if self.reason is None else one_line(self.reason, MAX_REASON_CHARS))


def _valid_platform_id(id: object) -> str | None:
    """Return the platform's message id if it is a valid key (`semel.law.identity`), else None.

    An invalid id is not repaired, because the result could be the id of another message. Without an id, Semel knows
    only that the platform accepted the message.
    """
    if isinstance(id, int):
        id = str(id)
    try:
        return check_event_key(id) if isinstance(id, str) else None
    except BadKey:
        return None


# ---------------------------------------------------------------- depart


def depart(tx: Tx, capacities: Mapping[str, ChannelCapacity], waits: Mapping[str, int] | None = None) -> DueParts:
    """Mark the next due parts as departing and return them: at most one for each destination, the first in its queue.

    `capacities`: by channel. `waits`: until when (ms) a destination must wait. An unknown part whose time has come is
    sent again, looked up or held, as its channel's safety class demands. The cost does not grow with the ledger (Law
    11).
    """
    sends: list[Departure] = []
    looks: list[Departure] = []
    held_at: list[str] = []
    channels_with_room: list[str] = []
    for channel, capacity in capacities.items():
        if capacity.room <= 0:
            continue
        full = len(sends) + len(looks) + capacity.room
        for row in tx.all(OutgoingPart, "parts_due", channel=channel, now=tx.now, limit=MAX_PARTS_SCANNED):
            if len(sends) + len(looks) >= full:
                break
            _take_part(tx, row, capacity.rules, waits or {}, sends, looks, held_at, capacities.keys())
        if len(sends) + len(looks) < full:
            channels_with_room.append(channel)
    # Computed last: a part held on one channel may have queued a notice on another one.
    times = [due for channel in channels_with_room if (due := _next_due_ms(tx, channel)) is not None]
    return DueParts(tuple(sends), tuple(looks), min(times, default=None), tuple(held_at))


def _take_part(
    tx: Tx,
    row: OutgoingPart,
    rules: law.Rules,
    waits: Mapping[str, int],
    sends: list[Departure],
    looks: list[Departure],
    held_at: list[str],
    channels: Collection[str],
) -> None:
    head = parts.find_head(tx, row.dest)
    until = waits.get(row.dest, 0)
    if head is None or head.id != row.id:
        tx.run("part_wait", id=row.id, due=PARKED)
    elif until > tx.now:
        tx.run("part_wait", id=row.id, due=until)
    elif row.state == "queued" and not stale_notices.drop_if_stale(tx, row):
        sends.append(_start_attempt(tx, _choose_step(tx, row, rules)))
    elif row.state == "unknown":
        _resolve_unknown(tx, row, rules, sends, looks, held_at, channels)


def _next_due_ms(tx: Tx, channel: str) -> int | None:
    if tx.exists("part_is_due", channel=channel, now=tx.now):
        return tx.now
    return tx.value(int, "parts_next_due", channel=channel, now=tx.now, parked=PARKED)


def _resolve_unknown(
    tx: Tx,
    row: OutgoingPart,
    rules: law.Rules,
    sends: list[Departure],
    looks: list[Departure],
    held_at: list[str],
    channels: Collection[str],
) -> None:
    first = row.first if row.first is not None else row.at
    if _cannot_fill(tx, row):
        # The part may have been sent as an edit of its placeholder. As a post, it is a second message: the platform
        # cannot recognise by the idempotency key that the two are the same.
        _as_post(tx, row, entries.load(row.op))
        row, rules = parts.get(tx, row.id), replace(rules, key_life=0)
    match law.resolve_unknown(rules, first_attempt_at=first, now=tx.now, kind=_op_kind(row)):
        case "look":
            tx.run("part_wait", id=row.id, due=PARKED)
            looks.append(_make_departure(tx, row, first))
        case "hold":
            move = PartMove.of(row)
            _hold(move, rules, first, tx.now)
            part_transitions.write_move(tx, move)
            other_channel.send_failure_notice(tx, move, channels)
            held_at.append(row.dest)
        case "repeat" if row.outcome == "quiet":  # a placeholder says nothing, so there is nothing to mark
            sends.append(_start_attempt(tx, row, "again"))
        case "again" | "repeat" as event:
            sends.append(_start_attempt(tx, row, event))


def _cannot_fill(tx: Tx, row: OutgoingPart) -> bool:
    """Return whether the part is an edit of a placeholder whose platform message id is unknown."""
    op = entries.load(row.op)
    return bool(op.get("fill")) and tx.value(str, "part_receipt", id=op["target_part"]) is None


def _op_kind(row: OutgoingPart) -> str:
    return str(reservations.channel_operation(entries.load(row.op)).get("kind", "post"))


def _choose_step(tx: Tx, row: OutgoingPart, rules: law.Rules) -> OutgoingPart:
    """Decide in which way a queued part leaves now. Return its row, with the operation as it is recorded now."""
    if not rules.reserves:
        return row
    if _cannot_fill(tx, row):
        _as_post(tx, row, entries.load(row.op))
        row = parts.get(tx, row.id)
    reservations.begin(tx, row, rules)
    return parts.get(tx, row.id)


def _start_attempt(tx: Tx, row: OutgoingPart, event: law.Event | None = None) -> Departure:
    move = PartMove.of(row)
    for step in (event, "departs") if event else ("departs",):
        move.take(step)  # type: ignore[arg-type]
    tx.run("part_depart", id=row.id, state=move.state, now=tx.now, marked=move.marked)
    part_transitions.touch_entries(tx, row.claim)
    return _make_departure(tx, row, row.first if row.first is not None else tx.now, marked=move.marked)


def _make_departure(tx: Tx, row: OutgoingPart, first: int, marked: int | None = None) -> Departure:
    recorded = entries.load(row.op)
    op, reserves = reservations.channel_operation(recorded), reservations.is_open(recorded)
    if op.get("target") is None and "target_part" in op:
        # The message that this part edits or reacts to left before it, in the same queue: its platform id is known by
        # now, or never will be.
        op["target"] = tx.value(str, "part_receipt", id=op["target_part"])
        if op["target"] is None and op.get("fill"):
            op = _as_post(tx, row, op)
    return Departure(
        part=row.id,
        claim=row.claim,
        channel=row.channel,
        dest=row.dest,
        key=row.key,
        op=op,
        session=row.session_key,
        is_marked=(row.marked if marked is None else marked) == MARKED_AS_REPEAT and not reserves,
        first=first,
        at=row.at,
        n=row.n,
        answers=_answered_message(tx, op.get("answers")),
        reserves=reserves,
        attempts=row.attempts,
    )


def _as_post(tx: Tx, row: OutgoingPart, op: dict[str, Any]) -> dict[str, Any]:
    """Change a part from an edit of a placeholder into a message of its own. Return the new operation.

    This is done if the placeholder never arrived, or cannot be edited.
    """
    op = {name: value for name, value in op.items() if name not in ("fill", "target", "target_part")}
    op["kind"] = "post"
    tx.run("part_op", id=row.id, op=entries.dump(op))
    return op


def _answered_message(tx: Tx, event: int | None) -> dict[str, Any] | None:
    """Return {"id", "sender", "data"} of the message that a part answers; None if it answers no message.

    "sender" and "data" are empty if the message's content has been deleted.
    """
    row = tx.one(EventRow, "event_get", id=event) if event is not None else None
    if row is None or row.key is None:
        return None
    data = entries.read_object(entries.load(row.payload), "data")
    sender = str(entries.read_object(data, "from").get("id") or "")
    return {"id": row.key, "sender": sender, "data": entries.read_object(data, "platform")}


# ---------------------------------------------------------------- outcomes


def record_outcome(
    tx: Tx, part: int, outcome: AttemptOutcome, rules: law.Rules, *, jitter: float = 0.5, channels: Collection[str] = ()
) -> law.State:
    """Record the outcome of an attempt or a look-up. Return the part's new state.

    `jitter` (0 <= jitter < 1) spreads the retry delays of several parts. `channels`: the channels that can send a
    notice about a failure. An answer that comes after the part was settled in another way changes nothing.
    """
    row = parts.get(tx, part)
    move = PartMove.of(row)
    if row.state == "sending" and reservations.is_open(entries.load(row.op)):
        _apply_reservation(tx, move, outcome, rules, jitter)
    elif outcome.result in ("found", "receipt") and "found" in law.TABLE[move.state]:
        move.take("receipt" if row.state == "sending" else "found")
        move.receipt, move.error = _message_id(tx, row, outcome.receipt), None
    elif row.state == "sending":
        _apply_attempt(tx, move, outcome, rules, jitter)
    elif row.state == "unknown":
        _apply_lookup(tx, move, outcome, rules)
    else:
        return move.state
    part_transitions.write_move(tx, move)
    other_channel.send_failure_notice(tx, move, channels)
    return move.state


def _message_id(tx: Tx, row: OutgoingPart, reported_id: str | None) -> str | None:
    """Return the platform's id for the part's message. For a filled placeholder, that is the placeholder's own id."""
    op = entries.load(row.op)
    placeholder_id = reservations.find_reserved_message(op)
    if placeholder_id is None and op.get("fill"):
        placeholder_id = tx.value(str, "part_receipt", id=op["target_part"])
    return reported_id if placeholder_id is None else str(placeholder_id)


def _apply_reservation(tx: Tx, move: PartMove, outcome: AttemptOutcome, rules: law.Rules, jitter: float) -> None:
    """Apply the outcome of an attempt to reserve the part's place. The text has not left, whatever the platform has."""
    if outcome.result == "receipt":
        move.take("reserved")
        move.due, move.attempts, move.error = tx.now, 0, None
        reservations.record_place(tx, move.row, outcome.receipt)
        return
    if outcome.result == "silence":
        reason = f"its text has not left, only a placeholder may have: {outcome.reason or 'no answer came'}"
        outcome = replace(outcome, result="not sent", reason=reason)
    _apply_attempt(tx, move, outcome, rules, jitter)


def _apply_attempt(tx: Tx, move: PartMove, outcome: AttemptOutcome, rules: law.Rules, jitter: float) -> None:
    """Apply the outcome of an attempt that brought no receipt."""
    row = move.row
    may_have_arrived = row.first != row.due  # an earlier attempt may have arrived
    move.error = outcome.reason
    op = entries.load(row.op)
    if outcome.result == "refused" and not may_have_arrived and op.get("fill"):
        _apply_refused_fill(tx, move)
        return
    if outcome.result == "refused" and not may_have_arrived and reservations.find_reserved_message(op) is not None:
        reservations.give_up_place(tx, row)
        move.take("not sent")
        move.due = tx.now
        return
    if outcome.result == "refused":
        for step in law.events_of_refusal(may_have_arrived=may_have_arrived):
            move.take(step)
        if may_have_arrived:
            move.error = f"{move.error or 'the platform refuses it'}; an earlier attempt may have arrived"
        return
    event: law.Event = "silence"
    retry_after = outcome.retry_after or 0
    if outcome.result == "not sent":
        event = law.event_of_not_sent(
            rules,
            may_have_arrived=may_have_arrived,
            attempts=row.attempts,
            queued_at=row.at,
            now=tx.now,
            retry_after=retry_after,
        )
    move.take(event)
    if event == "gave up":
        move.error = f"given up after {row.attempts} attempts; the last one failed: {outcome.reason}"
        reservations.delete_placeholder(tx, row)
        return
    wait = retries.retry_delay_ms(row.attempts, age=tx.now - row.at, jitter=jitter, retry_after=retry_after)
    move.due = tx.now + min(wait, rules.horizon)
    if move.state == "unknown":
        first = move.first or row.due
        match law.resolve_unknown(rules, first_attempt_at=first, now=tx.now, kind=_op_kind(row)):
            case "hold":
                _hold(move, rules, first, tx.now)
            case "look":
                move.due = tx.now + max(1, rules.absence_proven_after)


def _hold(move: PartMove, rules: law.Rules, first_attempt_at: int, now: int) -> None:
    """Hold an unknown part for a person, and add to its error why it is not sent again by itself."""
    move.take("hold")
    why = law.explain_hold(rules, first_attempt_at=first_attempt_at, now=now)
    move.error = f"{move.error}; {why}" if move.error else why


def _apply_refused_fill(tx: Tx, move: PartMove) -> None:
    """Send the text as a new message, because the platform refused to edit the placeholder.

    A person may have deleted the placeholder.
    """
    op = entries.load(move.row.op)
    _as_post(tx, move.row, op)
    placeholders.delete_unfillable(tx, op["target_part"])
    move.take("not sent")
    move.due = tx.now


def _apply_lookup(tx: Tx, move: PartMove, outcome: AttemptOutcome, rules: law.Rules) -> None:
    """Apply the outcome of a look-up that did not find the message."""
    move.error = outcome.reason or move.error
    if outcome.result in ("absent", "hold"):
        move.take(outcome.result)
        move.due = tx.now
    else:
        elapsed = tx.now - (move.first or move.row.at)
        move.due = tx.now + retries.next_look_delay(elapsed=elapsed, absence_proven_after=rules.absence_proven_after)


# ---------------------------------------------------------------- start-up


def recover(
    tx: Tx, rules: Mapping[str, law.Rules], account_refusals: Mapping[str, Collection[str]] = MappingProxyType({})
) -> list[parts.MissingChannel]:
    """Recover the parts of earlier gateway runs at start-up.

    Return the channels that are no longer configured, with the number of parts that wait for each. Parts that were
    `sending` become `unknown`, and interrupted look-ups become due again. An attempt may have ended just now, so a
    look-up first waits for the channel's `absence_proven_after`. `account_refusals`: by channel, the reasons of
    attempts that failed because the platform refused the account; parts that wait after one of them are due, because
    the account may have been corrected.
    """
    for part in tx.values(int, "parts_left_sending"):
        move = PartMove.of(parts.get(tx, part))
        # While a part's place is being reserved, its text has not left.
        move.take("not sent" if reservations.is_open(entries.load(move.row.op)) else "silence")
        move.error = "the gateway stopped before the answer came"
        part_transitions.write_move(tx, move)
    for part, channel in tx.pairs(int, str, "parts_left_unknown"):
        channel_rules = rules.get(channel)
        tx.run("part_wait", id=part, due=tx.now + (channel_rules.absence_proven_after if channel_rules else 0))
    tx.run("parts_unpark", now=tx.now, parked=PARKED)
    for channel, reasons in account_refusals.items():
        for reason in reasons:
            tx.run("parts_hasten", channel=channel, error=reason, now=tx.now, parked=PARKED)
    return parts.list_missing_channels(tx, rules)


# ---------------------------------------------------------------- a person's decisions


Decision = Literal["resend", "arrived", "drop"]


def decide(tx: Tx, part: int, decision: Decision, by: str = "a person") -> dict[str, Any]:
    """Apply a person's decision about a held or rejected part. Return the part as a JSON object (`parts.get_json`).

    `by`: who decided. The entries of the part's claim keep it, with the time. Raises parts.NoSuchPart; raises
    law.PartStepNotAllowed if the part does not allow the decision.
    """
    row = parts.get(tx, part)
    move = PartMove.of(row)
    move.take(decision)
    if decision == "resend" and (problem := _find_resend_problem(tx, move)):
        raise law.PartStepNotAllowed(problem)
    if decision == "resend":
        move.due, move.attempts, move.error = tx.now, 0, None
        reservations.forget(tx, row)
    if decision == "drop":
        notices.add_drop_notice(tx, row)
    part_transitions.write_move(tx, move)
    entries.add_decision(tx, row.claim, {"part": part, "decision": decision, "at": tx.now, "by": by})
    return parts.get_json(tx, part)


def _find_resend_problem(tx: Tx, move: PartMove) -> str:
    """Return why a held or rejected part cannot be sent again, whatever a person decides; "" if it can."""
    item = part_requests.find_request(tx, move.row.claim)
    if item is not None and (problem := part_requests.explain_end(item)):
        return f"{problem}. Drop it instead"
    if move.row.state != "rejected":
        return ""
    if not move.carries_claim:
        return "this part held a place for a text, and has no text of its own: nothing is missing"
    if not entries.load(move.row.op):
        return "the content of this part was deleted: there is nothing left to send"
    return ""


def settle_reported_part(tx: Tx, channel: str, key: str, platform_id: str) -> bool:
    """Mark the part with the idempotency key `key` as sent, because the platform reported its message.

    This settles a part whose answer was lost. Return False if there was nothing to settle.
    """
    row = parts.find_by_key(tx, key)
    if row is None:
        return False
    message = _valid_platform_id(platform_id)
    if row.channel == channel and reservations.is_two_step(entries.load(row.op)):
        return reservations.settle_reported_placeholder(tx, row, message)
    if row.channel != channel or "found" not in law.TABLE[row.state]:
        return False
    move = PartMove.of(row)
    move.take("found")
    move.receipt, move.error = _message_id(tx, row, message), None
    part_transitions.write_move(tx, move)
    return True
