"""Import an exported session as a new one, in steps that can be resumed.

The session grows under a temporary key; the last transaction gives it its final key. So a reader finds the whole
session or none. Each transaction also stores the progress of the import.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from semel.ledger.admin.import_file import (
    AnyLine,
    CheckedFile,
    ClaimLine,
    EndLine,
    EntryEvent,
    EntryLine,
    SessionLine,
    TurnLine,
)
from semel.ledger.inbound.commands import KIND as COMMAND
from semel.ledger.inbound.hear import Addressee, KnownEvent
from semel.ledger.storage.rows import AddedClaim, AddedEvent, EntryRow, EventRow, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.transcript.entries import NextEntry, dump
from semel.ledger.turns import sessions


class SessionExists(Exception):
    """A session with the target's key exists already, and its content is not that of the file."""


class ImportDisturbed(Exception):
    """Another import, or something else, wrote to the session or moved the import's progress in the meantime."""


WRITTEN_MEANWHILE = (
    "something else was written into the session that grows as `import:...`: delete that one, and import again"
)


@dataclass(frozen=True)
class ImportProgress:
    """The progress of an import: the first `lines` lines of the file are in the session with the row id `session`.

    `done`: an earlier import of the same file was completed, and its session still exists.
    """

    session: int
    lines: int
    done: bool = False


@dataclass(frozen=True)
class HeldConversation:
    """How much of another system's conversation a session holds: what an import of its grown file must begin with.

    `session`: the row id. `origin`: the conversation, as the header of its file names it. `entries`, `turns`: how many
    of the file's are here. `digest`: of the identities of these entries. `chapter`: the file's chapter at the last of
    them. `shifts`: pairs (turn, difference), in order: from that turn of the file on, the turn's number here is larger
    by the difference. `chapters`: the same difference for chapters. It is stored as JSON.
    """

    session: int
    origin: str
    entries: int
    turns: int
    digest: str
    chapter: int
    shifts: list[list[int]] = field(default_factory=list)
    chapters: int = 0

    def turn_here(self, turn: int) -> int:
        """Return the session's number of a turn of the file."""
        return turn + next((shift for first, shift in reversed(self.shifts) if first <= turn), 0)


def find_held(tx: Tx, origin: str) -> tuple[str, HeldConversation] | None:
    """Return the key of the session that holds another system's conversation, and how much it holds; None if none does.

    `origin`: the conversation, as the header of its file names it.
    """
    place = entries.load(tx.value(str, "cursor_get", source=_origin_source(origin)))
    if not place:
        return None
    key: str = place["key"]
    progress = entries.load(tx.value(str, "cursor_get", source=_cursor_source(key)))
    row = tx.one(SessionRow, "session_by_key", key=key)
    held = progress.get("held")
    if not held or held["origin"] != origin or row is None or row.deleted is not None or row.id != held["session"]:
        return None
    return key, HeldConversation(**held)


def begin_import(tx: Tx, target: Addressee, file: CheckedFile) -> ImportProgress:
    """Begin to import `file` as the session `target`, or resume an import that was interrupted. Return its progress.

    Raises SessionExists.
    """
    progress = entries.load(tx.value(str, "cursor_get", source=_cursor_source(target.key)))
    is_same_file = progress.get("file") == file.digest
    existing = tx.one(SessionRow, "session_by_key", key=target.key)
    if existing is not None:
        if is_same_file and progress.get("done") == existing.id and existing.deleted is None:
            return ImportProgress(existing.id, file.lines, done=True)
        if existing.deleted is None:
            raise SessionExists(f"there is a session {target.key!r} already; import it under another key")
    staged = tx.one(SessionRow, "session_by_key", key=_staging_key(file.digest, target.key))
    if staged is not None and staged.deleted is not None:
        tx.run("import_aside", id=staged.id, key=f"{staged.key[:170]}~deleted-{staged.id}")
        staged = None
    if is_same_file and staged is not None:
        return ImportProgress(staged.id, int(progress["lines"]))
    if staged is not None:
        raise SessionExists(f"another session has the name {staged.key!r}, which this import needs")
    name = _staging_key(file.digest, target.key)
    session = tx.number("session_add", key=name, agent=target.agent, home=None, at=tx.now)
    tx.run("session_set_title", id=session, title=f"{target.key}: being imported")
    save_progress(tx, target, file, lines=0)
    entries.touch_session(tx, session)
    return ImportProgress(session, 0)


def import_lines(
    tx: Tx, progress: ImportProgress, target: Addressee, file: CheckedFile, records: Sequence[AnyLine]
) -> ImportProgress:
    """Import `records`, the next lines of the file; return the new progress. Raises ImportDisturbed."""
    saved = entries.load(tx.value(str, "cursor_get", source=_cursor_source(target.key)))
    if saved.get("file") != file.digest or saved.get("lines") != progress.lines:
        raise ImportDisturbed(f"another import of {target.key!r} goes on")
    require_session(tx, progress.session)
    importer = LineImporter(tx, progress.session, file.header.origin or file.header.key)
    for record in records:
        importer.import_record(record)
    advanced = ImportProgress(progress.session, progress.lines + len(records))
    save_progress(tx, target, file, lines=advanced.lines)
    entries.touch_session(tx, progress.session)
    return advanced


