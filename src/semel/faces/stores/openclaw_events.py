"""OpenClaw's transcript events as messages. The events are the same in its JSONL files and in its databases.

What OpenClaw itself has written more than once is collapsed: by identity (the event's id, an idempotency key, the run
whose end was reported), and by text only where one event names the place of the other (a mirror of what was delivered
in the same turn, a prompt that was tried again from the same parent).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from semel.faces.stores.files import parse_time
from semel.faces.stores.records import StoredMessage, StoreReport
from semel.text.json_types import Json
from semel.text.verbatim import verbatim_digest

SAME_EVENT = "events that were written twice"
SAME_KEY = "messages that were heard again under the same idempotency key"
SAME_COMPLETION = "completions that were reported again"
TRIED_AGAIN = "prompts that were tried again"
MIRROR = "mirrors of what was delivered"
ECHO = "answers that repeat what a tool had sent in the same turn"

SILENT_ANSWERS = frozenset({"NO_REPLY", "HEARTBEAT_OK"})
HEARTBEAT_PROMPTS = ("Read HEARTBEAT.md", "[OpenClaw heartbeat", "Run the following periodic tasks")
SYSTEM_MARKS = ("System: ", "System (untrusted): ", "[OpenClaw ")
CONTEXT = "openclaw.runtime-context"

_COMPLETION = re.compile(r"Exec finished \((?:[^)]*?[ ,])?id=([^,)\s]+)")
_SCHEDULE = re.compile(r"\[cron:\S+ [^\]]*\] ?")
_SCHEDULE_END = "\nCurrent time: "  # after it, OpenClaw tells the agent about the run
_MEDIA_NOTE = re.compile(
    r"\[media attached(?: \d+/\d+)?: (?:\d+ files|([^\n]*?)(?: \([^()\n]*\))?(?: \| [^\n]*)?)\]\n*"
)
_SENDER = re.compile(r'"sender": "((?:[^"\\]|\\.)*)"')
_LINE_TIME = re.compile(r"^(System(?: \(untrusted\))?: )\[[^\]]*\] ", re.M)


class TranscriptReader:
    """Reads the events of one transcript."""

    def __init__(self, session: str, report: StoreReport, names: dict[str, str]) -> None:
        """`session`: OpenClaw's id of the transcript. `names`: takes each sender's name, by account: `telegram:7`."""
        self.session = session
        self.report = report
        self.names = names
        self._resets = 0
        self._seen: set[int] = set()  # digests of identities
        self._turn_texts: set[bytes] = set()  # what the agent said in this turn
        self._sent_texts: set[bytes] = set()  # what its tools sent in this turn
        self._held: StoredMessage | None = None  # its sender may be named by the event that follows

    def read(self, events: Iterable[tuple[str, Json]]) -> Iterator[StoredMessage]:
        """Yield the messages of the events: pairs (place, event)."""
        for place, event in events:
            kind, held = event.get("type"), self._held
            if held is not None:
                self._held = None
                yield _name_sender(held, event)
            if kind == "message" and isinstance(event.get("message"), dict):
                message = self._read_message(place, event, event["message"])
                if message is not None and message.role == "user":
                    self._held = message
                elif message is not None:
                    yield message
            elif kind == "reset":
                self._resets += 1
            elif kind in ("compaction", "branch_summary"):
                self.report.left_out["summaries of compaction"] += 1
            elif kind == "custom_message" and event.get("customType") != CONTEXT:
                self.report.left_out["texts of plugins"] += 1
            elif kind is None or kind == "message":
                self.report.name_unread(place, "it is no event")
            elif kind not in ("session", "custom_message"):
                self.report.left_out["marks of models, settings and plugins"] += 1
        if self._held is not None:
            yield self._held
            self._held = None

    def _read_message(self, place: str, event: Json, message: Json) -> StoredMessage | None:
        event_id = str(event.get("id") or place.rpartition(":")[2])
        if self._was_seen("event", event_id):
            self.report.collapsed[SAME_EVENT] += 1
            return None
        text, files = self._read_content(message.get("content"))
        text, attached = _cut_media_notes(text) if message.get("role") == "user" else (text, ())
        files = _media_names(message) or attached or files
        stored = StoredMessage(
            id=f"{self.session}/{event_id}", role="user", text=text,
            at=parse_time(message.get("timestamp")) or parse_time(event.get("timestamp")) or 0,
            stretch=f"{self.session}#{self._resets}", files=files,
        )  # fmt: skip
        match message.get("role"):
            case "user":
                return self._read_user(stored, event, message)
            case "assistant":
                return self._read_answer(stored, message)
            case "toolResult":
                self.report.left_out["tool results"] += 1
            case role:
                self.report.left_out[f"entries of the role {role}"] += 1
        return None

    def _read_content(self, content: Any) -> tuple[str, tuple[str, ...]]:
        if isinstance(content, str):
            return content.strip(), ()
        texts, files = [], []
        for block in content if isinstance(content, list) else []:
            match block.get("type") if isinstance(block, dict) else None:
                case "text":
                    texts.append(str(block.get("text") or ""))
                case "toolCall":
                    self.report.left_out["tool calls"] += 1
                case "thinking":
                    self.report.left_out["thoughts"] += 1
                case None:
                    pass
                case kind:
                    files.append(str(block.get("name") or block.get("fileName") or kind))
        return "\n".join(texts).strip(), tuple(files)

    def _read_user(self, stored: StoredMessage, event: Json, message: Json) -> StoredMessage | None:
        about = message.get("__openclaw")
        sender = about.get("senderName") or about.get("senderId") if isinstance(about, dict) else None
        key, parent = message.get("idempotencyKey"), event.get("parentId")
        if not stored.text and not stored.files:
            self.report.left_out["empty prompts"] += 1
            return None
        if stored.text.startswith(HEARTBEAT_PROMPTS):
            self.report.left_out["heartbeats"] += 1
            return None
        if key and self._was_seen("key", str(key)):
            self.report.collapsed[SAME_KEY] += 1
            return None
        runs = _COMPLETION.findall(stored.text)
        if runs and self._was_seen("completion", *runs, _LINE_TIME.sub(r"\1", stored.text)):
            self.report.collapsed[SAME_COMPLETION] += 1
            return None
        if self._was_seen("prompt", str(parent), stored.text):
            self.report.collapsed[TRIED_AGAIN] += 1
            return None
        self._turn_texts.clear()
        self._sent_texts.clear()
        origin = message.get("provenance")
        origin = origin if isinstance(origin, dict) else {}
        if runs or (origin.get("kind"), origin.get("sourceTool")) == ("internal_system", "exec"):
            return replace(stored, role="event", kind="exec.finished")
        if schedule := _SCHEDULE.match(stored.text):
            asked = stored.text[schedule.end() :].partition(_SCHEDULE_END)[0]
            return replace(stored, role="event", kind="schedule", text=asked or stored.text)
        if origin.get("kind") in ("internal_system", "inter_session"):
            return replace(stored, role="event", kind="report")
        if stored.text.startswith(SYSTEM_MARKS):
            return replace(stored, role="event", kind="report")
        if isinstance(about, dict) and isinstance(about.get("transport"), dict) and about.get("senderName"):
            self.names[f"{about['transport'].get('channel')}:{about.get('senderId')}"] = str(about["senderName"])
        return replace(stored, sender=str(sender) if sender else None)

    def _read_answer(self, stored: StoredMessage, message: Json) -> StoredMessage | None:
        if message.get("stopReason") == "error":
            self.report.left_out["failed model calls"] += 1
        if stored.text in SILENT_ANSWERS:
            self.report.left_out["silent answers (NO_REPLY, HEARTBEAT_OK)"] += 1
            return None
        if not stored.text and not stored.files:
            return None  # tool calls or thoughts alone
        digest = verbatim_digest(stored.text)
        is_mirror = message.get("provider") == "openclaw" and message.get("model") == "delivery-mirror"
        if is_mirror and digest in self._turn_texts:
            self.report.collapsed[MIRROR] += 1
            return None
        if not is_mirror and digest in self._sent_texts:
            self.report.collapsed[ECHO] += 1
            return None
        (self._sent_texts if is_mirror else self._turn_texts).add(digest)
        return replace(stored, role="agent")

    def _was_seen(self, *identity: str) -> bool:
        """Return whether this identity was met before in the transcript, and remember it."""
        number = int.from_bytes(hashlib.blake2b("\0".join(identity).encode(errors="replace"), digest_size=8).digest())
        if number in self._seen:
            return True
        self._seen.add(number)
        return False


def _cut_media_notes(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without the notes about files that OpenClaw wrote before it until 2026.7, and the files' names."""
    names = []
    while note := _MEDIA_NOTE.match(text):
        if note[1]:
            names.append(note[1].rpartition("/")[2])
        text = text[note.end() :]
    return text, tuple(names)


def _media_names(message: Json) -> tuple[str, ...]:
    """Return the names of the files that came with a message, beside its content."""
    about = message.get("__openclaw")
    media = about.get("media") if isinstance(about, dict) else None
    paths = [file.get("path") or file.get("url") for file in media or () if isinstance(file, dict)]
    return tuple(str(path).rpartition("/")[2] or "file" for path in paths if path)


def _name_sender(message: StoredMessage, following: Json) -> StoredMessage:
    """Return the message with the sender that the event after it names, as OpenClaw wrote it before it had a field."""
    if message.sender or following.get("customType") != CONTEXT:
        return message
    match = _SENDER.search(str(following.get("content")))
    return replace(message, sender=match[1]) if match else message
