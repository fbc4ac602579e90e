"""The words of voice notes: a transcript belongs to its file, in the entry of the message that it came with (Law 4).

The message's own text stays as its person wrote it, so no words of a program are recorded as theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semel.ledger.storage.rows import EntryRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns.turns import TurnFence, check_fence

OUTCOMES = ("transcript", "untranscribed")
"""The fields of a file that say what became of a voice note: its words, or why there are none."""


@dataclass(frozen=True)
class NoteOutcome:
    """What became of a voice note. `seq`: of its entry. `file`: its blob id.

    `transcript`: its words; None if it was not written down. `untranscribed`: why not.
    """

    seq: int
    file: str
    transcript: str | None = None
    untranscribed: str | None = None


def list_open_notes(entry_fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the voice notes among an entry's files for which nothing was recorded yet."""
    return [
        file
        for file in entry_fields.get("files") or ()
        if file.get("voice") and file.get("id") and not any(name in file for name in OUTCOMES)
    ]


def list_transcripts(entry_fields: Mapping[str, Any]) -> list[str]:
    """Return the words of the voice notes among an entry's files."""
    return [str(file["transcript"]) for file in entry_fields.get("files") or () if file.get("transcript")]


def record_outcomes(tx: Tx, fence: TurnFence, outcomes: Sequence[NoteOutcome]) -> dict[int, dict[str, Any]]:
    """Record what became of voice notes of a turn. Return the fields of their entries, by seq. Raises Fenced.

    What was recorded for a note before stays.
    """
    check_fence(tx, fence)
    fields: dict[int, dict[str, Any]] = {}
    for seq in sorted({outcome.seq for outcome in outcomes}):
        row = tx.get(EntryRow, "entry_get", session=fence.session, seq=seq)
        more = entries.load(row.more)
        for file in list_open_notes(more):
            for outcome in outcomes:
                if (outcome.seq, outcome.file) == (seq, file["id"]):
                    file |= {name: value for name in OUTCOMES if (value := getattr(outcome, name)) is not None}
        if more.get("files"):  # else its content was erased meanwhile
            entries.set_entry(tx, fence.session, seq, more={"files": more["files"]})
        fields[seq] = more
    return fields
