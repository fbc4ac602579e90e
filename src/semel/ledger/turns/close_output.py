"""Close the previews, items and placeholders that a turn left open (Laws 6, 8)."""

from __future__ import annotations

from typing import Any

from semel.ledger.delivery import buttons, claims, part_transitions, placeholders
from semel.ledger.delivery.cutting import is_local
from semel.ledger.storage.rows import AddedClaim, EntryRow, ItemRow, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import permission_requests


def close_live_output(tx: Tx, session: int, turn: TurnRow) -> None:
    """Close the previews and items that a turn left open. Its previews become entries marked partial (Law 6)."""
    close_entries(tx, session, turn)
    for item in entries.list_items_of_turns(tx, session):
        entries.set_item(tx, item.id, live=False, body=interruption_body(item))
        if item.kind == permission_requests.KIND:
            part_transitions.touch_asking_entries(tx, item.id)
            buttons.take_away_buttons(tx, item.id)
        permission_requests.add_withdrawal_notice(tx, item)


def close_entries(tx: Tx, session: int, turn: TurnRow) -> None:
    """Close the previews that a turn left open. Each becomes an entry marked partial, with a claim of its own."""
    live_entries = tx.all(EntryRow, "entries_live", session=session)
    first = None
    for entry in live_entries:
        text = entries.shown_text(tx, session, entry.seq)
        claim = tx.get(
            AddedClaim, "claim_add", session=session, turn=turn.id, root=turn.root, how="recovery", kind="text", late=0,
            spawn=turn.spawn, conn=None, call=None, tool=None, args=None, dest=None, digest=None, text=text,
            outcome="said", reason="shown before its turn ended", echo_of=None, seq=entry.seq, at=tx.now,
        ).id  # fmt: skip
        earlier_claim = tx.value(int, "block_of_file_before", session=session, seq=entry.seq, turn=turn.id)
        first = first if earlier_claim is None else earlier_claim
        if first is None:
            first = claim
        else:  # these texts, and a file before them, are one block
            tx.run("claim_part_of", id=claim, first=first)
        entries.set_entry(tx, session, entry.seq, text=text, live=False, partial=True, claim=claim, tell=True)
        if turn.id != turn.root:
            claims.supersede_beginnings(tx, claims.Caller(session, "", turn.id, turn.root), text, None, claim)


def withdraw_reserved(tx: Tx, session: SessionRow, root: int | None) -> None:
    """Withdraw the placeholders of a root whose turn is over. A local home has none, so nothing is read then."""
    if root is not None and not is_local(session.home):
        placeholders.withdraw_of_root(tx, root)


def interruption_body(item: ItemRow) -> dict[str, Any]:
    """Return the fields to change in the body of an item that was open when its turn ended."""
    if item.kind == "permission":
        return {"state": "cancelled"}
    return {"status": "no result", "lost": True} if item.kind == "tool" else {}
