"""The books: the conservation laws as queries over the ledger. Every row that a book returns breaks its law."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from semel.ledger.storage.rows import Row
from semel.ledger.storage.sql import Tx, queries

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
    "book_line": "parts leave in order per destination, and that order is the record's",
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
    "book_job": "the end of a job was reported by exactly one event",
    "book_job_ends": "the end of a job was reported by exactly one event",
    "book_answered_knowingly": "an answered request had reached the face that answered it",
    "book_numbers": "a number that people were shown is never used again",
    "book_restored": "a restored ledger sends nothing on a guess",
    "book_spent": "what is counted for a day is what its turns used",
    "book_limited": "a message that waits for a limit was answered by a notice",
    "book_root": "at most three attempts share a root, one of them not lost",
}


class PartCover(Row):
    """A part, and the range text[lo:hi] of its claim's text that it covers.

    `erased`: the length of the claim's text before the text was erased.
    """

    claim: int
    text: str
    erased: int | None
    n: int
    lo: int
    hi: int


@dataclass(frozen=True)
class BookCheck:
    """The result of one book. `what`: what the book checks. `broken`: the rows that break the law, if any."""

    name: str
    law: str
    what: str
    broken: tuple[dict[str, Any], ...]

    @property
    def ok(self) -> bool:
        return not self.broken


def audit(tx: Tx, max_rows: int = 20) -> list[BookCheck]:
    """Run every book. Return the result of each, with at most `max_rows` broken rows."""
    return [run_book(tx, name, max_rows) for name in LAWS]


def run_book(tx: Tx, name: str, max_rows: int = 20) -> BookCheck:
    """Run one book, a key of LAWS. Return its result, with at most `max_rows` broken rows."""
    broken = _find_uncovered_claims(tx.iterate(PartCover, "book_parts")) if name == "book_parts" else tx.dicts(name)
    return BookCheck(name.removeprefix("book_"), LAWS[name], queries()[name].purpose, tuple(broken[:max_rows]))


def _find_uncovered_claims(rows: Iterable[PartCover]) -> list[dict[str, Any]]:
    """Return the claims whose parts leave a gap, overlap, or do not reach the end of the text."""
    out = []
    for claim, parts in groupby(rows, key=lambda r: r.claim):
        covered, length, is_whole = 0, 0, True
        for n, part in enumerate(parts):
            is_whole = is_whole and part.n == n and part.lo == covered and part.hi >= part.lo
            covered, length = part.hi, len(part.text) if part.erased is None else part.erased
        if not is_whole or covered != length:
            out.append({"claim": claim, "covered": covered, "text": length})
    return out


def count_rows(tx: Tx) -> dict[str, int]:
    """Return the number of rows of each kind in the ledger, by kind."""
    return tx.dicts("ledger_counts")[0]
