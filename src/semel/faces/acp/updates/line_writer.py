"""Write single lines for an editor: a message's chunks, the empty line between joined messages, notices, quotations.

`row_writer` and `update_writer` decide what an editor lacks; how that is said is decided here, once for both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from semel.faces.acp.editor_profiles import EditorProfile

USER, AGENT, THOUGHT = "user_message_chunk", "agent_message_chunk", "agent_thought_chunk"
CHUNKS = (AGENT, THOUGHT, USER)
BEGAN_AGAIN_REMARK = "The agent began its answer again. What follows replaces its first attempt."
NOTICE_TITLE_CHARS = 120
MAX_PIECE_CHARS = 1_000_000  # of a text in one line: at most 6 MB of JSON, as some editors read no line above 8 MiB

encode_text = json.encoder.encode_basestring


class ShownText:
    """A message or thought, as far as the editor has it. `chunk`: the `sessionUpdate` of its chunks."""

    __slots__ = ("chunk", "head", "message_id")

    def __init__(self, chunk: str, message_id: str) -> None:
        self.chunk = chunk
        self.message_id = message_id
        self.head = b""  # the line up to the text, once it is known

    def begin_message(self, message_id: str) -> None:
        """Write what follows as another message, under this id."""
        self.message_id, self.head = message_id, b""


class LineWriter:
    """Writes the lines of one session for one editor, each with its newline.

    `last_text`: what the editor was sent last, if that was text. Whoever sends anything else sets it to None
    (`note_other`).
    `shows_only_messages`: whether the editor drops thoughts and tool calls now.
    """

    def __init__(self, session: str, editor_profile: EditorProfile) -> None:
        message = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%s,"update":'
        self._session = session
        self._before = message % dump_json(session)
        self._joins_messages = editor_profile.joins_messages
        self._takes_notices = editor_profile.takes_notices
        self.last_text: ShownText | None = None
        self.shows_only_messages = False

    def __repr__(self) -> str:
        return f"<LineWriter {self._session}>"

    def format_update(self, update: Mapping[str, Any]) -> bytes:
        """Return the line with a `session/update` message for `update`."""
        return b"%s%s}}\n" % (self._before, dump_json(update))

    def needs_empty_line(self, shown: ShownText) -> bool:
        """Whether the editor would join this message to the one that it was sent last."""
        last = self.last_text
        return self._joins_messages and last is not None and last is not shown and last.chunk == shown.chunk

    def note_other(self) -> None:
        """Note that the editor was sent something other than text."""
        if not self.shows_only_messages:
            self.last_text = None

    def write_text(self, shown: ShownText, text: str) -> list[bytes]:
        """Return the lines that add `text` to a message, and before it the empty line that the message may need."""
        if self.needs_empty_line(shown):
            text = f"\n\n{text}"
        if not (self.shows_only_messages and shown.chunk == THOUGHT):
            self.last_text = shown
        if len(text) <= MAX_PIECE_CHARS:
            return [self._format_chunk(shown, text)]
        pieces = (text[start : start + MAX_PIECE_CHARS] for start in range(0, len(text), MAX_PIECE_CHARS))
        return [self._format_chunk(shown, piece) for piece in pieces]

    def _format_chunk(self, shown: ShownText, text: str) -> bytes:
        if not shown.head:
            start = {"sessionUpdate": shown.chunk, "messageId": shown.message_id}
            shown.head = b'%s%s,"content":{"type":"text","text":' % (self._before, dump_json(start)[:-1])
        try:
            return b"%s%s}}}}\n" % (shown.head, encode_text(text).encode())
        except UnicodeEncodeError:  # half a surrogate pair
            return b"%s%s}}}}\n" % (shown.head, dump_json(text))

    def format_notice(self, text: str, is_history: bool = False) -> bytes | None:
        """Return the line with a notice. Return None if the editor shows none: then it is a message of the agent.

        `is_history`: it is part of a history that is loaded, of which notices are messages everywhere.
        """
        if not self._takes_notices or is_history:
            return None
        title, _, rest = text.partition("\n")
        update = {"sessionUpdate": "notice", "severity": "info", "title": title[:NOTICE_TITLE_CHARS]}
        rest = title[NOTICE_TITLE_CHARS:] + rest
        return self.format_update({**update, "description": rest} if rest else update)


def quote_text(text: str, is_start: bool = True) -> str:
    """Return a text as a quotation in Markdown. `is_start`: it is not the next piece of a line that is quoted."""
    return ("> " if is_start else "") + text.replace("\n", "\n> ")


def dump_json(value: object) -> bytes:
    """Return a value as JSON in UTF-8, without blanks. Half a surrogate pair stays an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
