"""Export a session as records. They are read page by page, so memory use does not depend on the session's length.

The records are: a header, the turns, the entries (each with its event or its claim), the claims without an entry, and
an end record with a digest. Row ids of this ledger are not exported: a turn is identified by its epoch, an entry by its
seq. docs/export.md describes the format.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec
from msgspec.structs import asdict

from semel.law.echo import ClaimWay as ClaimHow
from semel.law.echo import Outcome
from semel.law.turn import How as TurnHow
from semel.law.turn import State as TurnState
from semel.ledger.storage.rows import ClaimKind, EntryRole, EntryRow, ItemRow, LedgerRow, Row, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript.entries import load
from semel.ledger.transcript.views import ClaimDelivery
from semel.text.json_types import Json

FORMAT = "semel.session"
VERSION = 1
PAGE = 200
ENTRY_SEQ_FIELDS = ("of", "edited", "deleted")
"""Fields of an entry that hold the seq of another entry."""
LOCAL_FIELDS = ("imported", "item", "waiting", "decisions")
"""Fields of an entry that mean nothing in another ledger."""


class ExportedTurn(Row):
    """A turn to export. `root`: the epoch of its root."""

    id: int
    epoch: int
    root: int
    attempt: int
    chapter: int
    how: TurnHow | None
    state: TurnState
    tools: int
    stop: str | None
    error: str | None
    started: int
    ended: int | None


class ExportedEntry(Row):
    """An entry to export, with its event, claim and command. A column is NULL if the entry has no such row.

    `turn`, `bound`, `claim_turn`: the epochs of the turns of the entry, the event and the claim. `heard`: when the
    event was accepted (ms).
    """

    session: int
    seq: int
    base: int
    at: int
    role: EntryRole
    chapter: int
    text: str
    live: int
    partial: int
    superseded: int
    claim: int | None
    more: str | None
    turn: int | None
    event: int | None
    source: str | None
    key: str | None
    kind: str | None
    sender: str | None
    digest: bytes | None
    payload: str | None
    heard: int | None
    bound: int | None
    command: str | None
    argument: str | None
    result: str | None
    claim_how: ClaimHow | None
    claim_kind: ClaimKind | None
    late: int | None
    tool: str | None
    dest: str | None
    claim_digest: bytes | None
    claimed: str | None
    reason: str | None
    claim_at: int | None
    claim_turn: int | None


class ExportedClaim(Row):
    """A claim without an entry. `turn`: the epoch of its turn. `of`: the seq of the entry that this claim echoes."""

    turn: int
    how: ClaimHow
    kind: ClaimKind
    late: int
    tool: str | None
    dest: str | None
    digest: bytes | None
    text: str
    outcome: Outcome
    reason: str | None
    of: int | None
    at: int


@dataclass(frozen=True)
class ExportScope:
    """The range of one export: the session as it was when the export began.

    Entries up to `before` were deleted and are not exported. Records for `semel import` number the others from 1.
    `seq`, `epoch`: the last entry and the last turn to export. `chapter`: the first chapter to export.
    """

    session: int
    header: Json
    before: int
    seq: int
    epoch: int
    chapter: int


class ExportWriter:
    """Encode records as lines of UTF-8 JSON, and compute their digest.

    The last line, which `end()` returns, lets a reader check that the file is complete.
    """

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._entries = 0

    def format_line(self, record: Json) -> bytes:
        line = msgspec.json.encode(record) + b"\n"
        if record["line"] != "session":  # without the header, an export of the imported session has the same digest
            self._digest.update(line)
        self._entries += record["line"] == "entry"
        return line

    @property
    def digest(self) -> str:
        """The BLAKE2b-128 digest, in hex, of all lines so far but the header, which differs between ledgers."""
        return self._digest.hexdigest()

    def end(self) -> bytes:
        record = {"line": "end", "entries": self._entries, "digest": self.digest}
        return msgspec.json.encode(record) + b"\n"


def read_scope(tx: Tx, session: int) -> ExportScope:
    """Return the scope of an export that begins now, with its header."""
    row, ledger = tx.one(SessionRow, "session_by_id", id=session), tx.one(LedgerRow, "ledger_get")
    assert row is not None and ledger is not None
    since = int(tx.number("export_since", session=session) or 1)
    first = tx.value(int, "export_chapter", session=session, seq=row.erased + 1)
    header = {
        "line": "session", "format": FORMAT, "version": VERSION, "key": row.key, "agent": row.agent, "home": row.home,
        "title": row.title, "chapter": row.chapter, "since": max(1, since - row.erased),
        "entries": row.seq - row.erased, "turns": row.epoch, "at": row.at, "exported": tx.now, "ledger": ledger.name,
        "numbers": row.numbers,
    }  # fmt: skip
    return ExportScope(session, header, row.erased, row.seq, row.epoch, row.chapter if first is None else first)


def read_turns(tx: Tx, export: ExportScope, after: int) -> tuple[list[Json], int | None]:
    """Return a page of turn records, and the `after` for the next page (None if there is no next page)."""
    rows = _read_turn_rows(tx, export, after)
    return [_turn_record(row) for row in rows], rows[-1].epoch if len(rows) == PAGE else None


def _turn_record(row: ExportedTurn) -> Json:
    columns = asdict(row)
    del columns["id"]
    return {"line": "turn", "turn": columns.pop("epoch"), **columns}


def _read_turn_rows(tx: Tx, export: ExportScope, after: int) -> list[ExportedTurn]:
    return tx.all(
        ExportedTurn,
        "export_turns",
        session=export.session,
        after=after,
        upto=export.epoch,
        chapter=export.chapter,
        limit=PAGE,
    )


def read_entries(tx: Tx, export: ExportScope, after: int) -> tuple[list[Json], int | None]:
    """Return a page of entry records, and the `after` for the next page (None if there is no next page).

    They are numbered from 1, though entries were deleted before them.
    """
    return _read_entries(tx, export, after, export.before)


def _read_entries(tx: Tx, export: ExportScope, after: int, subtracted: int) -> tuple[list[Json], int | None]:
    """Read a page as `read_entries` does. `subtracted`: what to subtract from the session's own numbers."""
    rows = tx.all(
        ExportedEntry,
        "export_entries",
        session=export.session,
        after=max(after, export.before),
        upto=export.seq,
        limit=PAGE,
    )
    return [_entry_record(tx, export, row, subtracted) for row in rows], rows[-1].seq if len(rows) == PAGE else None


