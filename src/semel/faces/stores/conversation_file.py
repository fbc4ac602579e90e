"""Write a conversation of another system as the file that `semel import` takes.

A turn begins with what asked for it, and has what the agent said until somebody else speaks. Lines of a conversation
that only grew equal those of the file before, so that the import adds what is new. Messages pass through files, so
memory use does not depend on their number.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import IO, Any

import msgspec

from semel.faces.stores.records import StoredConversation, StoredMessage, StoreReport
from semel.law.identity import KEY_LENGTH, digest_fields
from semel.ledger.admin.export import FORMAT, VERSION, ExportWriter
from semel.text.json_types import Json
from semel.text.verbatim import verbatim_digest
from semel.text.wellformed import one_line, scrub

MAX_TITLE_CHARS = 80
MAX_TIME_MS = 2**53
MAX_TEXT_BYTES = 4 << 20  # the file's lines hold a text at most twice, and are limited


@dataclass
class _Turn:
    number: int
    chapter: int
    started: int
    ended: int
    has_answer: bool = False


class ConversationFile:
    """One conversation as a file. `entries`, `turns`: how many it has. Use it in a `with`."""

    def __init__(self, conversation: StoredConversation, system: str, report: StoreReport) -> None:
        """Read the whole conversation. What it cannot take is named in `report`."""
        self.conversation = conversation
        self.system = system
        self.report = report
        self.entries = 0
        self.turns = 0
        self.chapter = 0
        self._since = 1
        self._first_at = 0
        self._stretch: str | None = None
        self._turn: _Turn | None = None
        self._resources = ExitStack()
        self._turn_lines = self._open_file()
        self._entry_lines = self._open_file()

    def __enter__(self) -> ConversationFile:
        try:
            for message in self.conversation.read_messages():
                self._add(message)
            self._end_turn()
        except BaseException:
            self._resources.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def write(self, file: IO[bytes]) -> None:
        """Write the file."""
        writer = ExportWriter()
        file.write(writer.format_line(self._make_header()))
        for lines in (self._turn_lines, self._entry_lines):
            lines.seek(0)
            file.writelines(writer.format_line(msgspec.json.decode(line)) for line in lines)
        file.write(writer.end())

    def _open_file(self) -> IO[bytes]:
        return self._resources.enter_context(tempfile.SpooledTemporaryFile(max_size=1 << 20))

    def _make_header(self) -> Json:
        title = one_line(str(self.conversation.title), MAX_TITLE_CHARS) if self.conversation.title else None
        return {
            "line": "session", "format": FORMAT, "version": VERSION, "key": self.conversation.key, "agent": "",
            "home": None, "title": title, "chapter": max(self.chapter, 1),
            "since": self._since, "entries": self.entries, "turns": self.turns, "at": self._first_at,
            "exported": self._first_at, "ledger": self.system, "numbers": 0, "origin": scrub(self.conversation.origin),
        }  # fmt: skip

    def _add(self, message: StoredMessage) -> None:
        text = scrub(message.text)
        message = replace(message, at=min(max(0, message.at), MAX_TIME_MS))
        if len(text.encode()) > MAX_TEXT_BYTES:
            self.report.name_unread(message.id, f"a message of more than {MAX_TEXT_BYTES:,} bytes")
            return
        if message.stretch != self._stretch:
            self._end_turn()
            self._stretch = message.stretch
            self.chapter += 1
            self._since = self.entries + 1
        self._first_at = self._first_at or message.at
        self._place_in_turn(message)
        self.entries += 1
        self._entry_lines.write(msgspec.json.encode(self._make_entry(message, text)) + b"\n")

    def _place_in_turn(self, message: StoredMessage) -> None:
        asks = message.role in ("user", "event")
        if self._turn is not None and asks and self._turn.has_answer:
            self._end_turn()
        if self._turn is None and message.role != "notice":
            self.turns += 1
            self._turn = _Turn(self.turns, self.chapter, message.at, message.at)
        if self._turn is not None:
            self._turn.ended = max(self._turn.ended, message.at)
            self._turn.has_answer |= message.role == "agent"

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        record = {
            "line": "turn", "turn": turn.number, "root": turn.number, "attempt": 1, "chapter": turn.chapter,
            "how": "start", "state": "done" if turn.has_answer else "cancelled", "tools": 0, "stop": None,
            "error": None, "started": turn.started, "ended": turn.ended,
        }  # fmt: skip
        self._turn_lines.write(msgspec.json.encode(record) + b"\n")

    def _make_entry(self, message: StoredMessage, text: str) -> Json:
        turn = None if self._turn is None else self._turn.number
        entry: Json = {
            "line": "entry", "seq": self.entries, "at": message.at, "role": message.role, "chapter": self.chapter,
            "text": text,
        }  # fmt: skip
        more = dict(_describe(message))
        if more:
            entry["more"] = more
        if message.role in ("user", "event"):
            return {**entry, "event": self._make_event(message, text, turn)}
        if message.role == "notice":
            return {**entry, "turn": turn}
        claim = {
            "turn": turn, "how": "block", "kind": "text", "late": False, "tool": None, "dest": "",
            "digest": verbatim_digest(text).hex(), "reason": None, "at": message.at,
        }  # fmt: skip
        entry |= {"turn": turn, "claim": claim}
        if message.undelivered is not None:
            state = {"to": self.conversation.key, "state": "rejected", "parts": 1, "failed": True}
            entry["delivery"] = [{**state, "error": scrub(message.undelivered)}]
        return entry

    def _make_event(self, message: StoredMessage, text: str, turn: int | None) -> Json:
        sender = scrub(message.sender) if message.sender else None
        return {
            "source": f"import:{self.system}", "key": scrub(message.id)[:KEY_LENGTH], "kind": message.kind,
            "sender": sender, "digest": digest_fields({"text": text, "sender": sender}).hex(), "at": message.at,
            "turn": turn, "payload": {},
        }  # fmt: skip


def _describe(message: StoredMessage) -> Iterator[tuple[str, Any]]:
    """Yield the entry's fields beside its text: (name, value)."""
    if message.sender:
        yield "sender", scrub(message.sender)
    if message.role == "event":
        yield "kind", message.kind
    if message.to:
        yield "to", scrub(message.to)
    if message.files:
        yield "files", [{"name": scrub(name), "missing": "it was not imported"} for name in message.files]
