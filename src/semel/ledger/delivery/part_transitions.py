"""One part moves: steps of the table in `semel.law.delivery`, and what they ask for, as rows (Law 7)."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.law import delivery as law
from semel.ledger.delivery import notices
from semel.ledger.delivery.parts import PARKED
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries


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
    failed: int | None  # the event that told that it failed after it was sent
    effects: list[law.Effect] = field(default_factory=list)

    @classmethod
    def of(cls, row: Row) -> Move:
        return cls(row, row.state, row.due, row.first, row.attempts, row.receipt, row.error, row.marked, row.failed)

    @property
    def says(self) -> bool:
        """Whether it carries something that was said. What is only reserved says nothing."""
        return bool(self.row.outcome != "quiet")

    def take(self, event: law.Event) -> None:
        """One step of the table."""
        done = law.step(self.state, event)
        self.state = done.state
        self.effects += done.effects
        if "clear doubt" in done.effects:
            self.first = None
        if "mark" in done.effects:
            self.marked = 1
        if event == "hold" and not self.says:
            self.take("drop")

    def fail(self, event: int, receipt: str, why: str) -> None:
        """Its platform took it, and tells in that event that it failed: it was sent, with this remark."""
        for each in law.failed_later(self.state) or ():
            self.take(each)
        self.effects.append("tell")
        self.failed, self.receipt, self.error = event, self.receipt or receipt, why

    def withdraw(self, why: str) -> None:
        """It is queued, and not needed any more: it leaves the line as if its channel had refused it."""
        self.take("departs")
        self.take("refused")
        self.error = why


def write(tx: Tx, move: Move) -> None:
    """The row as it is now, and what its steps ask for, in one transaction."""
    row = move.row
    tx.run(
        "part_set", id=row.id, state=move.state, due=move.due, first=move.first, attempts=move.attempts,
        receipt=move.receipt, error=move.error, marked=move.marked, failed=move.failed,
    )  # fmt: skip
    if "tell" in move.effects and move.says:
        notices.notice(tx, row, move.state, move.error)
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
