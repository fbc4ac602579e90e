"""Parts on their way out: depart, receipt, start-up, look-ups, and what a person decides (Law 7).

Each function is the body of one transaction. What an event makes of a part stands in `semel.law.delivery`;
here its effects become rows, together with the notices and with what watchers will see again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from semel.law import delivery as law
from semel.law import retry_delay
from semel.law.identity import BadKey, check_event_key
from semel.ledger.delivery import notices, other_channel, part_transitions, parts, placeholders
from semel.ledger.delivery.part_transitions import Move
from semel.ledger.delivery.parts import PARKED
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.text.wellformed import WHY, one_line

STRIDE = 64
"""Parts that one transaction walks past at most, so that a long line delays no other writer."""


@dataclass(frozen=True)
class Departure:
    """A part that leaves now, or is looked for. `op` is the row's JSON object."""

    part: int
    claim: int
    channel: str
    dest: str
    key: str
    op: Mapping[str, Any]
    session: str
    marked: bool
    first: int  # ms: when the first attempt left that may have arrived
    at: int  # ms: when it was said
    n: int = 0  # which part of its message it is
    answers: Mapping[str, Any] | None = None  # {"id", "sender", "data"} of the message that it answers


@dataclass(frozen=True)
class Ask:
    """What a channel can take: its rules, and how many attempts may begin now."""

    rules: law.Rules
    room: int


