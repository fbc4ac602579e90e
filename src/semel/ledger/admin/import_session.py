"""Import: an exported session becomes a new one, in steps that can be resumed.

The session grows under a temporary key and gets its own key in the last transaction, so a reader finds the whole
session or none. Each transaction also stores how far the import has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semel.ledger.admin.import_file import Any_, Checked, Claim, End, Entry, Event, Session, Turn
from semel.ledger.inbound.commands import KIND as COMMAND
from semel.ledger.inbound.hear import To
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.transcript.entries import dump
from semel.ledger.turns import sessions


class SessionExists(Exception):
    """The session already exists, and it is not what the file holds."""


class ImportDisturbed(Exception):
    """Something else was written into the session, or another import went on, during the import."""


WRITTEN = "something else was written into the session that grows as `import:...`: delete that one, and import again"


@dataclass(frozen=True)
class ImportProgress:
    """The progress of an import: `lines` of the file are in `session`. `done`: it was completed before."""

    session: int
    lines: int
    done: bool = False


def begin(tx: Tx, target: To, file: Checked) -> ImportProgress:
    """Begin the import of this file under this key, or resume it where the last one ended. Raises SessionExists."""
    known = entries.load(tx.value("cursor_get", source=_source(target.key)))
    same = known.get("file") == file.digest
    there = tx.one("session_by_key", key=target.key)
    if there is not None:
        if same and known.get("done") == there.id and there.deleted is None:
            return ImportProgress(there.id, file.lines, done=True)
        if there.deleted is None:
            raise SessionExists(f"there is a session {target.key!r} already; import it under another key")
    staged = tx.one("session_by_key", key=_staged(file.digest, target.key))
    if staged is not None and staged.deleted is not None:
        tx.run("import_aside", id=staged.id, key=f"{staged.key[:170]}~deleted-{staged.id}")
        staged = None
    if same and staged is not None:
        return ImportProgress(staged.id, int(known["lines"]))
    if staged is not None:
        raise SessionExists(f"another session has the name {staged.key!r}, which this import needs")
    name = _staged(file.digest, target.key)
    session = int(tx.value("session_add", key=name, agent=target.agent, home=None, at=tx.now))
    tx.run("session_set_title", id=session, title=f"{target.key}: being imported")
    _save_progress(tx, target, file, lines=0)
    entries.touch_session(tx, session)
    return ImportProgress(session, 0)


def take(tx: Tx, stand: ImportProgress, target: To, file: Checked, records: Sequence[Any_]) -> ImportProgress:
    """Import the next lines of the file. Raises ImportDisturbed."""
    known = entries.load(tx.value("cursor_get", source=_source(target.key)))
    if known.get("file") != file.digest or known.get("lines") != stand.lines:
        raise ImportDisturbed(f"another import of {target.key!r} goes on")
    _undeleted(tx, stand)
    step = _Step(tx, stand.session, file.header.key)
    for record in records:
        step.take(record)
    after = ImportProgress(stand.session, stand.lines + len(records))
    _save_progress(tx, target, file, lines=after.lines)
    entries.touch_session(tx, stand.session)
    return after


def end(tx: Tx, stand: ImportProgress, target: To, file: Checked) -> None:
    """Complete the import: every line is there, and the session gets its key. Raises SessionExists, ImportDisturbed."""
    there = tx.one("session_by_key", key=target.key)
    if there is not None and there.deleted is not None:  # its rows stay what they are, under a name of their own
        tx.run("import_aside", id=there.id, key=f"{target.key[:170]}~deleted-{there.id}")
    elif there is not None:
        raise SessionExists(f"a session {target.key!r} was made meanwhile; import this one under another key")
    row = _undeleted(tx, stand)
    if row.seq != file.header.entries:
        raise ImportDisturbed(WRITTEN)
    head = file.header
    numbers = max(head.numbers, 0 if there is None else there.numbers)  # what people were shown under that key
    title = sessions.normalise_title(head.title) if head.title else None
    tx.run(
        "import_named", id=stand.session, key=target.key, agent=target.agent, home=target.home, title=title,
        chapter=head.chapter, since=head.since, epoch=head.turns, numbers=numbers, at=head.at,
    )  # fmt: skip
    _save_progress(tx, target, file, lines=stand.lines, done=stand.session)
    entries.touch_session(tx, stand.session)


def _undeleted(tx: Tx, stand: ImportProgress) -> Row:
    row = tx.one("session_by_id", id=stand.session)
    if row is None or row.deleted is not None:
        raise ImportDisturbed("the session was deleted while it was imported; import the file again")
    return row


def _source(key: str) -> str:
    return f"import:{key}"


def _staged(digest: str, key: str) -> str:
    return f"import:{digest[:16]}:{key}"[:200]


def _save_progress(tx: Tx, target: To, file: Checked, **how: Any) -> None:
    tx.run("cursor_set", source=_source(target.key), value=dump({"file": file.digest, **how}), at=tx.now)


class _Step:
    """Imports some lines of a file in one transaction. Law 4: this code is part of the transcript's one writer."""

    def __init__(self, tx: Tx, session: int, origin: str) -> None:
        self.tx = tx
        self.session = session
        self.origin = origin
        self._turns: dict[int, tuple[int | None, int | None]] = {}

    def take(self, record: Any_) -> None:
        match record:
            case Turn():
                self.on_turn(record)
            case Entry():
                self.on_entry(record)
            case Claim():
                self.on_claim(record)
            case Session() | End():
                pass

    def turn(self, number: int | None) -> tuple[int | None, int | None]:
        """(turn, root), as rows of this ledger."""
        if number is None:
            return None, None
        if number not in self._turns:
            row = self.tx.one("import_turn_of", session=self.session, epoch=number)
            if row is None:
                return None, None
            self._turns[number] = (row.id, row.root)
        return self._turns[number]

    def on_turn(self, turn: Turn) -> None:
        _, root = self.turn(turn.root)
        cut = turn.state == "running"  # it ran when it was exported; here it is cancelled
        made = self.tx.value(
            "import_turn", session=self.session, epoch=turn.turn, chapter=turn.chapter, root=root or 0,
            attempt=turn.attempt, how=turn.how, state="cancelled" if cut else turn.state, tools=turn.tools,
            stop=turn.stop, error=turn.error, started=turn.started,
            ended=turn.started if turn.ended is None else turn.ended,
        )  # fmt: skip
        if turn.root == turn.turn:
            self.tx.run("turn_own_root", id=made)

    def on_entry(self, entry: Entry) -> None:
        row = self.tx.one("session_next_entry", id=self.session)
        assert row is not None
        if row.seq != entry.seq:
            raise ImportDisturbed(WRITTEN)
        mark: dict[str, Any] = {"from": self.origin}
        event = None if entry.event is None else self.hear(entry, entry.event, mark)
        claim = self.claim(entry)
        if entry.delivery:
            mark["delivery"] = [
                {
                    "to": w.to, "state": w.state, "parts": w.parts,
                    **({"failed": True} if w.failed else {}), **({"error": w.error} if w.error else {}),
                }
                for w in entry.delivery
            ]  # fmt: skip
        self.tx.run(
            "import_entry", session=self.session, seq=row.seq, rev=row.rev, at=entry.at, role=entry.role,
            chapter=entry.chapter, text=entry.text, partial=int(entry.partial or entry.live),
            superseded=int(entry.superseded), turn=self.turn(entry.turn)[0], event=event, claim=claim,
            more=dump({**(entry.more or {}), "imported": mark}),
        )  # fmt: skip
        for file in (entry.more or {}).get("files", ()):  # where this ledger has it, it stays as long as the entry
            if file.get("id"):
                self.tx.run("holding_add", session=self.session, seq=row.seq, blob=file["id"])

    def hear(self, entry: Entry, event: Event, mark: dict[str, Any]) -> int:
        """Law 1: keep the event's identity if this ledger does not know it, so that repeats are duplicates here, too.

        A known identity with the same content is that event, which then has an entry here as well. With other content
        the first event stays, and this one is stored without a key.
        """
        payload = None if event.payload is None else dump({"text": entry.text, **event.payload})
        told: dict[str, Any] = {
            "source": event.source, "kind": event.kind, "sender": event.sender, "digest": bytes.fromhex(event.digest),
            "payload": payload, "at": event.at,
        }  # fmt: skip
        made = self.tx.value("event_add", **told, key=event.key)
        if made is None and (known := self.known(event, told["digest"])) is not None:
            made = known
            self.tx.run("import_payload", id=known, payload=payload, sender=event.sender)
        elif made is None:
            mark["key"] = event.key
            made = self.tx.value("event_add", **told, key=None)
        if event.command is not None:
            did = event.command
            self.tx.run(
                "import_command", event=made, session=self.session, seq=entry.seq, name=did.name,
                argument=did.argument, result=did.result,
            )  # fmt: skip
        else:
            turn, _ = self.turn(event.turn)
            self.tx.run("import_hearing", event=made, session=self.session, seq=entry.seq, turn=turn)
        return int(made)

    def known(self, event: Event, digest: bytes) -> int | None:
        """The event of this ledger with the same identity and content, addressed in the same way."""
        row = self.tx.one("event_known", source=event.source, key=event.key)
        assert row is not None
        whole = self.tx.one("event_get", id=row.id)
        assert whole is not None
        same = bytes(row.digest) == digest and (whole.kind == COMMAND) == (event.kind == COMMAND)
        return int(row.id) if same else None

    def claim(self, entry: Entry) -> int | None:
        said = entry.claim
        if said is None:
            if entry.role != "agent":
                return None
            turn, root = self.turn(entry.turn)  # it still streamed: what was shown stays (Law 6)
            return self._claim(
                turn=turn, root=root, how="recovery", kind="text", late=0, tool=None, dest="", digest=None,
                text=entry.text, outcome="said", reason=None, echo_of=None, seq=entry.seq, at=entry.at,
            )  # fmt: skip
        turn, root = self.turn(said.turn)
        return self._claim(
            turn=turn, root=root, how=said.how, kind=said.kind, late=int(said.late), tool=said.tool, dest=said.dest,
            digest=_bytes(said.digest), text=entry.text if said.text is None else said.text, outcome="said",
            reason=said.reason, echo_of=None, seq=entry.seq, at=said.at,
        )  # fmt: skip

    def on_claim(self, claim: Claim) -> None:
        turn, root = self.turn(claim.turn)
        first = None if claim.of is None else self.tx.one("entry_get", session=self.session, seq=claim.of)
        self._claim(
            turn=turn, root=root, how=claim.how, kind=claim.kind, late=int(claim.late), tool=claim.tool,
            dest=claim.dest, digest=_bytes(claim.digest), text=claim.text, outcome=claim.outcome, reason=claim.reason,
            echo_of=first.claim if first is not None else None, seq=None, at=claim.at,
        )  # fmt: skip

    def _claim(self, **told: Any) -> int:
        return int(
            self.tx.value("claim_add", session=self.session, spawn=None, conn=None, call=None, args=None, **told)
        )


def _bytes(digest: str | None) -> bytes | None:
    return None if digest is None else bytes.fromhex(digest)
