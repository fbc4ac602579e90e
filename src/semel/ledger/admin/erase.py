"""Erase the content of deleted sessions piece by piece; each step is one short transaction (Law 11).

A committed step is never repeated; after a crash the next gateway goes on, because the erasure's row stores its
position. The order: claims and their parts, entries with their events, turns, items.
"""

from __future__ import annotations

from semel.law import delivery
from semel.ledger.delivery import part_transitions
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries

ROWS_PER_STEP = 256  # rows of a kind in one transaction
ITEMS_PER_STEP = 16


def left(tx: Tx) -> list[int]:
    """Sessions whose erasure is unfinished."""
    return [int(r.session) for r in tx.all("erasures_left")]


def step(tx: Tx, session: int) -> str:
    """Erase one piece. "more": there is more; "later": something is still on its way to a platform; or "done"."""
    row = tx.one("erasure_get", session=session)
    if row is None:
        return "done"
    return _STAGES[row.stage](tx, row)


def _move(tx: Tx, row: Row, stage: str, at: int, later: int | None = None) -> str:
    tx.run("erasure_move", session=row.session, stage=stage, at=at, later=row.later if later is None else later)
    return "more"


def _claims(tx: Tx, row: Row) -> str:
    """Erase claims, newest first. Parts in a queue still leave: a person was promised them."""
    found = tx.all("erase_claims_next", session=row.session, before=row.at, limit=ROWS_PER_STEP)
    later = row.later
    for claim in found:
        if _erase_parts(tx, claim.id):
            tx.run("erase_claim", id=claim.id, size=len(claim.text))
        else:
            later = max(later, claim.id + 1)
    full = len(found) == ROWS_PER_STEP
    return _move(tx, row, "claims" if full else "entries", found[-1].id if full else 0, later)


def _erase_parts(tx: Tx, claim: int) -> bool:
    """Erase the content of a claim's parts, and drop held ones. False: a part is still on its way."""
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
    """Erase entries, their events and their commands."""
    lo, hi = row.at, min(row.at + ROWS_PER_STEP, row.seq)
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
    hi = min(row.at + ROWS_PER_STEP, row.epoch)
    tx.run("erase_turns", session=row.session, lo=row.at, hi=hi)
    tx.run("erase_jobs", session=row.session, lo=row.at, hi=hi)
    return _move(tx, row, "turns", hi) if hi < row.epoch else _move(tx, row, "items", 0)


def _items(tx: Tx, row: Row) -> str:
    """Erase items, including tool output."""
    tx.run("erase_pieces", session=row.session, rev=row.rev, limit=ROWS_PER_STEP)
    found = tx.all("erase_items_next", session=row.session, rev=row.rev, limit=ITEMS_PER_STEP)
    for item in found:
        tx.run("erase_outputs", item=item.id, limit=ROWS_PER_STEP)
        tx.run("erase_item", id=item.id)
    return "more" if found else _move(tx, row, "rest", 0)


def _rest(tx: Tx, row: Row) -> str:
    """Finish the erasure, unless a part is still on its way or the session was written to while it was deleted."""
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


FILES_PER_STEP = 100  # removed in one go


def files_gone(tx: Tx) -> list[str]:
    """Files that no entry holds any more."""
    return [str(r.id) for r in tx.all("blobs_gone", limit=FILES_PER_STEP)]


def files_removed(tx: Tx, gone: list[str]) -> None:
    """Forget files that have been removed from the disk."""
    for id in gone:
        tx.run("blob_drop", id=id)
