"""Erase the content of deleted sessions in small steps, each of which is one short transaction (Law 11).

A row stores the progress of each erasure, so no step is repeated. After a crash, the next gateway continues the
erasure. An erasure goes through four stages: claims and their parts, entries with their events, turns, items.
"""

from __future__ import annotations

from semel.law import delivery
from semel.ledger.delivery import part_transitions
from semel.ledger.storage.rows import ClaimEntry, OutgoingPart, Row, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

ROWS_PER_STEP = 256  # rows of one table that a step erases
ITEMS_PER_STEP = 16


class Erasure(Row):
    """The progress of a session's erasure. `stage`: the current stage; `at`: the position within that stage.

    Content up to the numbers `seq`, `rev` and `epoch` is to be erased. `later`: 1 + the id of the newest claim that was
    skipped because one of its parts was still to be sent; 0 if none was skipped.
    """

    session: int
    seq: int
    rev: int
    epoch: int
    stage: str
    at: int
    later: int


def list_unfinished(tx: Tx, min_age_ms: int = 0) -> list[int]:
    """Return the ids of the sessions whose erasure is unfinished.

    `min_age_ms`: only those that were deleted so long ago.
    """
    return tx.values(int, "erasures_left", deleted=tx.now - min_age_ms)


def erase_step(tx: Tx, session: int) -> str:
    """Erase one piece of a session's content, and say what the caller should do next.

    Return "more": call again; "later": call again later, because a part is still on its way to a platform; or "done":
    the erasure is complete.
    """
    row = tx.one(Erasure, "erasure_get", session=session)
    if row is None:
        return "done"
    return _STAGES[row.stage](tx, row)


def _set_stage(tx: Tx, row: Erasure, stage: str, at: int, later: int | None = None) -> str:
    tx.run("erasure_move", session=row.session, stage=stage, at=at, later=row.later if later is None else later)
    return "more"


def _erase_claims(tx: Tx, row: Erasure) -> str:
    """Erase a page of claims, newest first. Skip a claim with a part in a queue until that part has been sent."""
    claim_rows = tx.pairs(int, str, "erase_claims_next", session=row.session, before=row.at, limit=ROWS_PER_STEP)
    later = row.later
    for claim, text in claim_rows:
        if erase_parts(tx, claim):
            tx.run("erase_claim", id=claim, size=len(text))
        else:
            later = max(later, claim + 1)
    is_full_page = len(claim_rows) == ROWS_PER_STEP
    return _set_stage(tx, row, "claims" if is_full_page else "entries", claim_rows[-1][0] if is_full_page else 0, later)


def erase_parts(tx: Tx, claim: int) -> bool:
    """Erase the content of a claim's parts. Drop parts that are held for a decision.

    Return False if a part was kept because it must still be sent or looked up.
    """
    all_erased = True
    for part in tx.all(OutgoingPart, "erase_parts_of", claim=claim):
        if part.state in delivery.IN_LINE:
            all_erased = False
            continue
        if part.state == "held":
            move = part_transitions.PartMove.of(part)
            move.take("drop")
            part_transitions.write_move(tx, move)
        tx.run("erase_part", id=part.id)
        tx.run("erase_attempts", part=part.id)
        if part.error is not None:
            for entry in tx.all(ClaimEntry, "entries_of_claim", claim=claim):
                if entry.session != part.session:
                    entries.touch_entry(tx, entry.session, entry.seq)
        if part.failed is not None:
            tx.run("erase_failure", event=part.failed, at=tx.now)
    return all_erased


def _erase_entries(tx: Tx, row: Erasure) -> str:
    hi = min(row.at + ROWS_PER_STEP, row.seq)
    erase_entry_range(tx, row.session, row.at, hi)
    return _set_stage(tx, row, "entries", hi) if hi < row.seq else _set_stage(tx, row, "turns", 0)


def erase_entry_range(tx: Tx, session: int, lo: int, hi: int) -> None:
    """Erase the entries above `lo` up to `hi`, with their events, commands and files."""
    entry_range = {"session": session, "lo": lo, "hi": hi}
    blob_ids = tx.values(str, "holdings_of", **entry_range)
    tx.run("holdings_drop", **entry_range)
    entries.let_go_of_files(tx, blob_ids)
    tx.run("erase_events", **entry_range, at=tx.now)
    tx.run("erase_conflicts", **entry_range)
    tx.run("erase_commands", **entry_range)
    tx.run("erase_entries", **entry_range)


def _erase_turns(tx: Tx, row: Erasure) -> str:
    hi = min(row.at + ROWS_PER_STEP, row.epoch)
    tx.run("erase_turns", session=row.session, lo=row.at, hi=hi)
    tx.run("erase_jobs", session=row.session, lo=row.at, hi=hi)
    return _set_stage(tx, row, "turns", hi) if hi < row.epoch else _set_stage(tx, row, "items", 0)


def _erase_items(tx: Tx, row: Erasure) -> str:
    """Erase items, including tool output."""
    tx.run("erase_pieces", session=row.session, rev=row.rev, limit=ROWS_PER_STEP)
    item_ids = tx.values(int, "erase_items_next", session=row.session, rev=row.rev, limit=ITEMS_PER_STEP)
    for item in item_ids:
        tx.run("erase_outputs", item=item, limit=ROWS_PER_STEP)
        tx.run("erase_item", id=item)
    return "more" if item_ids else _set_stage(tx, row, "rest", 0)


def _finish_erasure(tx: Tx, row: Erasure) -> str:
    """Finish the erasure and return "done", or set an earlier stage if something is left to erase.

    Return "more" if something was written after the session was deleted, and "later" if claims were skipped.
    """
    session = tx.get(SessionRow, "session_by_id", id=row.session)
    if session.deleted is not None and session.seq > row.seq:
        tx.run("session_erase_on", id=row.session)
        tx.run("erasure_put", session=row.session)
        return "more"
    if row.later:
        _set_stage(tx, row, "claims", row.later, 0)
        return "later"
    tx.run("erasure_drop", session=row.session)
    return "done"


_STAGES = {
    "claims": _erase_claims,
    "entries": _erase_entries,
    "turns": _erase_turns,
    "items": _erase_items,
    "rest": _finish_erasure,
}


FILES_PER_STEP = 100  # files that `list_unheld_files` returns at most


def list_unheld_files(tx: Tx) -> list[str]:
    """Return the ids of at most FILES_PER_STEP files that no entry refers to any more."""
    return tx.values(str, "blobs_gone", limit=FILES_PER_STEP)


def forget_files(tx: Tx, blob_ids: list[str]) -> None:
    """Remove the rows of files that the caller has deleted from the disk; not of those with an object."""
    for blob_id in sorted(blob_ids):
        tx.lock("blob_lock", id=blob_id)
        tx.run("blob_drop", id=blob_id)