def read_entries_with_items(tx: Tx, export: ExportScope, after: int) -> tuple[list[Json], int | None]:
    """Read a page of entries with their own numbers, and the tool calls and permission requests between them.

    Documents for people use it: `semel why` takes these numbers. The record of an item is {"line": "item", "kind",
    "title"}. A tool call also has "status" and "exit"; a permission request has "state", "answer" (the option's name)
    and "by".
    """
    records, next_after = _read_entries(tx, export, after, 0)
    first = max(after, export.before)
    page = tx.all(EntryRow, "entries_last", session=export.session, before=first + len(records) + 1, limit=len(records))
    following = tx.one(EntryRow, "entry_get", session=export.session, seq=first + len(records) + 1)
    borns = [*(row.born for row in reversed(page)), following.born if following is not None else 1 << 62]
    lowest = borns[0] if after else 0
    items = tx.all(ItemRow, "items_between", session=export.session, lo=lowest, hi=borns[-1])
    mixed = [(row.born, _item_record(row)) for row in items if row.kind in ("tool", "permission")]
    mixed += zip(borns, records, strict=False)
    return [record for _, record in sorted(mixed, key=lambda pair: pair[0])], next_after


def _item_record(row: ItemRow) -> Json:
    body = load(row.body)
    out: Json = {"line": "item", "kind": row.kind, "title": str(body.get("title") or body.get("name") or "")}
    if row.kind == "tool":
        return {**out, "status": body.get("status"), "exit": body.get("exit")}
    names = {option.get("optionId"): option.get("name") for option in body.get("options", ())}
    answer = body.get("answer")
    return {**out, "state": body.get("state"), "answer": names.get(answer) or answer, "by": body.get("by")}


