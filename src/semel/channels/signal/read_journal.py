"""Read the journal on from a cursor: hand answers over, and put events into the inbox.

Events and the position behind them are put in one transaction (Law 1). An answer for which nobody waits any more,
because it came late or to a gateway that was killed, settles its part by an echo, if it says that the message was sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.channels.signal.address import SELF, EditedMessages, OwnAccount
from semel.channels.signal.downloads import SignalFetcher
from semel.channels.signal.journal import Journal, JournalLine, JournalPosition
from semel.channels.signal.parse import SignalDraft, make_unreadable, parse_received, read_received_time
from semel.channels.signal.process import SignalCli, SignalReply, make_request_id
from semel.channels.signal.receipts import read_time, was_delivered
from semel.gateway.ports import Inbox, Incoming, Op
from semel.text.json_types import Json, object_at

MAX_UNSAVED_BYTES = 200_000
"""How far the saved position may be behind, if what was read holds no events."""
CALL_WORD = "part"


def make_call_id(op: Op) -> str:
    """Return an id for a request that sends a part. It names the part and is different for each attempt."""
    return make_request_id(CALL_WORD, op.kind, op.key)


def _find_sent_part(call_id: str) -> str | None:
    """Return the key of the part that a request was to send as a new message; None for other requests."""
    words = call_id.split(" ")
    return words[2] if len(words) == 4 and words[0] == CALL_WORD and words[1] in ("post", "file") else None


@dataclass
class SignalCursor:
    """Where the journal was read to, since when messages count, and the newest edits. Stored as JSON.

    `since`: when the account was first used here, in ms; older messages are not reported.
    """

    position: JournalPosition
    since: int = 0
    edits: dict[str, str] = field(default_factory=dict)  # the id of an edit -> the id of the message

    @classmethod
    def load(cls, text: str) -> SignalCursor:
        """Parse the result of `dump`. If it is malformed, the whole journal is read again."""
        try:
            data: Any = json.loads(text)
            edits = {str(edit): str(message) for edit, message in data.get("edits", {}).items()}
            position = JournalPosition(int(data["file"]), int(data["at"]))
            return cls(position, int(data.get("since", 0)), edits)
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls(JournalPosition(0, 0))

    def dump(self) -> str:
        """Return the cursor as text, which `load` reads."""
        data = {"file": self.position.file, "at": self.position.offset, "since": self.since, "edits": self.edits}
        return json.dumps(data, separators=(",", ":"))


@dataclass
class JournalReader:
    """Reads the journal for one run of signal-cli. `began_at`: from where on that run writes."""

    journal: Journal
    cli: SignalCli
    fetcher: SignalFetcher
    edits: EditedMessages
    own: OwnAccount
    inbox: Inbox
    cursor: SignalCursor
    began_at: JournalPosition
    was_of_use: bool = False  # this run of signal-cli has sent or received something

    def __post_init__(self) -> None:
        self._saved = self.cursor.position
        self._first_file = 0  # files with lower numbers were removed

    async def read_on(self) -> bool:
        """Read what the journal has. Returns whether there was something. Raises what the inbox raises."""
        lines = await self._read_lines()
        if not lines:
            return False
        drafts: list[SignalDraft] = []
        for line in lines:
            drafts += self._parse_line(line)
        self.cursor.position = lines[-1].after
        if drafts or self._is_far_behind():
            self.cursor.edits = dict(self.edits.originals)
            await self.save(await self.fetcher.complete(drafts, self.inbox))
        return True

    async def save(self, events: Sequence[Incoming] = ()) -> None:
        """Put events with the position behind them, and remove what is not needed any more of the journal."""
        if events or self.cursor.position != self._saved:
            await self.inbox.put(events, self.cursor.dump())
            self._saved = self.cursor.position
            if self._first_file < self._saved.file:
                await asyncio.to_thread(self.journal.forget_before, self._saved)
                self._first_file = self._saved.file

    async def _read_lines(self) -> Sequence[JournalLine]:
        if not self.journal.is_grown(self.cursor.position) and self.cli.is_running:
            return ()
        return await asyncio.to_thread(self.journal.read_lines, self.cursor.position)

    def _is_far_behind(self) -> bool:
        position = self.cursor.position
        return position.file != self._saved.file or position.offset - self._saved.offset > MAX_UNSAVED_BYTES

    def _parse_line(self, line: JournalLine) -> list[SignalDraft]:
        if not line.text:
            return []
        message = parse_json(line)
        if message is None:
            return [make_unreadable(line.text, "signal-cli's output is not readable JSON")]
        if (answer := parse_answer(message)) is not None:
            id, reply = answer
            self._note_use(line, id.startswith(CALL_WORD))
            return [] if self.cli.resolve_request(id, reply) else _make_echo(id, reply)
        if message.get("method") != "receive":
            return []
        self._note_use(line, True)
        params = object_at(message, "params")
        if 0 < read_received_time(params) < self.cursor.since:
            return []
        return parse_received(params, self.own, self.edits)

    def _note_use(self, line: JournalLine, is_use: bool) -> None:
        self.was_of_use = self.was_of_use or (is_use and line.after > self.began_at)


def parse_json(line: JournalLine) -> Json | None:
    """Parse a line. Returns None if it is not a JSON object."""
    try:
        message = json.loads(line.text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def parse_answer(message: Json | None) -> tuple[str, SignalReply] | None:
    """Parse an answer to a request. Returns (the request's id, the answer); None for any other message."""
    if message is None or not isinstance(message.get("id"), str) or "method" in message:
        return None
    if "error" not in message:
        return message["id"], SignalReply(message.get("result"))
    error = object_at(message, "error")
    code = error.get("code")
    text = str(error.get("message") or "no reason given")[:500]
    return message["id"], SignalReply(None, code if isinstance(code, int) else 0, text, object_at(error, "data"))


def _make_echo(id: str, reply: SignalReply) -> list[SignalDraft]:
    """Return the event by which an answer that nobody waits for settles its part."""
    key, sent_at = _find_sent_part(id), read_time(reply)
    if key is None or sent_at is None or not was_delivered(reply):
        return []
    return [SignalDraft(Incoming("echo", key, of=f"{SELF}/{sent_at}"))]
