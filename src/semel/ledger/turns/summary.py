"""Summaries: what stands for older turns in the prompts of an agent whose memory is the record (Laws 4, 11).

A summary is an entry, and replaces nothing: what it covers stays where it was. The session's row names the newest one
of its chapter, so a prompt reads from there on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import turns

KIND = "summary"
"""The kind of such an entry, which is a notice: it is sent nowhere, wakes nothing, and rides in no prompt as news."""


@dataclass(frozen=True)
class Covers:
    """What a summary stands for: what turns up to `turn` (a root) had in the record up to the entry `last`.

    first, last: seqs. since: every entry before it is covered; what is not may begin there. cut: it could not be made
    from all of that.
    """

    first: int
    last: int
    turn: int
    since: int
    cut: bool = False

    def has(self, seq: int, root: int) -> bool:
        """Whether an entry is told by the summary: one that was heard later, or is of a later turn, is not."""
        return seq <= self.last and root <= self.turn


@dataclass(frozen=True)
class Summary:
    """A recorded one."""

    seq: int
    text: str
    covers: Covers


def newest(tx: Tx, session: Row) -> Summary | None:
    """The one that this chapter's prompts use."""
    row = tx.one("entry_get", session=session.id, seq=session.summary) if session.summary is not None else None
    if row is None or row.seq <= session.erased:
        return None
    return Summary(row.seq, row.text, Covers(**entries.load(row.more)["covers"]))


def add(tx: Tx, fence: turns.Fence, text: str, covers: Covers, more: dict[str, Any] | None = None) -> int:
    """The running turn has a summary of what was before it; its seq. Raises Fenced, also where `/new` came first."""
    row = turns.check(tx, fence)
    turn = tx.one("turn_get", id=fence.turn)
    if turn is None or turn.chapter != row.chapter:
        raise turns.Fenced("a new chapter began: nothing of the one before is told any more")
    told = {"kind": KIND, "covers": asdict(covers), **(more or {})}
    seq = entries.add_entry(tx, fence.session, role="notice", text=text, turn=fence.turn, more=told)
    tx.run("session_set_summary", id=fence.session, seq=seq)
    return seq