def read_unsaid_claims(tx: Tx, export: ExportScope, after: int) -> tuple[list[Json], int | None]:
    """Read one page of turns, those after the epoch `after`. Return their claims that have no entry.

    The second value is the `after` for the next page; None if there is no next page.
    """
    rows = _read_turn_rows(tx, export, after)
    records = [
        _unsaid_claim_record(claim, export.before)
        for row in rows
        if row.root == row.epoch
        for claim in tx.all(ExportedClaim, "export_unsaid", session=export.session, root=row.id)
        if claim.turn <= export.epoch and (claim.of is None or claim.of > export.before)
    ]
    return records, rows[-1].epoch if len(rows) == PAGE else None


def _entry_record(tx: Tx, export: ExportScope, row: ExportedEntry, subtracted: int) -> Json:
    more = load(row.more)
    imported = more.get("imported") or {}
    text = row.text
    if row.live:
        text += "".join(tx.values(str, "pieces_of_entry", session=row.session, seq=row.seq, after=row.base))
    seq = row.seq - subtracted
    out: Json = {"line": "entry", "seq": seq, "at": row.at, "role": row.role, "chapter": row.chapter, "text": text}
    marks = {"live": row.live, "partial": row.partial, "superseded": row.superseded}
    out.update({name: True for name, value in marks.items() if value})
    if row.turn is not None:
        out["turn"] = row.turn
    for name in ENTRY_SEQ_FIELDS:
        if subtracted and name in more:
            more[name] = max(0, more[name] - subtracted) or None
    if portable := {name: value for name, value in more.items() if name not in LOCAL_FIELDS and value is not None}:
        out["more"] = portable
    if row.event is not None:
        out["event"] = _event_record(row, text, imported, export.epoch)
    if row.claim is not None:
        out["claim"] = _claim_record(row, text)
        if delivery := imported.get("delivery") or _delivery_records(tx, row.claim):
            out["delivery"] = delivery
    return out


def _unsaid_claim_record(row: ExportedClaim, before: int) -> Json:
    out: Json = {"line": "claim", **asdict(row)}
    return {**out, "digest": _to_hex(row.digest), "late": bool(row.late), "of": row.of and row.of - before}


def _event_record(row: ExportedEntry, text: str, imported: Json, max_turn: int) -> Json:
    payload = load(row.payload) if row.payload is not None else None
    out: Json = {
        "source": row.source, "key": imported.get("key", row.key), "kind": row.kind, "sender": row.sender,
        "digest": _to_hex(row.digest), "at": row.heard,
        "turn": row.bound if row.bound is not None and row.bound <= max_turn else None,
    }  # fmt: skip
    if row.command is not None:
        out["command"] = {"name": row.command, "argument": row.argument, "result": row.result}
    if payload is not None:
        is_entry_text = payload.get("text") == text
        out["payload"] = {name: value for name, value in payload.items() if not (is_entry_text and name == "text")}
    return out


def _claim_record(row: ExportedEntry, text: str) -> Json:
    out: Json = {
        "turn": row.claim_turn, "how": row.claim_how, "kind": row.claim_kind, "late": bool(row.late), "tool": row.tool,
        "dest": row.dest, "digest": _to_hex(row.claim_digest), "reason": row.reason, "at": row.claim_at,
    }  # fmt: skip
    if row.claimed != text:
        out["text"] = row.claimed
    return out


def _delivery_records(tx: Tx, claim: int) -> list[Json]:
    deliveries = tx.all(ClaimDelivery, "delivery_of_claim", claim=claim)
    return [
        {
            "to": delivery.dest, "state": delivery.state, "parts": delivery.n,
            **({"failed": True} if delivery.failed else {}), **({"error": delivery.error} if delivery.error else {}),
        }
        for delivery in deliveries
    ]  # fmt: skip


def _to_hex(digest: bytes | None) -> str | None:
    return None if digest is None else bytes(digest).hex()
