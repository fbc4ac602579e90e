"""Permission requests that people were asked in a chat: which are open, and that one is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semel.law import requests as law
from semel.ledger import entries, speak
from semel.ledger.sql import Row, Tx

KIND = "permission"
"""Of the items, and of the notices that tell of them."""

OVER = ("cancelled", "expired")
"""States of a request that nobody answered and nobody can."""


def open_in(tx: Tx, session: int) -> list[law.Request]:
    """The requests of a session that wait for an answer, oldest first."""
    found = []
    for row in tx.all("items_live", session=session):
        body = entries.load(row.body) if row.kind == "permission" else {}
        if body.get("state") == "open":
            options = tuple(o for o in body.get("options", ()) if isinstance(o, dict))
            first, seq = int(body.get("first") or 1), body.get("announced")
            found.append(law.Request(row.id, str(body.get("title") or ""), first, options, seq))
    return found


def replied_to(tx: Tx, session: int, seq: int) -> int | None:
    """The notice about a request, as its seq, that the command at this entry is a reply to."""
    of = _more(tx, session, seq).get("of")
    return int(of) if of is not None and _more(tx, session, of).get("kind") == KIND else None


def _more(tx: Tx, session: int, seq: int) -> dict[str, Any]:
    row = tx.one("entry_get", session=session, seq=seq)
    return {} if row is None else entries.load(row.more)


def announce(tx: Tx, session: int, turn: int | None, text: str, legs: Sequence[speak.Leg] | None = None) -> int:
    """Something about a request, told where the session's person is at home; the seq of its notice."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    of = tx.one("turn_get", id=turn) if turn is not None else None
    return speak.announce(tx, row, text, turn=of, kind=KIND, tell=False, legs=legs)


def tell(tx: Tx, item: Row, text: str) -> None:
    """What became of a request, where people were asked it; nothing where they were not."""
    if item.kind == KIND and entries.load(item.body).get("announced"):
        announce(tx, item.session, item.turn, text)


def tell_withdrawn(tx: Tx, item: Row, expired: bool = False) -> None:
    """Nobody can answer it any more."""
    tell(tx, item, law.withdrawn(str(entries.load(item.body).get("title") or ""), expired))
