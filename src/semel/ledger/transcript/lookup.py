"""Find the message to which a person, a program or an agent refers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from semel.ledger.storage.rows import BoundEvent, ClaimRow, EntryRow, EventRow, PartRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

_KINDS_ABOUT_MESSAGE = ("edit", "delete", "reaction")  # a ref to such an event means the message that it is about
_REF = re.compile(r"(c?)(\d{1,18})", re.I | re.A)  # no more digits than a row's id can have


@dataclass(frozen=True)
class ReferencedMessage:
    """A message to which someone may react, or which its author may edit. `seq`: its entry.

    `op`: the fields of a channel operation that identify the message on its platform; {} if no platform has it. `own`:
    Semel sent it; then `parts` are the ids of its parts, and `claim` is the claim that first said it.
    """

    seq: int
    dest: str | None
    own: bool
    op: dict[str, Any] = field(default_factory=dict)
    parts: tuple[int, ...] = ()
    claim: int | None = None


def find_message(tx: Tx, session: int, spawn: int, ref: str) -> ReferencedMessage | None:
    """Return the message that `ref` names; None if the session has no such message.

    The ref "c12" names claim 12, "12" names the entry with that seq, and "" names the last message that the turn of
    `spawn` answers.
    """
    if not ref:
        return _find_answered(tx, session, spawn)
    match = _REF.fullmatch(ref)
    if match is None:
        return None
    number = int(match[2])
    return _find_by_claim(tx, session, number) if match[1] else _find_by_entry(tx, session, number)


def _find_by_claim(tx: Tx, session: int, claim: int) -> ReferencedMessage | None:
    row = tx.one(ClaimRow, "claim_get", id=claim)
    if row is None or row.session != session or row.seq is None:
        return None
    parts = tuple(part_row.id for part_row in tx.all(PartRow, "parts_of_claim", claim=claim))
    original = row.id if row.edits is None else row.edits
    return ReferencedMessage(row.seq, row.dest, True, {"target_part": parts[0]} if parts else {}, parts, original)


def _find_by_entry(tx: Tx, session: int, seq: int) -> ReferencedMessage | None:
    row = tx.one(EntryRow, "entry_get", session=session, seq=seq)
    if row is None:
        return None
    if row.claim is not None:
        return _find_by_claim(tx, session, row.claim)
    return ReferencedMessage(seq, None, False, _platform_target(tx, row.event))


def _find_answered(tx: Tx, session: int, spawn: int) -> ReferencedMessage | None:
    turn = tx.one(TurnRow, "turn_of_spawn", session=session, spawn=spawn)
    events = tx.all(BoundEvent, "events_of_turn", turn=turn.id) if turn is not None else []
    messages = [e for e in events if e.kind == "message"]
    if not messages:
        return None
    return ReferencedMessage(messages[-1].seq, None, False, _platform_target(tx, messages[-1].id))


def _platform_target(tx: Tx, event: int | None) -> dict[str, Any]:
    row = tx.one(EventRow, "event_get", id=event) if event is not None else None
    if row is None or row.key is None:
        return {}
    data = (entries.load(row.payload).get("data") or {}) if row.kind in _KINDS_ABOUT_MESSAGE and row.payload else {}
    return {"target": data.get("of") or row.key}
