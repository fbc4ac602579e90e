"""One part moves: steps of the table in `semel.law.delivery`, and what they ask for, as rows (Law 7)."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.law import delivery as law
from semel.ledger import entries, undelivered
from semel.ledger.parts import PARKED
from semel.ledger.sql import Row, Tx


@dataclass
class Move:
    """A part's row as it will be. `take` events, then `write`."""

    row: Row
    state: law.State
    due: int
    first: int | None
    attempts: int
    receipt: str | None
    error: str | None
    marked: int
    effects: list[law.Effect] = field(default_factory=list)

    @classmethod
    def of(cls, row: Row) -> Move:
        return cls(row, row.state, row.due, row.first, row.attempts, row.receipt, row.error, row.marked)

    def take(self, event: law.Event) -> None:
        """One step of the table."""
        done = law.step(self.state, event)
        self.state = done.state
        self.effects += done.effects
        if "clear doubt" in done.effects:
            self.first = None
        if "mark" in done.effects:
            self.marked = 1


def write(tx: Tx, move: Move) -> None:
    """The row as it is now, and what its steps ask for, in one transaction."""
    row = move.row
    tx.run(
        "part_set", id=row.id, state=move.state, due=move.due, first=move.first, attempts=move.attempts,
        receipt=move.receipt, error=move.error, marked=move.marked,
    )  # fmt: skip
    if "tell" in move.effects:
        undelivered.notice(tx, row, move.state, move.error)
    if "join tail" in move.effects:
        tx.run("part_join_tail", id=row.id)
    if "advance" in move.effects:
        _advance(tx, row.dest)
    show_again(tx, row.claim)


def _advance(tx: Tx, dest: str) -> None:
    """The line moves on: its new head may leave."""
    head = tx.one("line_head", dest=dest)
    if head is not None and head.due == PARKED:
        tx.run("part_wait", id=head.id, due=tx.now)


def show_again(tx: Tx, claim: int) -> None:
    """Watchers see the delivery change, wherever the claim was recorded."""
    for entry in tx.all("entries_of_claim", claim=claim):
        entries.touch_entry(tx, entry.session, entry.seq)
