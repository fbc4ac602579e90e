"""Apply transitions of the table in `semel.law.delivery` to a part, and write their effects as rows (Law 7)."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.law import delivery as law
from semel.ledger.delivery import notices
from semel.ledger.delivery.parts import PARKED
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries


@dataclass
class Move:
    """The future state of a part's row. Apply events with `take`, then store it with `write`."""

    row: Row
    state: law.State
    due: int
    first: int | None
    attempts: int
    receipt: str | None
    error: str | None
    marked: int
    failed: int | None  # the event that reported a failure after it was sent
    effects: list[law.Effect] = field(default_factory=list)

    @classmethod
    def of(cls, row: Row) -> Move:
        return cls(row, row.state, row.due, row.first, row.attempts, row.receipt, row.error, row.marked, row.failed)

    @property
    def says(self) -> bool:
        """Whether the part carries something that was said. A placeholder does not."""
        return bool(self.row.outcome != "quiet")

    def take(self, event: law.Event) -> None:
        """Apply one event of the table."""
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
        """Record that the platform accepted the message and then reported, in `event`, that it failed."""
        for each in law.failed_later(self.state) or ():
            self.take(each)
        self.effects.append("tell")
        self.failed, self.receipt, self.error = event, self.receipt or receipt, why

    def withdraw(self, why: str) -> None:
        """Take a queued part that is not needed any more out of the queue, as if its channel had refused it."""
        self.take("departs")
        self.take("refused")
        self.error = why


def write(tx: Tx, move: Move) -> None:
    """Store the part's new state and the effects of its transitions."""
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
    """Let the new head of the destination's queue leave."""
    head = tx.one("line_head", dest=dest)
    if head is not None and head.due == PARKED:
        tx.run("part_wait", id=head.id, due=tx.now)


def show_again(tx: Tx, claim: int) -> None:
    """Show watchers the changed delivery, in every entry of the claim."""
    for entry in tx.all("entries_of_claim", claim=claim):
        entries.touch_entry(tx, entry.session, entry.seq)
