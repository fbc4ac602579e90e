"""Parts: their places in line, and what people and programs read of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from semel.law.delivery import State
from semel.law.echo import ClaimWay as ClaimHow
from semel.ledger.storage.rows import ClaimKind, OutgoingPart, PartRow, Row
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, part_requests
from semel.text.json_types import text_at

PARKED = 2**53 - 1
"""The `due` of a part that waits for no time: it is not the head of its queue, or it is being looked up."""


MARKED_AS_REPEAT = 1
RESENT_WITHOUT_MARK = 2
"""Values of a part's `marked`. A part that a person resends leaves its place in line; it is a repeat only if it may
have arrived before."""
MAX_DELAYED_LISTED = 5
OLDEST_DELAYED = 100
"""How many of the parts that delay a destination are looked at, so that the cost is bounded (Law 11)."""
REJECTED_COUNTED_MS = 24 * 3600 * 1000
NEWEST_REJECTED = 1_000
"""How many of the newest rejected or held parts are looked at, so that the cost is bounded (Law 11)."""


class LineHead(Row):
    """The first part in a destination's queue, which is the only part there that may be sent."""

    id: int
    state: State
    due: int


class PartOrigin(Row):
    """The turn that said a part's claim, and the first event of that turn."""

    turn: int
    event: int


class MissingClaim(Row):
    """A claim of which a part is held or was rejected."""

    id: int
    how: ClaimHow
    kind: ClaimKind
    reason: str | None


@dataclass(frozen=True)
class MissingCounts:
    """How many messages, questions, permission requests and notices of another kind are missing somewhere."""

    messages: int = 0
    questions: int = 0
    requests: int = 0
    notices: int = 0

    @property
    def total(self) -> int:
        return self.messages + self.questions + self.requests + self.notices


@dataclass(frozen=True)
class Undelivered:
    """What people at a destination have not, or may not have.

    `rejected`: in the last day. `waiting`: how many are in line, if the last attempt at the first of them failed.
    """

    held: MissingCounts = MissingCounts()
    rejected: MissingCounts = MissingCounts()
    waiting: int = 0

    @property
    def is_missing(self) -> bool:
        """Whether there are messages that nothing brings there any more by itself."""
        return self.held.total + self.rejected.total > 0


@dataclass(frozen=True)
class MissingChannel:
    """A channel that is not configured any more, though `parts` wait to be sent there."""

    channel: str
    parts: int

    def describe(self) -> str:
        wait = "1 part waits" if self.parts == 1 else f"{self.parts} parts wait"
        return f"{wait} for channel {self.channel!r}, which is not configured"


class NoSuchPart(LookupError):
    """There is no part with that id."""


def get(tx: Tx, part: int) -> OutgoingPart:
    """Return the part's row, with its session's id and key. Raises NoSuchPart."""
    row = tx.one(OutgoingPart, "part_get", id=part)
    if row is None:
        raise NoSuchPart(f"there is no part {part}: 'semel outbox list' shows them")
    return row


def take_place(tx: Tx, dest: str) -> int:
    """Take the next place in a destination's line, behind every part that waits there, and return its number."""
    return tx.number("line_take", dest=dest)


def find_origin(tx: Tx, part: int) -> PartOrigin | None:
    """Return the turn and the event that led to a part; None if no event did."""
    return tx.one(PartOrigin, "part_origin", id=part)


def find_by_key(tx: Tx, key: str) -> OutgoingPart | None:
    """Return the part with this key; None if there is none."""
    part = tx.value(int, "part_by_key", key=key)
    return None if part is None else get(tx, part)


def find_reported(tx: Tx, channel: str, receipt: str, key: str | None) -> OutgoingPart | None:
    """Return the part of a message that a platform reports: by its receipt there, else by its key, if that is told."""
    part = tx.value(int, "part_of_receipt", receipt=receipt, channel=channel)
    if part is not None:
        return get(tx, part)
    return None if key is None else find_by_key(tx, key)


def is_for(tx: Tx, key: str, dest: str) -> bool:
    """Return whether a part with this key is for `dest`."""
    row = find_by_key(tx, key)
    return row is not None and row.dest == dest


def find_file(tx: Tx, key: str, dest: str) -> str | None:
    """Return the blob id of the file of the part with this key; None if its content was erased.

    Raises NoSuchPart if no part for `dest` has this key, or it has no file, or is known to have failed.
    """
    row = find_by_key(tx, key)
    op = {} if row is None else entries.load(row.op)
    if row is None or row.dest != dest or row.failed is not None or (op and "file" not in op):
        raise NoSuchPart(f"no file with this key can have arrived at {dest}")
    return text_at(op, "file")


def get_json(tx: Tx, part: int) -> dict[str, Any]:
    """Return one part as a JSON object, as `list_newest` does. Raises NoSuchPart."""
    return _add_heads(tx, [get(tx, part)])[0]


def list_newest(
    tx: Tx, state: str | None = None, limit: int = 100, before_id: int | None = None
) -> list[dict[str, Any]]:
    """Return a page of at most `limit` parts as JSON objects (`part_json`), newest first.

    `state`: only parts in this state. `before_id`: only parts with a lower id (for the next page).
    """
    before_id = PARKED if before_id is None else before_id
    if state is None:
        return _add_heads(tx, tx.all(OutgoingPart, "parts_newest", before=before_id, limit=limit))
    return _add_heads(tx, tx.all(OutgoingPart, "parts_newest_in_state", state=state, before=before_id, limit=limit))


