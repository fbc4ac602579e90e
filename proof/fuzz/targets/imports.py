"""Import files: what `semel export` wrote, changed in any way.

A file that passes cannot break a book, is exported again as it was, and can be written as a document in every format;
one that does not is refused with its line, and nothing of it is there.
"""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import Source, plain
from semel.faces.documents import FORMATS
from semel.gateway.api.archive import ArchiveApi
from semel.gateway.errors import BadRequest, Conflict
from semel.gateway.file_store import FileStore
from semel.gateway.files import FolderFiles
from semel.law.identity import digest_fields
from semel.ledger.admin.books import audit
from semel.ledger.admin.export import ExportWriter
from semel.ledger.transcript import views
from semel.text.verbatim import verbatim_digest

AT = 1_790_000_000_000
_HEX = digest_fields({"text": "hello"}).hex()


def _claim(text: str) -> Any:
    return {
        "turn": 1, "how": "block", "kind": "text", "late": False, "tool": None, "dest": "web:s",
        "digest": verbatim_digest(text).hex(), "reason": None, "at": AT,
    }  # fmt: skip


RECORDS: list[Any] = [
    {"line": "session", "format": "semel.session", "version": 1, "key": "demo:s", "agent": "demo", "home": "web:s",
     "title": "A title", "chapter": 2, "since": 1, "entries": 4, "turns": 2, "at": AT, "exported": AT,
     "ledger": "0" * 16},
    {"line": "turn", "turn": 1, "root": 1, "attempt": 1, "chapter": 1, "how": "start", "state": "done", "tools": 1,
     "stop": "end_turn", "error": None, "started": AT, "ended": AT + 1},
    {"line": "turn", "turn": 2, "root": 2, "attempt": 1, "chapter": 2, "how": "start", "state": "lost", "tools": 0,
     "stop": None, "error": "died", "started": AT, "ended": None},
    {"line": "entry", "seq": 1, "at": AT, "role": "user", "chapter": 1, "text": "hello", "event": {
     "source": "api:s", "key": "k1", "kind": "message", "sender": "ann", "digest": _HEX, "at": AT, "turn": 1,
     "payload": {"data": {"n": 1}}}, "more": {"sender": "Ann", "files": [{"name": "a.txt", "missing": "gone"}]}},
    {"line": "entry", "seq": 2, "at": AT, "role": "agent", "chapter": 1, "text": "**done**", "turn": 1,
     "claim": _claim("**done**"), "delivery": [{"to": "t:1", "state": "sent", "parts": 2}]},
    {"line": "entry", "seq": 3, "at": AT, "role": "user", "chapter": 1, "text": "/new", "event": {
     "source": "web", "key": None, "kind": "command", "sender": None, "digest": _HEX, "at": AT, "turn": None,
     "command": {"name": "new", "argument": "", "result": "ok"}}, "more": {"kind": "command"}},
    {"line": "entry", "seq": 4, "at": AT, "role": "notice", "chapter": 2, "text": "a notice", "more": {"of": 2}},
    {"line": "claim", "turn": 1, "how": "block", "kind": "text", "late": False, "tool": None, "dest": "web:s",
     "digest": _HEX, "text": "**done**", "outcome": "echo", "reason": None, "of": 2, "at": AT},
]  # fmt: skip
_house = House()


class _Shelf(ArchiveApi):
    """The archive half of a gateway, over a ledger in memory."""

    def __init__(self) -> None:
        self.inbox = _house.inbox._inbox
        self.record, self.settings = _house.record, self.inbox.settings
        self.file_store = FileStore(FolderFiles(Path("/nowhere")))
        self._importing = asyncio.Lock()


def one(data: bytes) -> None:
    source = Source(data)
    _house.fresh()
    whole = _file(source)
    key = f"demo:import-{_house.inbox._channel}"
    try:
        done = _house.run(_Shelf().import_session(io.BytesIO(whole), key))
    except (BadRequest, Conflict) as no:
        _house.holds = bool(str(no))
        assert _house.store.read_sync(views.find_session, key) is None, "half of a refused file is there"
        return
    assert done["status"] == "imported"
    assert all(book.ok for book in _house.store.read_sync(audit)), "the books do not balance"
    records = _house.run(_exported(key))
    again = _house.run(_Shelf().import_session(io.BytesIO(whole), key))
    assert again["status"] == "known", "the same file once more is another session"
    for name, document in FORMATS.items():
        made = document()
        told = b"".join(made.page([record]) for record in records) + made.end()
        assert told or name == "md"
    _same(whole, records)
    _house.holds = True


async def _exported(key: str) -> list[Any]:
    return [record async for page in _Shelf().export(key) for record in page]


def _same(whole: bytes, records: list[Any]) -> None:
    """Texts, roles and order come back as they were, and what comes out can be imported."""
    given = [json.loads(line) for line in whole.splitlines() if line.strip()]
    texts = [(r["role"], r["text"]) for r in given if r.get("line") == "entry"]
    assert [(r["role"], r["text"]) for r in records if r["line"] == "entry"] == texts
    writer = ExportWriter()
    lines = b"".join([*map(writer.format_line, records), writer.end()])
    other = f"demo:again-{_house.inbox._channel}"
    done = _house.run(_Shelf().import_session(io.BytesIO(lines), other))
    assert done["status"] == "imported", "what was exported cannot be imported"


def _file(source: Source) -> bytes:
    how = source.number(6)
    if how == 5:
        return source.rest()
    records = source.mutated(RECORDS, 3)
    writer, lines = ExportWriter(), []
    for record in records if isinstance(records, list) else [records]:
        line = plain(record) + b"\n"
        if not (isinstance(record, dict) and record.get("line") == "session"):
            writer._digest.update(line)
        writer._entries += isinstance(record, dict) and record.get("line") == "entry"
        lines.append(line)
    end = writer.end() if how else plain(source.mutated({"line": "end", "entries": 4, "digest": writer.digest}))
    return b"".join(lines) + end


SEEDS = [
    b"\x01\x00",
    b"\x00\x00",
    b"\x05" + b"\n".join(map(plain, RECORDS)),
    b"\x05{}\n",
    b"\x05" + b"[" * 200,
    *(bytes([1, 1, n, 0, k, n]) for n in range(0, 110, 3) for k in (0, 4, 8)),
]