@dataclass(frozen=True)
class Round:
    """What one `depart` came to.

    `due`: when a channel that has room has more to do (ms), if nothing happens before.
    """

    sends: tuple[Departure, ...] = ()
    looks: tuple[Departure, ...] = ()
    due: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt or a look-up. Times in ms.

    Of an attempt: receipt, not sent, refused, silence. Of a look-up: found, absent, cannot tell, hold.
    Whatever a platform answered, it can be stored and shown: `why` is one line, and `receipt` None where it could not
    be kept to the letter.
    """

    what: Literal["receipt", "not sent", "refused", "silence", "found", "absent", "cannot tell", "hold"]
    receipt: str | None = None
    why: str | None = None
    retry_after: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "receipt", _kept(self.receipt))
        object.__setattr__(self, "why", None if self.why is None else one_line(self.why, WHY))


def _kept(id: object) -> str | None:
    """The platform's id of a message, where it can be one: what a key can be (`law.identity`). An id that was changed
    or cut would be another one's, or nobody's: of such a message it is only known that it was taken."""
    if isinstance(id, int):
        id = str(id)
    try:
        return check_event_key(id) if isinstance(id, str) else None
    except BadKey:
        return None


# ---------------------------------------------------------------- depart


def depart(tx: Tx, asks: Mapping[str, Ask], rest: Mapping[str, int] | None = None) -> Round:
    """The next parts of each channel: at most one per destination, each the head of its line.

    `rest`: destinations that must wait until a time (pace). Unknown parts whose time has come are settled by
    the channel's safety class: they leave again, are looked for, or are held. Nothing else of the ledger is
    touched, so the cost does not grow with it (Law 11).
    """
    sends: list[Departure] = []
    looks: list[Departure] = []
    free: list[str] = []
    for channel, ask in asks.items():
        if ask.room <= 0:
            continue
        full = len(sends) + len(looks) + ask.room
        for row in tx.all("parts_due", channel=channel, now=tx.now, limit=STRIDE):
            if len(sends) + len(looks) >= full:
                break
            _consider(tx, row, ask.rules, rest or {}, sends, looks, asks.keys())
        if len(sends) + len(looks) < full:
            free.append(channel)
    # Looked up last: what is held on one channel may be told on another one, which has more to do by that.
    times = [due for channel in free if (due := _next_due(tx, channel)) is not None]
    return Round(tuple(sends), tuple(looks), min(times, default=None))


def _consider(
    tx: Tx,
    row: Row,
    rules: law.Rules,
    rest: Mapping[str, int],
    sends: list[Departure],
    looks: list[Departure],
    channels: Collection[str],
) -> None:
    head = tx.one("line_head", dest=row.dest)
    until = rest.get(row.dest, 0)
    if head is None or head.id != row.id:
        tx.run("part_wait", id=row.id, due=PARKED)
    elif until > tx.now:
        tx.run("part_wait", id=row.id, due=until)
    elif row.state == "queued":
        sends.append(_leave(tx, row))
    else:
        _settle(tx, row, rules, sends, looks, channels)


def _next_due(tx: Tx, channel: str) -> int | None:
    if tx.all("parts_due", channel=channel, now=tx.now, limit=1):
        return tx.now
    due = tx.value("parts_next_due", channel=channel, now=tx.now, parked=PARKED)
    return None if due is None else int(due)


def _settle(
    tx: Tx, row: Row, rules: law.Rules, sends: list[Departure], looks: list[Departure], channels: Collection[str]
) -> None:
    first = row.first if row.first is not None else row.at
    if _cannot_fill(tx, row):
        # It may have left as an edit of what was reserved for it; a post is another message, and no key folds the two.
        _as_post(tx, row, entries.load(row.op))
        row, rules = parts.get(tx, row.id), replace(rules, key_life=0)
    match law.resolve(rules, first=first, now=tx.now, kind=_kind(row)):
        case "look":
            tx.run("part_wait", id=row.id, due=PARKED)
            looks.append(_departure(tx, row, first))
        case "hold":
            move = Move.of(row)
            move.take("hold")
            part_transitions.write(tx, move)
            other_channel.tell(tx, move, channels)
        case "repeat" if row.outcome == "quiet":  # it says nothing, so there is nothing to mark
            sends.append(_leave(tx, row, "again"))
        case "again" | "repeat" as event:
            sends.append(_leave(tx, row, event))


def _cannot_fill(tx: Tx, row: Row) -> bool:
    """Whether it is to fill a reserved message whose platform id nobody knows."""
    op = entries.load(row.op)
    return bool(op.get("fill")) and tx.value("part_receipt", id=op["target_part"]) is None


def _kind(row: Row) -> str:
    return str(entries.load(row.op).get("kind", "post"))


def _leave(tx: Tx, row: Row, event: law.Event | None = None) -> Departure:
    move = Move.of(row)
    for each in (event, "departs") if event else ("departs",):
        move.take(each)  # type: ignore[arg-type]
    tx.run("part_depart", id=row.id, state=move.state, now=tx.now, marked=move.marked)
    part_transitions.show_again(tx, row.claim)
    return _departure(tx, row, row.first if row.first is not None else tx.now, marked=bool(move.marked))


def _departure(tx: Tx, row: Row, first: int, marked: bool | None = None) -> Departure:
    op = entries.load(row.op)
    if op.get("target") is None and "target_part" in op:
        # What it edits or reacts to left before it, in the same line: its platform id is known by now, or
        # never.
        op["target"] = tx.value("part_receipt", id=op["target_part"])
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
        marked=bool(row.marked) if marked is None else marked,
        first=first,
        at=row.at,
        n=row.n,
        answers=_answers(tx, op.get("answers")),
    )


def _as_post(tx: Tx, row: Row, op: dict[str, Any]) -> dict[str, Any]:
    """The message that was reserved for it never arrived, or cannot be edited: it leaves as one of its own."""
    op = {name: value for name, value in op.items() if name not in ("fill", "target", "target_part")}
    op["kind"] = "post"
    tx.run("part_op", id=row.id, op=entries.dump(op))
    return op


def _answers(tx: Tx, event: int | None) -> dict[str, Any] | None:
    """What its channel told of the message that a part answers. Its content may have been deleted since."""
    row = tx.one("event_get", id=event) if event is not None else None
    if row is None or row.key is None:
        return None
    told = entries.part(entries.load(row.payload), "data")
    sender = str(entries.part(told, "from").get("id") or "")
    return {"id": row.key, "sender": sender, "data": entries.part(told, "platform")}


# ---------------------------------------------------------------- what came of it


def receipt(
    tx: Tx, part: int, outcome: Outcome, rules: law.Rules, *, jitter: float = 0.5, channels: Collection[str] = ()
) -> law.State:
    """Record what came of an attempt or a look-up; the part's new state.

    `jitter` (0 <= jitter < 1) spreads the back-offs; `channels` are those that a failure can be told by. An answer
    that comes after the part was settled otherwise changes nothing.
    """
    row = parts.get(tx, part)
    move = Move.of(row)
    if outcome.what in ("found", "receipt") and "found" in law.TABLE[move.state]:
        move.take("receipt" if row.state == "sending" else "found")
        move.receipt, move.error = _message(tx, row, outcome.receipt), None
    elif row.state == "sending":
        _attempted(tx, move, outcome, rules, jitter)
    elif row.state == "unknown":
        _looked(tx, move, outcome, rules)
    else:
        return move.state
    part_transitions.write(tx, move)
    other_channel.tell(tx, move, channels)
    return move.state


def _message(tx: Tx, row: Row, given: str | None) -> str | None:
    """The platform's id of the message that a part is: what was reserved keeps its id when it is filled."""
    op = entries.load(row.op)
    own = tx.value("part_receipt", id=op["target_part"]) if op.get("fill") else None
    return given if own is None else str(own)


