"""The permission request or question that a part asks people about (Law 13)."""

from __future__ import annotations

from semel.ledger.storage.rows import ClaimRow, EntryRow, ItemRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

ANNOUNCED_KIND = "permission"
"""The kind of a permission request's item, and the reason of the claim that announces it in its chat."""

API = "api"
"""The face of answers from the page, the terminal and programs."""

OWNER_KIND = "permission.elsewhere"
"""The kind of the notice that tells an owner of a request in a chat where nobody may answer it."""


def find_request(tx: Tx, claim: int) -> ItemRow | None:
    """Return the item of the request or question that a claim asks about; None if it asks about none.

    A notice about how a request ended asks about none.
    """
    row = tx.one(ClaimRow, "claim_get", id=claim)
    is_notice = row is not None and row.how == "notice" and row.reason in (ANNOUNCED_KIND, OWNER_KIND)
    if row is None or not (is_notice or row.kind == "ask"):
        return None
    entry = tx.one(EntryRow, "entry_get", session=row.session, seq=row.seq)
    if entry is None:
        return None
    if row.reason == ANNOUNCED_KIND:
        items = tx.all(ItemRow, "items_of_turn", turn=row.turn)
        requests = [item for item in items if item.kind == ANNOUNCED_KIND]
        return next((item for item in requests if entries.load(item.body).get("announced") == entry.seq), None)
    return tx.one(ItemRow, "item_get", id=entries.load(entry.more).get("item"))


def is_over(tx: Tx, claim: int) -> bool:
    """Return whether a claim asks about a request or question that is over."""
    item = find_request(tx, claim)
    return item is not None and explain_end(item) != ""


def explain_end(item: ItemRow) -> str:
    """Say that a request or question is over, and why nothing that shows it is sent again; "" if it is open."""
    if entries.load(item.body).get("state") == "open":
        return ""
    noun = "question" if item.kind == "ask" else "permission request"
    return f"this {noun} is over: sent again, it would look open, and an answer would count for nothing"