def finish_import(tx: Tx, progress: ImportProgress, target: Addressee, file: CheckedFile) -> None:
    """Finish an import: check that all entries are there, and give the session its final key.

    Call it after the last line. Raises SessionExists, ImportDisturbed.
    """
    existing = tx.one(SessionRow, "session_by_key", key=target.key)
    if existing is not None and existing.deleted is not None:  # the deleted session's rows stay, under another key
        tx.run("import_aside", id=existing.id, key=f"{target.key[:170]}~deleted-{existing.id}")
    elif existing is not None:
        raise SessionExists(f"a session {target.key!r} was made meanwhile; import this one under another key")
    row = require_session(tx, progress.session)
    if row.seq != file.header.entries:
        raise ImportDisturbed(WRITTEN_MEANWHILE)
    header = file.header
    numbers = max(header.numbers, 0 if existing is None else existing.numbers)  # Law 13: never reuse a number
    title = sessions.normalise_title(header.title) if header.title else None
    tx.run(
        "import_named", id=progress.session, key=target.key, agent=target.agent, home=target.home, title=title,
        chapter=header.chapter, since=header.since, epoch=header.turns, numbers=numbers, at=header.at,
    )  # fmt: skip
    held = None
    if header.origin is not None:
        held = asdict(
            HeldConversation(
                progress.session, header.origin, header.entries, header.turns, file.entries_digest, header.chapter
            )
        )
        tx.run("cursor_set", source=_origin_source(header.origin), value=dump({"key": target.key}), at=tx.now)
    save_progress(tx, target, file, lines=progress.lines, done=progress.session, held=held)
    entries.touch_session(tx, progress.session)


def require_session(tx: Tx, session: int) -> SessionRow:
    """Return the row of a session that is being imported. Raises ImportDisturbed if it was deleted."""
    row = tx.one(SessionRow, "session_by_id", id=session)
    if row is None or row.deleted is not None:
        raise ImportDisturbed("the session was deleted while it was imported; import the file again")
    return row


def _cursor_source(key: str) -> str:
    return f"import:{key}"


def _origin_source(origin: str) -> str:
    return f"import-of:{hashlib.blake2b(origin.encode(), digest_size=16).hexdigest()}"


def _staging_key(digest: str, key: str) -> str:
    return f"import:{digest[:16]}:{key}"[:200]


def save_progress(tx: Tx, target: Addressee, file: CheckedFile, **fields: Any) -> None:
    """Store how far the import of `file` as the session `target` has come."""
    tx.run("cursor_set", source=_cursor_source(target.key), value=dump({"file": file.digest, **fields}), at=tx.now)


