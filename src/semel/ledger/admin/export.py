"""Export a session as records, read in pages, so that its length costs only time.

A header, the turns, the entries (each with its event or its claim), the claims without an entry, and an end with a
digest. Row ids of this ledger are not exported: a turn is numbered within its session, an entry by its seq.
docs/export.md describes the format.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript.entries import load

Json = dict[str, Any]

FORMAT = "semel.session"
VERSION = 1
PAGE = 200
ENTRY_SEQ_FIELDS = ("of", "edited", "deleted")
"""Fields of an entry that hold the seq of another entry."""
HERE_ONLY = ("imported", "item", "waiting")
"""Fields of an entry that have a meaning only in their own ledger."""


@dataclass(frozen=True)
class Scope:
    """What one export covers: the session as it was when the export began.

    Entries up to `before` were deleted. Later ones are numbered from 1; their chapters begin with `chapter`.
    """

    session: int
    header: Json
    before: int
    seq: int
    epoch: int
    chapter: int


class Writer:
    """Turns records into lines of UTF-8 JSON. `end` is the line that proves that the file is complete."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._entries = 0

    def line(self, record: Json) -> bytes:
        out = msgspec.json.encode(record) + b"\n"
        if record["line"] != "session":  # what is exported again from elsewhere has the same digest
            self._digest.update(out)
        self._entries += record["line"] == "entry"
        return out

    @property
    def digest(self) -> str:
        """Digest of every line so far except the header: it depends on what a session holds, not on where."""
        return self._digest.hexdigest()

    def end(self) -> bytes:
        told = {"line": "end", "entries": self._entries, "digest": self.digest}
        return msgspec.json.encode(told) + b"\n"


def scope(tx: Tx, session: int) -> Scope:
    """Where an export begins and ends."""
    row, ledger = tx.one("session_by_id", id=session), tx.one("ledger_get")
    assert row is not None and ledger is not None
    since = int(tx.value("export_since", session=session) or 1)
    first = tx.value("export_chapter", session=session, seq=row.erased + 1)
    header = {
        "line": "session", "format": FORMAT, "version": VERSION, "key": row.key, "agent": row.agent, "home": row.home,
        "title": row.title, "chapter": row.chapter, "since": max(1, since - row.erased),
        "entries": row.seq - row.erased, "turns": row.epoch, "at": row.at, "exported": tx.now, "ledger": ledger.name,
        "numbers": row.numbers,
    }  # fmt: skip
    return Scope(session, header, row.erased, row.seq, row.epoch, row.chapter if first is None else int(first))


def turns(tx: Tx, of: Scope, after: int) -> tuple[list[Json], int | None]:
    """A page of turns, and the position for the next page (None: that was the last)."""
    rows = _turns(tx, of, after)
    names = ("root", "attempt", "chapter", "how", "state", "tools", "stop", "error", "started", "ended")
    found = [{"line": "turn", "turn": r.epoch, **{name: getattr(r, name) for name in names}} for r in rows]
    return found, rows[-1].epoch if len(rows) == PAGE else None


def _turns(tx: Tx, of: Scope, after: int) -> list[Row]:
    return tx.all("export_turns", session=of.session, after=after, upto=of.epoch, chapter=of.chapter, limit=PAGE)


def entries(tx: Tx, of: Scope, after: int) -> tuple[list[Json], int | None]:
    """A page of entries."""
    rows = tx.all("export_entries", session=of.session, after=max(after, of.before), upto=of.seq, limit=PAGE)
    return [_entry(tx, of, r) for r in rows], rows[-1].seq if len(rows) == PAGE else None


def unsaid(tx: Tx, of: Scope, after: int) -> tuple[list[Json], int | None]:
    """The claims without an entry, for a page of turns."""
    rows = _turns(tx, of, after)
    found = [
        _unsaid(c, of.before)
        for r in rows
        if r.root == r.epoch
        for c in tx.all("export_unsaid", session=of.session, root=r.id)
        if c.turn <= of.epoch and (c.of is None or c.of > of.before)
    ]
    return found, rows[-1].epoch if len(rows) == PAGE else None


def _entry(tx: Tx, of: Scope, row: Row) -> Json:
    more = load(row.more)
    imported = more.get("imported") or {}
    text = row.text
    if row.live:
        text += "".join(p.text for p in tx.all("pieces_of_entry", session=row.session, seq=row.seq, after=row.base))
    seq = row.seq - of.before
    out: Json = {"line": "entry", "seq": seq, "at": row.at, "role": row.role, "chapter": row.chapter, "text": text}
    out.update({name: True for name in ("live", "partial", "superseded") if getattr(row, name)})
    if row.turn is not None:
        out["turn"] = row.turn
    for name in ENTRY_SEQ_FIELDS:
        if of.before and name in more:
            more[name] = max(0, more[name] - of.before) or None
    if kept := {name: value for name, value in more.items() if name not in HERE_ONLY and value is not None}:
        out["more"] = kept
    if row.event is not None:
        out["event"] = _event(row, text, imported, of.epoch)
    if row.claim is not None:
        out["claim"] = _claim(row, text)
        if delivery := imported.get("delivery") or _delivery(tx, row.claim):
            out["delivery"] = delivery
    return out


def _unsaid(row: Row, before: int) -> Json:
    out: Json = {"line": "claim", **dict(zip(row._fields, row, strict=True))}
    return {**out, "digest": _hex(row.digest), "late": bool(row.late), "of": row.of and row.of - before}


def _event(row: Row, text: str, imported: Json, upto: int) -> Json:
    payload = load(row.payload) if row.payload is not None else None
    out: Json = {
        "source": row.source, "key": imported.get("key", row.key), "kind": row.kind, "sender": row.sender,
        "digest": _hex(row.digest), "at": row.heard,
        "turn": row.bound if row.bound is not None and row.bound <= upto else None,
    }  # fmt: skip
    if row.command is not None:
        out["command"] = {"name": row.command, "argument": row.argument, "result": row.result}
    if payload is not None:
        same = payload.get("text") == text
        out["payload"] = {name: value for name, value in payload.items() if not (same and name == "text")}
    return out


def _claim(row: Row, text: str) -> Json:
    out: Json = {
        "turn": row.claim_turn, "how": row.claim_how, "kind": row.claim_kind, "late": bool(row.late), "tool": row.tool,
        "dest": row.dest, "digest": _hex(row.claim_digest), "reason": row.reason, "at": row.claim_at,
    }  # fmt: skip
    if row.claimed != text:
        out["text"] = row.claimed
    return out


def _delivery(tx: Tx, claim: int) -> list[Json]:
    found = tx.all("delivery_of_claim", claim=claim)
    return [
        {
            "to": p.dest, "state": p.state, "parts": p.n,
            **({"failed": True} if p.failed else {}), **({"error": p.error} if p.error else {}),
        }
        for p in found
    ]  # fmt: skip


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else bytes(digest).hex()
