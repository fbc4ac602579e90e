"""Summaries, which replace older turns in the prompts of an agent whose only memory is the record (Laws 4, 11).

A summary is an entry and changes no other entry. The session's row names the newest summary of its chapter, so a prompt
reads only the entries that the summary does not cover.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from semel.ledger.storage.rows import EntryRow, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import turns

KIND = "summary"
"""The kind of a summary's entry: a notice that is not sent, does not wake, and is not told in the next prompt."""


@dataclass(frozen=True)
class SummaryScope:
    """The entries that a summary covers: those up to the seq `last` whose turn has a root up to `turn`.

    `first`: the lowest covered seq. `since`: every entry before this seq is covered; from it on, only some are.
    `cut`: some of the covered entries were not read when the summary was made.
    """

    first: int
    last: int
    turn: int
    since: int
    cut: bool = False

    def has(self, seq: int, root: int) -> bool:
        """Return whether the summary covers the entry `seq` of the root `root`."""
        return seq <= self.last and root <= self.turn


@dataclass(frozen=True)
class Summary:
    """A recorded summary. `seq`: its entry."""

    seq: int
    text: str
    covers: SummaryScope


def get_newest(tx: Tx, session: SessionRow) -> Summary | None:
    """Return the summary that the prompts of the current chapter use; None if there is none."""
    row = (
        tx.one(EntryRow, "entry_get", session=session.id, seq=session.summary) if session.summary is not None else None
    )
    if row is None or row.seq <= session.erased:
        return None
    return Summary(row.seq, row.text, SummaryScope(**entries.load(row.more)["covers"]))


def add(
    tx: Tx, fence: turns.TurnFence, text: str, covers: SummaryScope, extra_fields: dict[str, Any] | None = None
) -> int:
    """Record a summary that the running turn made of earlier turns. Return the seq of its entry.

    Raises Fenced; it does so also if a new chapter has begun.
    """
    row = turns.check_fence(tx, fence)
    turn = tx.one(TurnRow, "turn_get", id=fence.turn)
    if turn is None or turn.chapter != row.chapter:
        raise turns.Fenced("a new chapter began: nothing of the one before is told any more")
    fields = {"kind": KIND, "covers": asdict(covers), **(extra_fields or {})}
    seq = entries.add_entry(tx, fence.session, role="notice", text=text, turn=fence.turn, more=fields)
    tx.run("session_set_summary", id=fence.session, seq=seq)
    return seq
