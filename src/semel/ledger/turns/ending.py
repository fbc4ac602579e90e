"""What the end of a turn needs to know, in one read: the turn, who asked for it, and what of its output is still open.

Each of these would be a statement of its own, and where the ledger is a server, a wait for its answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from semel.law.echo import ClaimWay, Outcome
from semel.ledger.storage.rows import ClaimKind, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns.limits import Asker


class EndingRow(TurnRow):
    """A turn with an event that asked for it. Without one, the columns from `asked_seq` to `asker_role` are NULL.

    `has_live_entries`, `has_live_items`: 1 if output still streams in its session. The columns that begin with "last_":
    the newest claim of its root; NULL if there is none.
    """

    asked_seq: int | None
    asked_event: int | None
    source: str | None
    kind: str | None
    person: str | None
    account: str | None
    asker_role: str | None
    has_live_entries: int
    has_live_items: int
    last_claim: int | None
    last_how: ClaimWay | None
    last_kind: ClaimKind | None
    last_outcome: Outcome | None
    last_dest: str | None
    last_seq: int | None


@dataclass(frozen=True)
class Ending:
    """A turn that ends. `asked`: the entries of the events that asked for it, in order. `askers`: who sent them."""

    turn: EndingRow
    asked: tuple[int, ...]
    askers: tuple[Asker, ...]

    @property
    def last_asked(self) -> int:
        """The entry of the last event that asked for the turn; 0 if none did."""
        return max(self.asked, default=0)


def read_ending(tx: Tx, turn: int) -> Ending:
    """Return what the end of a turn needs to know. Call this when all that the turn said is recorded."""
    rows = tx.all(EndingRow, "turn_ending", id=turn)
    asked = [row for row in rows if row.asked_seq is not None]
    return Ending(
        rows[0],
        tuple(row.asked_seq for row in asked if row.asked_seq is not None),
        tuple(
            Asker(row.source or "", row.kind or "", row.person, row.account, row.asker_role, row.asked_event or 0)
            for row in asked
        ),
    )


def show_end(tx: Tx, session: int, asked: Iterable[int]) -> None:
    """Let watchers get the events that had asked for a finished turn: their entries say now how it ended.

    `asked`: the seqs of these entries, in order. Call this after everything else that the turn showed, and before
    `withdrawals.free_session`: who waits until the session is idle then has all of it.
    """
    for seq in asked:
        entries.touch_entry(tx, session, seq)
