"""Words that an agent says again before it asks again for the permission that it was asking for when its turn was lost.

An attempt that resumes knows what was said, so its words are no echo (Law 5). That the same request comes again right
after the same words is the evidence that they are no genuine repeat (Law 8): the older copy is superseded. Both stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.ledger.delivery.claims import Caller
from semel.ledger.storage.rows import ClaimRow, ItemRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries


def supersede_before_request(tx: Tx, caller: Caller, item: int) -> None:
    """Supersede the last words of a lost attempt if the last words of this one are the same, and so is the request.

    `item`: the permission request that this attempt has just opened.
    """
    if caller.turn is None or caller.turn == caller.root:
        return
    blocks = [claim for claim in tx.all(ClaimRow, "claims_of_root", root=caller.root) if _is_block_of(claim, caller)]
    said = _find_last(blocks, caller.turn)
    request = tx.get(ItemRow, "item_get", id=item)
    if said is None or said.seq is None:
        return
    for turn in sorted({claim.turn for claim in blocks if claim.turn is not None} - {caller.turn}):
        lost = _find_last(blocks, turn)
        if lost is None or lost.seq is None or (lost.digest, lost.dest) != (said.digest, said.dest):
            continue
        if _was_left_asking(tx, turn, request):
            entries.set_entry(tx, caller.session, lost.seq, superseded=True, tell=False)
            entries.name_superseded(tx, caller.session, said.seq, [lost.seq])


def _is_block_of(claim: ClaimRow, caller: Caller) -> bool:
    """Return whether a claim is a text that the agent wrote in this session, and that was said."""
    return claim.session == caller.session and (claim.how, claim.kind, claim.outcome) == ("block", "text", "said")


def _find_last(blocks: Sequence[ClaimRow], turn: int) -> ClaimRow | None:
    return next((claim for claim in reversed(blocks) if claim.turn == turn), None)


def _was_left_asking(tx: Tx, turn: int, request: ItemRow) -> bool:
    """Return whether the last request of a lost turn is the same, and was withdrawn because the turn was lost."""
    asked = [item for item in tx.all(ItemRow, "items_of_turn", turn=turn) if item.kind == request.kind]
    if not asked:
        return False
    last, new = entries.load(asked[-1].body), entries.load(request.body)
    return last.get("state") == "cancelled" and all(last.get(name) == new.get(name) for name in ("title", "input"))
