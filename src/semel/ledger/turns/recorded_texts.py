"""Recorded texts, to compare with an agent's own memory (`semel.law.memory_diff`)."""

from __future__ import annotations

from typing import Any

from semel.law.memory_diff import RecordedMessage
from semel.ledger.delivery.claims import CUT
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript.entries import load

STRETCH = 400  # entries; older ones are not compared
REWORDED_KINDS = frozenset({"ask", "edit", "file", "reaction"})  # kinds whose entry differs from the agent's words


def recorded(tx: Tx, session: int, turn: int | None = None) -> tuple[list[RecordedMessage], bool]:
    """What was said in this chapter, by people and to people, in order of turns; and whether it is complete.

    `turn`: the running one; the events it runs over are not yet in any memory.
    """
    row = tx.one("session_by_id", id=session)
    assert row is not None
    rows = tx.all("entries_before", session=session, chapter=row.chapter, before=row.seq + 1, since=0, limit=STRETCH)
    keyed: list[tuple[tuple[int, int, int], RecordedMessage]] = []
    latest = 0
    for e in reversed(rows):
        of = latest if e.event is None and e.turn is None else e.root
        running = e.event is not None and e.bound == turn and turn is not None
        if of is None or e.live or e.role not in ("user", "agent") or running:
            continue
        latest = max(latest, of)
        more: dict[str, Any] = load(e.more)
        needed = not e.superseded and more.get("kind") not in REWORDED_KINDS and not more.get("automatic")
        keyed.append(((of, 0 if e.event is not None else 1, e.seq), RecordedMessage(e.seq, e.role, e.text, needed)))
    for of in {order[0] for order, _ in keyed}:
        for cut in tx.all("claims_for_reason", root=of, reason=CUT):  # the agent may remember it
            keyed.append(((of, 1, row.seq + cut.id), RecordedMessage(-cut.id, "agent", cut.text, needed=False)))
    return [one for _, one in sorted(keyed, key=lambda pair: pair[0])], len(rows) < STRETCH
