"""Find the message that a person, a program or an agent refers to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

_ABOUT = ("edit", "delete", "reaction")  # events about a message; the reference means that message
_REF = re.compile(r"(c?)(\d{1,18})", re.I | re.A)  # no more digits than a row's id can have


@dataclass(frozen=True)
class Message:
    """A message that can be reacted to or edited. `op` identifies it for its platform; {} if that is not needed.

    `parts`: of our own message; `claim`: the claim whose text it is.
    """

    seq: int
    dest: str | None
    own: bool
    op: dict[str, Any] = field(default_factory=dict)
    parts: tuple[int, ...] = ()
    claim: int | None = None


def message(tx: Tx, session: int, spawn: int, ref: str) -> Message | None:
    """`c12`: a claim; `12`: an entry; '': the message that the running turn answers."""
    if not ref:
        return _heard(tx, session, spawn)
    named = _REF.fullmatch(ref)
    if named is None:
        return None
    number = int(named[2])
    return _claim(tx, session, number) if named[1] else _entry(tx, session, number)


def _claim(tx: Tx, session: int, claim: int) -> Message | None:
    row = tx.one("claim_get", id=claim)
    if row is None or row.session != session or row.seq is None:
        return None
    parts = tuple(int(p.id) for p in tx.all("parts_of_claim", claim=claim))
    first = row.id if row.edits is None else row.edits
    return Message(row.seq, row.dest, True, {"target_part": parts[0]} if parts else {}, parts, first)


def _entry(tx: Tx, session: int, seq: int) -> Message | None:
    row = tx.one("entry_get", session=session, seq=seq)
    if row is None:
        return None
    if row.claim is not None:
        return _claim(tx, session, row.claim)
    return Message(seq, None, False, _target(tx, row.event))


def _heard(tx: Tx, session: int, spawn: int) -> Message | None:
    turn = tx.one("turn_of_spawn", session=session, spawn=spawn)
    events = tx.all("events_of_turn", turn=turn.id) if turn is not None else []
    messages = [e for e in events if e.kind == "message"]
    if not messages:
        return None
    return Message(messages[-1].seq, None, False, _target(tx, messages[-1].id))


def _target(tx: Tx, event: int | None) -> dict[str, Any]:
    row = tx.one("event_get", id=event) if event is not None else None
    if row is None or row.key is None:
        return {}
    told = (entries.load(row.payload).get("data") or {}) if row.kind in _ABOUT and row.payload else {}
    return {"target": told.get("of") or row.key}
