"""Tell a person about an undelivered message on another of their channels (Law 7).

The notice is a claim with an entry and a part, like any other claim. For each pair of destinations, the one that failed
and the one that is told, there is at most one notice in a fixed interval. A notice that fails causes no further notice.
"""

from __future__ import annotations

from collections.abc import Collection

from semel.ledger import people
from semel.ledger.delivery import claims, held_notice, notices
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import Leg
from semel.ledger.delivery.part_transitions import PartMove
from semel.ledger.storage.rows import ClaimRow, EntryRow, OutgoingPart
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.text.sentences import end_sentence

MIN_NOTICE_INTERVAL_MS = 600_000
MAX_REASON_CHARS = 200  # characters of the reason in the notice
REASON_PREFIX = "undelivered at "  # the reason of the notice's claim: this prefix, then the destination that failed


def send_failure_notice(tx: Tx, move: PartMove, channels: Collection[str]) -> None:
    """Notify the person if a part has failed for good and they have a direct conversation on one of `channels`.

    Do nothing if the failed part was such a notice itself, or the one in the chat (`held_notice`), or if a notice about
    this destination was sent recently.
    """
    part = move.row
    is_such_notice = str(part.reason or "").startswith((REASON_PREFIX, held_notice.REASON_PREFIX))
    if "tell" not in move.effects or not move.carries_claim or is_such_notice:
        return
    other_dest = next(
        (dest for dest in people.list_other_places(tx, part.dest) if dest.partition(":")[0] in channels), None
    )
    if other_dest is None:
        return
    reason = REASON_PREFIX + part.dest
    if tx.exists("claim_noticed", dest=other_dest, reason=reason, since=tx.now - MIN_NOTICE_INTERVAL_MS):
        return
    channel, held = part.channel, move.state == "held"
    failed = "may not have arrived" if held else "could not be delivered"
    reason_text = end_sentence((move.error or "no reason was given")[:MAX_REASON_CHARS])
    text = f"A message for you on {channel} {failed}: {reason_text} {notices.quote_part(part)}".strip()
    claims.queue_notice(
        tx,
        Caller(part.session, part.session_key, None, None),
        _notice_request(part.session_key, other_dest, text, part.id),
        reason,
    )


def is_missing_still(tx: Tx, claim: int) -> bool:
    """Return whether the part that a notice tells of is still held or rejected, or failed later.

    `claim`: of the notice.
    """
    row = tx.one(ClaimRow, "claim_get", id=claim)
    entry = tx.one(EntryRow, "entry_get", session=row.session, seq=row.seq) if row is not None else None
    id = entries.load(entry.more).get("part") if entry is not None else None
    part = tx.one(OutgoingPart, "part_get", id=id) if id is not None else None
    return part is None or part.state in ("held", "rejected") or part.failed is not None


def _notice_request(session: str, dest: str, text: str, part: int) -> ClaimRequest:
    channel, _, address = dest.partition(":")
    op = {"kind": "post", "session": session, "address": address, "text": text}
    legs = (Leg(0, len(text), channel, dest, op),)
    more = {"kind": "delivery.elsewhere", "to": dest, "part": part}
    return ClaimRequest("notice", text, dest, is_home=False, legs=legs, more=more)