def find_head(tx: Tx, dest: str) -> LineHead | None:
    """Return the head of a destination's line; None if nothing is in line there."""
    return tx.one(LineHead, "line_head", dest=dest)


def _add_heads(tx: Tx, rows: Sequence[OutgoingPart]) -> list[dict[str, Any]]:
    """Return parts as JSON objects.

    `behind`: the id of the part that has to leave before this one, if there is one. `over`: this part is held or was
    rejected, and asks for something that is over (`part_requests`), so it cannot be sent again.
    """
    heads = {dest: find_head(tx, dest) for dest in {row.dest for row in rows if row.state == "queued"}}
    return [
        part_json(row)
        | ({"behind": head.id} if (head := _head_before(row, heads.get(row.dest))) is not None else {})
        | ({"over": True} if row.state in ("held", "rejected") and part_requests.is_over(tx, row.claim) else {})
        for row in rows
    ]


def find_part_before(tx: Tx, row: PartRow) -> LineHead | None:
    """Return the part that has to leave before a queued one; None if it waits behind none."""
    return _head_before(row, find_head(tx, row.dest)) if row.state == "queued" else None


def _head_before(row: PartRow, head: LineHead | None) -> LineHead | None:
    return head if row.state == "queued" and head is not None and head.id != row.id else None


def count_backlog(tx: Tx) -> dict[str, int]:
    """Return the number of parts in each unfinished state, by state."""
    states: tuple[State, ...] = ("queued", "sending", "unknown", "held")
    return {state: tx.number("parts_count", state=state) for state in states}


def count_rejected(tx: Tx) -> int:
    """Return how many messages were rejected in the last day, or were given up; NEWEST_REJECTED at most."""
    return tx.number("parts_rejected", since=tx.now - REJECTED_COUNTED_MS, newest=NEWEST_REJECTED)


def count_undelivered(tx: Tx, dest: str) -> Undelivered:
    """Return how much to a destination did not arrive, may not have arrived, or is delayed."""
    head = find_head(tx, dest)
    is_delayed = head is not None and get(tx, head.id).error is not None
    since = tx.now - REJECTED_COUNTED_MS
    return Undelivered(
        _count_missing(tx, tx.all(MissingClaim, "claims_held_at", dest=dest, newest=NEWEST_REJECTED)),
        _count_missing(tx, tx.all(MissingClaim, "claims_rejected_at", dest=dest, since=since, newest=NEWEST_REJECTED)),
        tx.number("messages_in_line", dest=dest) if is_delayed else 0,
    )


def _count_missing(tx: Tx, claims: Sequence[MissingClaim]) -> MissingCounts:
    nouns = Counter(
        "questions" if claim.kind == "ask"
        else "messages" if claim.how != "notice"
        else "requests" if part_requests.find_request(tx, claim.id) is not None
        else "notices"
        for claim in claims
    )  # fmt: skip
    return MissingCounts(**nouns)


def list_missing_channels(tx: Tx, channels: Collection[str] | None) -> list[MissingChannel]:
    """Return the channels for which parts wait and that are not among `channels`; none if `channels` is None."""
    if channels is None:
        return []
    waiting = tx.pairs(str, int, "channels_in_line")
    return [MissingChannel(channel, number) for channel, number in waiting if channel not in channels]


def list_delayed(tx: Tx, channels: Collection[str] | None) -> list[dict[str, Any]]:
    """Return the parts that delay a destination because their last attempt failed, the oldest first; a few.

    Each is {"part", "to", "state", "behind", "at", "error"}, and "due" as in `part_json`. `behind`: how many later
    parts wait for it. `channels`: the configured ones, or None if they are unknown. Parts for other channels are left
    out, since nothing tries them again (`list_missing_channels`).
    """
    rows = tx.all(OutgoingPart, "parts_delayed", parked=PARKED, limit=OLDEST_DELAYED)
    tried = [row for row in rows if channels is None or row.channel in channels]
    delayed = [part_json(row) for row in tried[:MAX_DELAYED_LISTED]]
    return [
        {"part": part["id"], "to": part["dest"], "behind": tx.number("line_length", dest=part["dest"]) - 1}
        | {name: part[name] for name in ("state", "at", "error", "due") if name in part}
        for part in delayed
    ]


def part_json(row: OutgoingPart) -> dict[str, Any]:
    """Return a part as a JSON object; times are in ms. A field that would be false or None is left out.

    `due`: when the part is sent or looked up next; left out if it waits for no time. `failed`: the id of the event by
    which the platform reported that the sent message failed; `error` then says why.
    """
    op = entries.load(row.op)
    fields: dict[str, Any] = {
        "id": row.id,
        "state": row.state,
        "session": row.session_key,
        "channel": row.channel,
        "dest": row.dest,
        "kind": op.get("kind", "post"),
        "text": op.get("text", ""),
        "claim": row.claim,
        "n": row.n,
        "key": row.key,
        "attempts": row.attempts,
        "at": row.at,
    }
    if row.state in ("queued", "unknown") and row.due < PARKED:
        fields["due"] = row.due
    if row.first is not None:
        fields["first"] = row.first
    if row.receipt is not None:
        fields["receipt"] = row.receipt
    if row.error is not None:
        fields["error"] = row.error
    if row.marked == MARKED_AS_REPEAT:
        fields["marked"] = True
    if row.failed is not None:
        fields["failed"] = row.failed
    return fields