def _attempted(tx: Tx, move: Move, outcome: Outcome, rules: law.Rules, jitter: float) -> None:
    """An attempt ended without a receipt."""
    row = move.row
    doubt = row.first != row.due  # an attempt before this one may have arrived
    move.error = outcome.why
    if outcome.what == "refused" and not doubt and entries.load(row.op).get("fill"):
        _not_filled(tx, move)
        return
    if outcome.what == "refused":
        for each in law.refused(doubt=doubt):
            move.take(each)
        return
    event: law.Event = "silence"
    asked = outcome.retry_after or 0
    if outcome.what == "not sent":
        event = law.not_sent(rules, doubt=doubt, attempts=row.attempts, since=row.at, now=tx.now, wait=asked)
    move.take(event)
    if event == "gave up":
        move.error = f"given up after {row.attempts} attempts; the last one failed: {outcome.why}"
        return
    wait = retry_delay.delay(row.attempts, age=tx.now - row.at, jitter=jitter, retry_after=asked)
    move.due = tx.now + min(wait, rules.horizon)
    if move.state == "unknown":
        match law.resolve(rules, first=move.first or row.due, now=tx.now, kind=_kind(row)):
            case "hold":
                move.take("hold")
            case "look":
                move.due = tx.now + max(1, rules.settle)


def _not_filled(tx: Tx, move: Move) -> None:
    """The platform refuses to edit what was reserved (a person may have deleted it): the text leaves as a post."""
    op = entries.load(move.row.op)
    _as_post(tx, move.row, op)
    placeholders.remove(tx, op["target_part"])
    move.take("not sent")
    move.due = tx.now


def _looked(tx: Tx, move: Move, outcome: Outcome, rules: law.Rules) -> None:
    """A look-up ended without finding it."""
    move.error = outcome.why or move.error
    if outcome.what in ("absent", "hold"):
        move.take(outcome.what)
        move.due = tx.now
    else:
        elapsed = tx.now - (move.first or move.row.at)
        move.due = tx.now + retry_delay.look_again(elapsed=elapsed, settle=rules.settle)


# ---------------------------------------------------------------- start-up


def recover(tx: Tx, rules: Mapping[str, law.Rules]) -> dict[str, int]:
    """At start-up: what was `sending` is `unknown`, and whoever was looking for an unknown part is gone.

    An attempt may have ended just now, so a channel that looks waits `settle` from now on. Returns the
    channels that parts wait for and that are not configured any more, with the number of parts.
    """
    for found in tx.all("parts_left_sending"):
        move = Move.of(parts.get(tx, found.id))
        move.take("silence")
        move.error = "the gateway stopped before the answer came"
        part_transitions.write(tx, move)
    for found in tx.all("parts_left_unknown"):
        known = rules.get(found.channel)
        tx.run("part_wait", id=found.id, due=tx.now + (known.settle if known else 0))
    tx.run("parts_unpark", now=tx.now, parked=PARKED)
    return {r.channel: int(r.n) for r in tx.all("channels_in_line") if r.channel not in rules}


# ---------------------------------------------------------------- what a person decides


Decision = Literal["resend", "arrived", "drop"]


def decide(tx: Tx, part: int, decision: Decision) -> dict[str, Any]:
    """A person settles a held part; the part as `parts.show` gives it.

    Raises parts.NoSuchPart, law.NotAllowed.
    """
    row = parts.get(tx, part)
    move = Move.of(row)
    move.take(decision)
    if decision == "resend":
        move.due, move.attempts, move.error = tx.now, 0, None
    if decision == "drop":
        notices.dropped(tx, row)
    part_transitions.write(tx, move)
    return parts.show(tx, part)


def arrived_as(tx: Tx, channel: str, key: str, platform_id: str) -> bool:
    """The platform was heard telling of our own message: settles a part whose answer was lost."""
    part = tx.value("part_by_key", key=key)
    if part is None:
        return False
    row = parts.get(tx, part)
    if row.channel != channel or "found" not in law.TABLE[row.state]:
        return False
    move = Move.of(row)
    move.take("found")
    move.receipt, move.error = _message(tx, row, _kept(platform_id)), None
    part_transitions.write(tx, move)
    return True
