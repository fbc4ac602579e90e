"""Apply transitions of the table in `semel.law.delivery` to a part, and write their effects as rows (Law 7)."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.law import delivery as law
from semel.ledger.delivery import notices, parts
from semel.ledger.delivery.parts import MARKED_AS_REPEAT, NEWEST_REJECTED, PARKED, RESENT_WITHOUT_MARK
from semel.ledger.storage.rows import ClaimEntry, OutgoingPart
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, part_requests


@dataclass
class PartMove:
    """The new values of a part's row. Change them with `take`, then store them with `write_move`."""

    row: OutgoingPart
    state: law.State
    due: int
    first: int | None
    attempts: int
    receipt: str | None
    error: str | None
    marked: int
    failed: int | None  # the event that reported, after the part was sent, that it failed
    effects: list[law.Effect] = field(default_factory=list)
    is_reserved: bool = False  # the last event was "reserved"

    @classmethod
    def of(cls, row: OutgoingPart) -> PartMove:
        return cls(row, row.state, row.due, row.first, row.attempts, row.receipt, row.error, row.marked, row.failed)

    @property
    def carries_claim(self) -> bool:
        """Whether the part belongs to something that was said. The part of a placeholder does not."""
        return bool(self.row.outcome != "quiet")

    def take(self, event: law.Event) -> None:
        """Apply one event of the transition table to the part. A placeholder's part is dropped instead of held."""
        step = law.step(self.state, event)
        self.state = step.state
        self.is_reserved = event == "reserved"
        self.effects += step.effects
        if "clear doubt" in step.effects:
            self.first = None
        if "mark" in step.effects:
            self.marked = MARKED_AS_REPEAT
        elif "join tail" in step.effects:
            self.marked = self.marked or RESENT_WITHOUT_MARK
        if event == "hold" and not self.carries_claim:
            self.take("drop")

    def fail(self, event: int, receipt: str, reason: str) -> None:
        """Record that the platform accepted the message and then reported, in `event`, that it failed."""
        for step in law.events_of_late_failure(self.state) or ():
            self.take(step)
        self.effects.append("tell")
        self.failed, self.receipt, self.error = event, self.receipt or receipt, reason

    def withdraw(self, reason: str) -> None:
        """Take a part that is no longer needed out of the queue, as if its channel had refused it for `reason`."""
        self.take("departs")
        self.take("refused")
        self.error = reason

    def drop_before_departure(self, reason: str) -> None:
        """Drop a queued part of something that need not be said any more. Nobody is told of it."""
        self.withdraw(reason)
        self.take("drop")
        self.effects.remove("tell")


def write_move(tx: Tx, move: PartMove) -> None:
    """Store the part's new state and the effects of its transitions."""
    row = move.row
    _record_attempt(tx, move)
    tx.run(
        "part_set", id=row.id, state=move.state, due=move.due, first=move.first, attempts=move.attempts,
        receipt=move.receipt, error=move.error, marked=move.marked, failed=move.failed,
    )  # fmt: skip
    if "tell" in move.effects and move.carries_claim:
        notices.add_failure_notice(tx, row, move.state, move.error)
    if "join tail" in move.effects:
        tx.run("part_join_tail", id=row.id, line=parts.take_place(tx, row.dest))
    if "advance" in move.effects:
        _advance(tx, row.dest)
    touch_entries(tx, row.claim)


def _record_attempt(tx: Tx, move: PartMove) -> None:
    """Record the outcome of an attempt that ends now. A part that is sent, or reserved, at once needs no row."""
    row = move.row  # while it is sent, `due` is the time at which it left (`part_depart`)
    is_smooth = (move.state == "sent" or move.is_reserved) and row.attempts == 1 and not row.marked
    if row.state == "sending" and not is_smooth:
        tx.run("part_attempt_add", part=row.id, at=row.due, ended=tx.now, state=move.state, error=move.error)


def _advance(tx: Tx, dest: str) -> None:
    """Make the first part in the destination's queue due now, if it was waiting for its turn."""
    head = parts.find_head(tx, dest)
    if head is not None and head.due == PARKED:
        tx.run("part_wait", id=head.id, due=tx.now)


def touch_entries(tx: Tx, claim: int) -> None:
    """Give each entry of this claim a new rev, so that watchers get its changed delivery state."""
    for entry in tx.all(ClaimEntry, "entries_of_claim", claim=claim):
        entries.touch_entry(tx, entry.session, entry.seq)


def touch_asking_entries(tx: Tx, item: int) -> None:
    """Give the entries that ask about `item`, and of which a part is held or was rejected, a new rev.

    Call this when the request or question is over: such a part cannot be sent again any more.
    """
    for state in ("held", "rejected"):
        for claim in tx.values(int, "claims_asking_missing", state=state, newest=NEWEST_REJECTED):
            request = part_requests.find_request(tx, claim)
            if request is not None and request.id == item:
                touch_entries(tx, claim)