class LineImporter:
    """Import lines of a file within one transaction.

    Beside `transcript.entries`, only this class writes entries (Law 4).
    """

    def __init__(self, tx: Tx, session: int, origin: str) -> None:
        """`origin`: the session or conversation that the entries come from."""
        self.tx = tx
        self.session = session
        self.origin = origin
        self._turns: dict[int, tuple[int | None, int | None]] = {}

    def import_record(self, record: AnyLine) -> None:
        match record:
            case TurnLine():
                self._import_turn(record)
            case EntryLine():
                self._import_entry(record)
            case ClaimLine():
                self._import_claim(record)
            case SessionLine() | EndLine():
                pass

    def find_turn(self, number: int | None) -> tuple[int | None, int | None]:
        """Find a turn by its number in the file. Return its row id and the row id of its root.

        Return (None, None) if `number` is None or no such turn was imported.
        """
        if number is None:
            return None, None
        if number not in self._turns:
            rows = self.tx.pairs(int, int, "import_turn_of", session=self.session, epoch=number)
            if not rows:
                return None, None
            (self._turns[number],) = rows
        return self._turns[number]

    def _import_turn(self, turn: TurnLine) -> None:
        _, root = self.find_turn(turn.root)
        was_running = turn.state == "running"  # it ran when it was exported; it is imported as cancelled
        turn_id = self.tx.number(
            "import_turn", session=self.session, epoch=turn.turn, chapter=turn.chapter, root=root or 0,
            attempt=turn.attempt, how=turn.how, state="cancelled" if was_running else turn.state, tools=turn.tools,
            stop=turn.stop, error=turn.error, started=turn.started,
            ended=turn.started if turn.ended is None else turn.ended,
        )  # fmt: skip
        if turn.root == turn.turn:
            self.tx.run("turn_own_root", id=turn_id)

    def _import_entry(self, entry: EntryLine) -> None:
        row = self.tx.get(NextEntry, "session_next_entry", id=self.session)
        if row.seq != entry.seq:
            raise ImportDisturbed(WRITTEN_MEANWHILE)
        mark: dict[str, Any] = {"from": self.origin}
        event = None if entry.event is None else self._import_event(entry, entry.event, mark)
        claim = self._import_claim_of_entry(entry)
        if entry.delivery:
            mark["delivery"] = [
                {
                    "to": delivery.to, "state": delivery.state, "parts": delivery.parts,
                    **({"failed": True} if delivery.failed else {}),
                    **({"error": delivery.error} if delivery.error else {}),
                }
                for delivery in entry.delivery
            ]  # fmt: skip
        self.tx.run(
            "import_entry", session=self.session, seq=row.seq, rev=row.rev, at=entry.at, role=entry.role,
            chapter=entry.chapter, text=entry.text, partial=int(entry.partial or entry.live),
            superseded=int(entry.superseded), turn=self.find_turn(entry.turn)[0], event=event, claim=claim,
            more=dump({**(entry.more or {}), "imported": mark}),
        )  # fmt: skip
        for blob_id in sorted({file["id"] for file in (entry.more or {}).get("files", ()) if file.get("id")}):
            self.tx.run("blob_heard", id=blob_id)  # if this ledger has the file, keep it
            self.tx.run("holding_add", session=self.session, seq=row.seq, blob=blob_id)

    def _import_event(self, entry: EntryLine, event: EntryEvent, mark: dict[str, Any]) -> int:
        """Record an entry's event under its own (source, key), and return the event's id.

        Later, the ledger recognises a repeat of the event as a duplicate (Law 1). If the ledger has this event already,
        with the same content, the entry refers to that one. If the content differs, the imported event is stored
        without a key.
        """
        payload = None if event.payload is None else dump({"text": entry.text, **event.payload})
        columns: dict[str, Any] = {
            "source": event.source, "kind": event.kind, "sender": event.sender, "digest": bytes.fromhex(event.digest),
            "payload": payload, "at": event.at, "session": None,
        }  # fmt: skip
        added = self.tx.one(AddedEvent, "event_add", **columns, key=event.key)
        event_id = None if added is None else added.id
        if event_id is None and (known_event := self._find_event(event, columns["digest"])) is not None:
            event_id = known_event
            self.tx.run("import_payload", id=known_event, payload=payload, sender=event.sender)
        elif event_id is None:
            mark["key"] = event.key
            event_id = self.tx.get(AddedEvent, "event_add", **columns, key=None).id
        if event.command is not None:
            command = event.command
            self.tx.run(
                "import_command", event=event_id, session=self.session, seq=entry.seq, name=command.name,
                argument=command.argument, result=command.result,
            )  # fmt: skip
        else:
            turn, _ = self.find_turn(event.turn)
            self.tx.run("import_hearing", event=event_id, session=self.session, seq=entry.seq, turn=turn)
        return event_id

    def _find_event(self, event: EntryEvent, digest: bytes) -> int | None:
        """Return the id of the event with this identity and content in this ledger; None if there is no such event.

        An event that is a command matches only another command.
        """
        row = self.tx.get(KnownEvent, "event_known", source=event.source, key=event.key)
        event_row = self.tx.get(EventRow, "event_get", id=row.id)
        is_same = row.digest == digest and (event_row.kind == COMMAND) == (event.kind == COMMAND)
        return row.id if is_same else None

    def _import_claim_of_entry(self, entry: EntryLine) -> int | None:
        claim = entry.claim
        if claim is None:
            if entry.role != "agent":
                return None
            turn, root = self.find_turn(entry.turn)  # the entry still streamed: what was shown stays (Law 6)
            return self._add_claim(
                turn=turn, root=root, how="recovery", kind="text", late=0, tool=None, dest="", digest=None,
                text=entry.text, outcome="said", reason=None, echo_of=None, seq=entry.seq, at=entry.at,
            )  # fmt: skip
        turn, root = self.find_turn(claim.turn)
        return self._add_claim(
            turn=turn, root=root, how=claim.how, kind=claim.kind, late=int(claim.late), tool=claim.tool,
            dest=claim.dest, digest=_decode_digest(claim.digest), text=entry.text if claim.text is None else claim.text,
            outcome="said", reason=claim.reason, echo_of=None, seq=entry.seq, at=claim.at,
        )  # fmt: skip

    def _import_claim(self, claim: ClaimLine) -> None:
        turn, root = self.find_turn(claim.turn)
        original = None if claim.of is None else self.tx.one(EntryRow, "entry_get", session=self.session, seq=claim.of)
        self._add_claim(
            turn=turn, root=root, how=claim.how, kind=claim.kind, late=int(claim.late), tool=claim.tool,
            dest=claim.dest, digest=_decode_digest(claim.digest), text=claim.text, outcome=claim.outcome,
            reason=claim.reason,
            echo_of=original.claim if original is not None else None, seq=None, at=claim.at,
        )  # fmt: skip

    def _add_claim(self, **columns: Any) -> int:
        return self.tx.get(
            AddedClaim, "claim_add", session=self.session, spawn=None, conn=None, call=None, args=None, **columns
        ).id


def _decode_digest(digest: str | None) -> bytes | None:
    return None if digest is None else bytes.fromhex(digest)
