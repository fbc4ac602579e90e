"""Permission requests: which one an answer is for, and notices about requests and their ends (Law 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from semel.law import permission_questions as law
from semel.law.access import APPROVALS
from semel.law.permissions import AnswerOrigin, NoticePart, PosedRequest, Reply
from semel.law.permissions import name_request as name
from semel.ledger.delivery import claims
from semel.ledger.delivery.cutting import Leg
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries

KIND = "permission"
"""The kind of these items, and of the notices about them."""

API = "api"
"""The face of answers from the page, the terminal and programs."""

OVER = ("cancelled", "expired")
"""States of a request that ended without an answer and can no longer get one."""

RECENT = 12
"""How many of the newest requests are searched, so that a late answer learns what became of its request."""


def name_request(
    tx: Tx, session: Row, writing: AnswerOrigin, allow: bool, number: int | None, of: int | None, replies: bool
) -> law.Chosen | str:
    """The request that an answer is for, as the ledger stands when the answer is accepted (Law 13).

    `of`: the seq of the entry that the answer replies to; `replies`: it replies to some message.
    """
    posed = _posed_in(tx, session.id)
    if writing.dest is not None:
        for other in tx.all("session_homes", home=writing.dest):
            if other.id != session.id:
                posed += [replace(one, elsewhere=True) for one in _posed_in(tx, other.id) if one.state == "open"]
    reply = _reply(tx, session.id, of) if of is not None else "unknown" if replies else None
    return name(posed, writing, allow, number, reply)


def _posed_in(tx: Tx, session: int) -> list[PosedRequest]:
    """The open requests of a session and its last ones, oldest first."""
    rows = {row.id: row for row in tx.all("requests_last", session=session, limit=RECENT)}
    rows |= {row.id: row for row in tx.all("items_live", session=session) if row.kind == KIND}
    answered = _answered_before(tx, session)
    return [_posed(tx, rows[item], item in answered) for item in sorted(rows)]


def _answered_before(tx: Tx, session: int) -> set[int]:
    """Requests that earlier commands have answered, if these commands are not carried out yet."""
    waiting = [entries.load(one.result) for one in tx.all("commands_open", session=session) if one.name in APPROVALS]
    return {int(one["item"]) for one in waiting if one.get("item") is not None}


def _posed(tx: Tx, row: Row, answered: bool) -> PosedRequest:
    body = entries.load(row.body)
    options = tuple(o for o in body.get("options", ()) if isinstance(o, dict))
    title, seq = str(body.get("title") or ""), body.get("announced")
    request = law.Request(row.id, title, int(body.get("first") or 0), options, seq)
    state, outcome = str(body.get("state")), ""
    if state == "answered":
        outcome = law.outcome(body.get("answer"), options, str(body.get("by") or ""), title)
    elif state in OVER:
        outcome = law.format_withdrawal(title, state == "expired")
    elif answered:
        state, outcome = "answered", f"it was answered just before: {request.in_a_line}"
    return PosedRequest(request, state, row.born, _notice_parts(tx, row.session, seq), outcome)  # type: ignore[arg-type]


def _notice_parts(tx: Tx, session: int, seq: int | None) -> tuple[NoticePart, ...]:
    notice = tx.one("entry_get", session=session, seq=seq) if seq is not None else None
    if notice is None or notice.claim is None:
        return ()
    parts = tx.all("notice_parts", claim=notice.claim)
    return tuple(NoticePart(p.dest, p.state, bool(p.failed), p.receipt, p.first) for p in parts)


def _reply(tx: Tx, session: int, of: int) -> Reply:
    """What kind of entry an answer replies to."""
    entry = tx.one("entry_get", session=session, seq=of)
    more = {} if entry is None else entries.load(entry.more)
    if entry is not None and "from" in more and entry.claim is not None:
        claim = tx.one("claim_get", id=entry.claim)
        return "elsewhere" if claim is not None and claim.reason == KIND else None
    return of if more.get("kind") == KIND else None


def announce(tx: Tx, session: int, turn: int | None, text: str, legs: Sequence[Leg] | None = None) -> int:
    """Add a notice about a request at the session's home; return its seq."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    of = tx.one("turn_get", id=turn) if turn is not None else None
    return claims.announce(tx, row, text, turn=of, kind=KIND, tell=False, legs=legs)


def tell(tx: Tx, item: Row, text: str) -> None:
    """Add a notice of a request's outcome, if the request was announced in a chat."""
    if item.kind == KIND and entries.load(item.body).get("announced"):
        announce(tx, item.session, item.turn, text)


def tell_withdrawn(tx: Tx, item: Row, expired: bool = False) -> None:
    """Add a notice that nobody can answer this request any more."""
    tell(tx, item, law.format_withdrawal(str(entries.load(item.body).get("title") or ""), expired))
