"""The books: the conservation laws as queries over the ledger. Every row that a book returns breaks its law."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from semel.ledger.storage.sql import Row, Tx, queries

ANSWERED = (
    "every event that asked for a turn has, when nothing runs, something visible behind it, or the recorded evidence "
    "of a quiet end"
)
LAWS = {
    "book_accepted_bound": "accepted = waiting + bound to exactly one live or finished turn",
    "book_accepted_addressed": "accepted = waiting + bound to exactly one live or finished turn",
    "book_entry_heard": "n messages in = n entries",
    "book_command": "accepted = waiting + bound to exactly one live or finished turn",
    "book_deleted": "a deleted session has nothing to do",
    "book_erased": "nothing is left of what was deleted",
    "book_files": "a stored file that an entry names is there",
    "book_said_recorded": "every said claim has exactly one entry in its session",
    "book_said_told": "every said claim has exactly one entry in each session whose home it reached",
    "book_unsaid_unrecorded": "claims = said + echo + refused + quiet",
    "book_agent_claimed": "no path speaks without its row",
    "book_echo_original": "claims = said + echo + refused + quiet",
    "book_unsaid_unsent": "claims = said + echo + refused + quiet",
    "book_reserved": "a reserved message is filled once, or withdrawn with its turn",
    "book_filled": "a reserved message is filled once, or withdrawn with its turn",
    "book_parts": "an utterance's parts cover its text exactly",
    "book_sent_receipt": "parts = queued + sending + sent + unknown + held + rejected + dropped",
    "book_order": "parts leave in order per destination, and that order is the record's",
    "book_behind": "what a person received, in its order, is what the transcript says",
    "book_failed_sent": "parts = queued + sending + sent + unknown + held + rejected + dropped",
    "book_wake": "wake due <=> a waking event waits and no turn runs",
    "book_view_live": "view text = entry text",
    "book_view_pieces": "view text = entry text",
    "book_seq": "seq has no gaps",
    "book_call_ended": "no tool call of a finished turn is pending or running",
    "book_turn_running": "one turn at a time per session",
    "book_turn_ended": "finished turns have all their rows",
    "book_answered": ANSWERED,
    "book_answered_there": ANSWERED,
    "book_job": "a job that is over was told so by one event",
    "book_job_ends": "a job that is over was told so by one event",
    "book_answered_knowingly": "an answered request had reached the face that answered it",
    "book_numbers": "a number that people were shown is never used again",
    "book_restored": "a ledger that was put back sends nothing on a guess",
    "book_root": "at most three attempts share a root, one of them not lost",
}


@dataclass(frozen=True)
class Book:
    """One law and the rows that break it; none if the law holds."""

    name: str
    law: str
    what: str
    broken: tuple[dict[str, Any], ...]

    @property
    def ok(self) -> bool:
        return not self.broken


def audit(tx: Tx, most: int = 20) -> list[Book]:
    """Run every book; return at most `most` broken rows of each."""
    return [_book(tx, name, most) for name in LAWS]


def _book(tx: Tx, name: str, most: int) -> Book:
    broken = _uncovered(tx.each(name)) if name == "book_parts" else [_told(row) for row in tx.all(name)]
    return Book(name.removeprefix("book_"), LAWS[name], queries()[name].why, tuple(broken[:most]))


def _told(row: Row) -> dict[str, Any]:
    return dict(zip(row._fields, row, strict=True))


def _uncovered(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Claims whose parts leave a gap, overlap, or do not reach the end."""
    out = []
    for claim, parts in groupby(rows, key=lambda r: r.claim):
        at, size, whole = 0, 0, True
        for n, part in enumerate(parts):
            whole = whole and part.n == n and part.lo == at and part.hi >= part.lo
            at, size = part.hi, len(part.text) if part.erased is None else part.erased
        if not whole or at != size:
            out.append({"claim": claim, "covered": at, "text": size})
    return out


def counts(tx: Tx) -> dict[str, int]:
    """The number of rows of each kind in the ledger."""
    row = tx.one("ledger_counts")
    assert row is not None
    return _told(row)
