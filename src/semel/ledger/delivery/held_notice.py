"""Tell a chat that an answer may not have arrived there, once it can be told (Laws 7, 12).

The notice is a message of its own: the answer itself is never sent twice. A session gets one such notice until the
answers that it is about are settled. The notice's own fate does not matter: if it is held, too, no further one follows.
"""

from __future__ import annotations

from datetime import UTC, datetime

from semel.ledger.delivery import claims
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import cut, single_part
from semel.ledger.delivery.parts import NEWEST_REJECTED
from semel.ledger.storage.rows import RestoreRow, Row
from semel.ledger.storage.sql import Tx
from semel.timing.walltime import format_utc

KIND = "delivery.unsure"
"""The kind of the notice."""
REASON_PREFIX = "held in "  # the reason of the notice's claim: this prefix, then the key of the session


class HeldAnswers(Row):
    """The answers of a session that are held at its home. `messages`: how many. `first`: when the oldest came (ms)."""

    session: int
    key: str
    messages: int
    first: int


def list_chats_to_tell(tx: Tx) -> list[str]:
    """Return the destinations of which a session has its home there, and held answers that nobody was told of there."""
    dests = tx.values(str, "homes_with_held_answers", newest=NEWEST_REJECTED, restored=_find_restore(tx))
    return [dest for dest in dests if _list_untold(tx, dest)]


def tell_chat(tx: Tx, dest: str) -> None:
    """Add a notice to each session with the home `dest` and answers that are held there, unless it has one already."""
    for held in _list_untold(tx, dest):
        text = _describe_held(held, tx.now)
        request = ClaimRequest(
            "notice", text, dest, more={"kind": KIND},
            legs=tuple(cut(tx, dest, held.key, text) or single_part(dest, held.key, text)),
        )  # fmt: skip
        caller = Caller(held.session, held.key, None, None)
        claims.queue_notice(tx, caller, request, REASON_PREFIX + held.key, tell_there=False)


def _list_untold(tx: Tx, dest: str) -> list[HeldAnswers]:
    found = tx.all(HeldAnswers, "held_answers_at", dest=dest, newest=NEWEST_REJECTED, restored=_find_restore(tx))
    return [
        held
        for held in found
        if not tx.exists("claim_noticed", dest=dest, reason=REASON_PREFIX + held.key, since=held.first - 1)
    ]


def _find_restore(tx: Tx) -> int:
    """Return when the ledger was last restored from a backup (ms), of which the chats were told then; 0 if never."""
    restored = tx.one(RestoreRow, "restore_last")
    return 0 if restored is None else restored.at


def _describe_held(held: HeldAnswers, now: int) -> str:
    """Say in words for the chat which answers may be missing. It quotes none: that would send a short one again."""
    said, today = (datetime.fromtimestamp(at / 1000, UTC) for at in (held.first, now))
    at = f"{said:%H:%M} UTC" if said.date() == today.date() else format_utc(held.first)
    if held.messages == 1:
        return (
            f"An answer of {at} may not have arrived here. /history shows it; an owner decides about sending it again."
        )
    return (
        f"{held.messages} answers since {at} may not have arrived here. /history shows them; an owner decides about "
        "sending them again."
    )
