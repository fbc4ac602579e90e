"""The content of a deleted session goes, piece by piece: each step is one short transaction (Law 11).

A step that was committed is never done again, and one that was not is done by the next gateway: the row of the
erasure says how far it has come. In order: claims and their parts, entries with the events behind them, turns, items.
"""

from __future__ import annotations

from semel.law import delivery
from semel.ledger.delivery import part_transitions
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries

PIECE = 256  # rows of a kind in one transaction
ITEMS = 16


def left(tx: Tx) -> list[int]:
    """Sessions whose content is on its way out."""
    return [int(r.session) for r in tx.all("erasures_left")]


def step(tx: Tx, session: int) -> str:
    """One piece. "more": there is more; "later": something is still under way to a platform; "done"."""
    row = tx.one("erasure_get", session=session)
    if row is None:
        return "done"
    return _STAGES[row.stage](tx, row)


def _move(tx: Tx, row: Row, stage: str, at: int, later: int | None = None) -> str:
    tx.run("erasure_move", session=row.session, stage=stage, at=at, later=row.later if later is None else later)
    return "more"


def _claims(tx: Tx, row: Row) -> str:
    """What was said, newest first. What waits to leave still leaves: a person was promised it."""
    found = tx.all("erase_claims_next", session=row.session, before=row.at, limit=PIECE)
    later = row.later
    for claim in found:
        if _left(tx, claim.id):
            tx.run("erase_claim", id=claim.id, size=len(claim.text))
        else:
            later = max(later, claim.id + 1)
    full = len(found) == PIECE
    return _move(tx, row, "claims" if full else "entries", found[-1].id if full else 0, later)


def _left(tx: Tx, claim: int) -> bool:
    """Its parts say no more what left; what is held for a person is dropped. False: something is still under way."""
    whole = True
    for part in tx.all("erase_parts_of", claim=claim):
        if part.state in delivery.IN_LINE:
            whole = False
            continue
        if part.state == "held":
            move = part_transitions.Move.of(part)
            move.take("drop")
            part_transitions.write(tx, move)
        tx.run("erase_part", id=part.id)
        if part.error is not None:
            for entry in tx.all("entries_of_claim", claim=claim):
                if entry.session != part.session:
                    entries.touch_entry(tx, entry.session, entry.seq)
        if part.failed is not None:
            tx.run("erase_failure", event=part.failed)
    return whole


def _entries(tx: Tx, row: Row) -> str:
    """What was heard and shown."""
    lo, hi = row.at, min(row.at + PIECE, row.seq)
    where = {"session": row.session, "lo": lo, "hi": hi}
    files = [r.blob for r in tx.all("holdings_of", **where)]
    tx.run("holdings_drop", **where)
    for blob in files:
        tx.run("blob_let_go", id=blob)
    tx.run("erase_events", **where)
    tx.run("erase_conflicts", **where)
    tx.run("erase_commands", **where)
    tx.run("erase_entries", **where)
    return _move(tx, row, "entries", hi) if hi < row.seq else _move(tx, row, "turns", 0)


def _turns(tx: Tx, row: Row) -> str:
    hi = min(row.at + PIECE, row.epoch)
    tx.run("erase_turns", session=row.session, lo=row.at, hi=hi)
    tx.run("erase_jobs", session=row.session, lo=row.at, hi=hi)
    return _move(tx, row, "turns", hi) if hi < row.epoch else _move(tx, row, "items", 0)


def _items(tx: Tx, row: Row) -> str:
    """What was seen beside the transcript, tool output included."""
    tx.run("erase_pieces", session=row.session, rev=row.rev, limit=PIECE)
    found = tx.all("erase_items_next", session=row.session, rev=row.rev, limit=ITEMS)
    for item in found:
        tx.run("erase_outputs", item=item.id, limit=PIECE)
        tx.run("erase_item", id=item.id)
    return "more" if found else _move(tx, row, "rest", 0)


def _rest(tx: Tx, row: Row) -> str:
    """Over, unless something is still under way, or something was written there while it was deleted."""
    session = tx.one("session_by_id", id=row.session)
    assert session is not None
    if session.deleted is not None and session.seq > row.seq:
        tx.run("session_erase_on", id=row.session)
        tx.run("erasure_put", session=row.session)
        return "more"
    if row.later:
        _move(tx, row, "claims", row.later, 0)
        return "later"
    tx.run("erasure_drop", session=row.session)
    return "done"


_STAGES = {"claims": _claims, "entries": _entries, "turns": _turns, "items": _items, "rest": _rest}


FILES = 100  # removed in one go


def files_gone(tx: Tx) -> list[str]:
    """Files that no entry holds any more."""
    return [str(r.id) for r in tx.all("blobs_gone", limit=FILES)]


def files_removed(tx: Tx, gone: list[str]) -> None:
    """Their files are no more."""
    for id in gone:
        tx.run("blob_drop", id=id)
