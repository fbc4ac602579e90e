"""Tell a person about an undelivered message on another of their channels (Law 7).

The notice is a claim with its entry and its part like any other. At most one leaves from one destination to another
within a fixed interval, and a notice that fails causes no further one.
"""

from __future__ import annotations

from collections.abc import Collection

from semel.ledger import people
from semel.ledger.delivery import claims, notices
from semel.ledger.delivery.claims import Caller, Say
from semel.ledger.delivery.cutting import Leg
from semel.ledger.delivery.part_transitions import Move
from semel.ledger.storage.sql import Tx

MIN_NOTICE_INTERVAL_MS = 600_000
MAX_REASON_CHARS = 200  # characters of the reason that are told
REASON = "undelivered at "  # with the destination that failed: the reason of the claim


def tell(tx: Tx, move: Move, channels: Collection[str]) -> None:
    """Send such a notice if this transition is a final failure and the person has a direct conversation on
    `channels`."""
    part = move.row
    if "tell" not in move.effects or not move.says or str(part.reason or "").startswith(REASON):
        return
    place = next((one for one in people.other_places(tx, part.dest) if one.partition(":")[0] in channels), None)
    if place is None:
        return
    reason = REASON + part.dest
    if tx.value("claim_noticed", dest=place, reason=reason, since=tx.now - MIN_NOTICE_INTERVAL_MS):
        return
    where, held = part.channel, move.state == "held"
    failed = "may not have arrived" if held else "could not be delivered"
    why = notices.sentence((move.error or "no reason was given")[:MAX_REASON_CHARS])
    text = f"A message for you on {where} {failed}: {why} {notices.snippet(part)}".strip()
    claims.notify(tx, Caller(part.session, part.session_key, None, None), _say(part.session_key, place, text), reason)


def _say(session: str, place: str, text: str) -> Say:
    channel, _, address = place.partition(":")
    op = {"kind": "post", "session": session, "address": address, "text": text}
    legs = (Leg(0, len(text), channel, place, op),)
    return Say("notice", text, place, home=False, legs=legs, more={"kind": "delivery.elsewhere", "to": place})
