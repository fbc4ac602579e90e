"""Add to an imported session what its conversation in another system has gained since.

The session may have gone on here meanwhile. What is new there comes after everything that is here, in steps: each
transaction adds some lines and stores how far it came, so an interrupted growth continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from msgspec import structs

from semel.ledger.admin.import_file import AnyLine, CheckedFile, EntryLine, TurnLine
from semel.ledger.admin.import_session import (
    HeldConversation,
    ImportDisturbed,
    LineImporter,
    find_held,
    require_session,
    save_progress,
)
from semel.ledger.inbound.hear import Addressee
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries


def add_lines(
    tx: Tx, held: HeldConversation, target: Addressee, file: CheckedFile, records: Sequence[AnyLine], digest: str
) -> HeldConversation:
    """Add `records`, the next turns and entries of the file that the session does not hold; return what it holds then.

    `digest`: of the identities of all the file's entries up to the last one in `records`. Raises ImportDisturbed, also
    while a turn runs in the session.
    """
    if find_held(tx, held.origin) != (target.key, held):
        raise ImportDisturbed(f"another import of {target.key!r} goes on")
    row = require_session(tx, held.session)
    if row.turn is not None:
        raise ImportDisturbed(f"a turn runs in {target.key!r}; import again when it has ended")
    growth = _Growth(tx, held, row)
    for record in records:
        growth.add(record)
    grown = growth.finish(digest)
    save_progress(tx, target, file, done=held.session, held=asdict(grown))
    entries.touch_session(tx, held.session)
    return grown


class _Growth:
    """One transaction's additions: renumbers lines of the file for the session, and imports them."""

    def __init__(self, tx: Tx, held: HeldConversation, row: SessionRow) -> None:
        self.tx = tx
        self.held = replace(held, chapters=row.chapter - held.chapter)  # it differs if somebody gave /new here
        self.epoch = row.epoch
        self.chapter = row.chapter
        self.since = int(tx.number("export_since", session=row.id) or 1)
        self.importer = LineImporter(tx, row.id, held.origin)

    def add(self, record: AnyLine) -> None:
        match record:
            case TurnLine():
                self._add_turn(record)
            case EntryLine():
                self._add_entry(record)

    def _add_turn(self, turn: TurnLine) -> None:
        self.epoch += 1
        shift = self.epoch - turn.turn
        shifts = self.held.shifts
        if shift != (shifts[-1][1] if shifts else 0):
            shifts = [*shifts, [turn.turn, shift]]
        self.held = replace(self.held, turns=turn.turn, shifts=shifts)
        root = self.held.turn_here(turn.root)
        chapter = turn.chapter + self.held.chapters
        self.importer.import_record(structs.replace(turn, turn=self.epoch, root=root, chapter=chapter))

    def _add_entry(self, entry: EntryLine) -> None:
        row = self.tx.get(SessionRow, "session_by_id", id=self.held.session)
        chapter = entry.chapter + self.held.chapters
        if chapter > self.chapter:
            self.chapter, self.since = chapter, row.seq + 1
        turn, event, claim = entry.turn, entry.event, entry.claim
        if event is not None and event.turn is not None:
            event = structs.replace(event, turn=self.held.turn_here(event.turn))
        if claim is not None and claim.turn is not None:
            claim = structs.replace(claim, turn=self.held.turn_here(claim.turn))
        moved = structs.replace(
            entry, seq=row.seq + 1, chapter=chapter, event=event, claim=claim,
            turn=None if turn is None else self.held.turn_here(turn),
        )  # fmt: skip
        self.importer.import_record(moved)
        self.held = replace(self.held, entries=entry.seq, chapter=entry.chapter)

    def finish(self, digest: str) -> HeldConversation:
        self.tx.run("import_grown", id=self.held.session, epoch=self.epoch, chapter=self.chapter, since=self.since)
        return replace(self.held, digest=digest)
