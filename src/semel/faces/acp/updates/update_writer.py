"""Write fold operations as ACP v1 `session/update` messages for one editor: pure code, without a clock or I/O.

The editor gets each message once, in chunks that add up to the fold's text. ACP v1 cannot take a text back. So a text
that may be a repeated start of an earlier message (`acp_stream.messages`) is withheld while it equals the text that the
editor has. If it proves to be one, only its new text is written, under the id of the failed start. Otherwise, the whole
text is written. Single lines are written by `line_writer`, tool calls by `call_writer`.

A line of the agent is passed on unchanged if it says exactly what the operations say.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from semel.acp_stream import Began, Changed, Ended, Grew, Op, Profile
from semel.acp_stream.redelivery import TextCursor
from semel.faces.acp.editor_profiles import EditorProfile
from semel.faces.acp.updates.call_writer import CallWriter
from semel.faces.acp.updates.line_writer import (
    AGENT,
    BEGAN_AGAIN_REMARK,
    CHUNKS,
    THOUGHT,
    USER,
    LineWriter,
    ShownText,
    quote_text,
)

MAX_ENDED_WITHHELD = 8  # messages that are withheld as a whole; no agent was seen to begin a message more often


class Source(NamedTuple):
    """What the agent sent: the `update` object, and the line with it, which ends with a newline."""

    update: Mapping[str, Any]
    line: bytes


NO_SOURCE = Source({}, b"")


class StreamedText(ShownText):
    """A message or thought that streams in. `pieces`: the texts that were written to the editor."""

    __slots__ = ("cursor", "earlier", "is_superseded", "pieces", "size", "withheld")

    def __init__(self, chunk: str, message_id: str, earlier: StreamedText | None) -> None:
        super().__init__(chunk, message_id)
        self.earlier = earlier  # the message that this one may be a repeated start of
        self.pieces: list[str] = []
        self.size = 0  # characters in `pieces`
        self.withheld: list[str] = []
        self.cursor: TextCursor | None = None  # compares the withheld text with the earlier one
        self.is_superseded = False

    def __repr__(self) -> str:
        return f"<StreamedText {self.message_id} {self.size} chars, {len(self.withheld)} chunks withheld>"

    def add(self, text: str) -> None:
        """Note that this text was written to the editor."""
        self.pieces.append(text)
        self.size += len(text)

    def begin_message(self, message_id: str) -> None:
        super().begin_message(message_id)
        self.pieces, self.size = [], 0

    def continue_text(self, earlier: StreamedText) -> None:
        """Write what follows as a continuation of an earlier text."""
        self.message_id, self.head = earlier.message_id, earlier.head
        self.pieces, self.size = earlier.pieces, earlier.size

    def withhold_if_repeat(self, text: str, earlier: StreamedText, size: int) -> bool:
        """Withhold this message if `text` may repeat `size` characters of `earlier`. Return whether it is withheld."""
        cursor = TextCursor(earlier.pieces, size)
        if size and cursor.feed(text):
            self.cursor = cursor
            self.withheld.append(text)
            return True
        return False


class UpdateWriter:
    """Writes one session's operations for one editor. Each method returns whole lines, in order.

    `id_prefix`: begins the message ids that the writer makes; no other writer of the session may ever use it.
    `terminals`: the ids of the terminals that the editor has, kept up to date by the caller.
    """

    def __init__(
        self, session: str, editor_profile: EditorProfile, agent_profile: Profile, id_prefix: str, terminals: set[str]
    ) -> None:
        self._editor_profile = editor_profile
        # A message may be a repeated start of the one before it, under another id.
        self._repeats_starts = agent_profile.retry != "continue" and not agent_profile.exact
        # A repeated start may stand within a message, behind the text of the failed start.
        self._restarts_inside = agent_profile.retry == "whole"
        self._lines = LineWriter(session, editor_profile)
        self._id_prefix = id_prefix
        self._ids: set[str] = set()
        self._texts: dict[int, StreamedText] = {}  # the texts of this turn, by the fold's item
        self._latest: dict[str, StreamedText | None] = {}  # by chunk: the message that a repeated start would repeat
        self._withheld: list[StreamedText] = []  # texts of which something is withheld
        self._ended_withheld: list[StreamedText] = []  # those of them that have ended
        self._quoted: set[int] = set()  # user messages that are written as text of the agent
        self._has_noticed = False  # a notice was written since the latest text
        self.calls = CallWriter(editor_profile, agent_profile, terminals)

    def __repr__(self) -> str:
        return f"<UpdateWriter for {self._editor_profile.name}: {len(self._texts)} texts, {self.calls!r}>"

    def write(
        self, ops: list[Op], update: Mapping[str, Any] | None = None, line: bytes = b"", now: float = 0.0
    ) -> list[bytes]:
        """Return the lines for these operations.

        `update`: the agent's update that caused them, if one did. `line`: the agent's whole line with that update, and
        its newline. `now`: a monotonic time, in seconds.
        """
        if update is not None and len(ops) == 1 and type(op := ops[0]) is Grew:
            shown = self._texts.get(op.id)
            if shown is None:
                passes = self.calls.pass_delta(op, update, now)
                if passes is not None:
                    self._lines.last_text = None
                    return [line] if passes else []
            elif shown is self._lines.last_text and shown.cursor is None and not self._restarts_inside:
                return self._add_text(shown, op.text, update, line)
        source = Source(update, line) if update is not None else None
        lines: list[bytes] = []
        for op in ops:
            self._apply_op(op, source, lines)
        self._settle_withheld(lines)
        self._write_calls(source, now, lines)
        return lines

    def _write_calls(self, source: Source | None, now: float, lines: list[bytes]) -> None:
        updates = self.calls.pop_updates(source.update if source is not None else None, now)
        if self.calls.has_started:
            self._latest.clear()  # no retry undoes a call, so no later text is a repeated start of an earlier one
        if updates:
            self._release_ended(lines)
            self._lines.last_text = None
        for update in updates:
            passes = source is not None and update is source.update
            lines.append(source.line if passes and source is not None else self._lines.format_update(update))

    def end_turn(self) -> list[bytes]:
        """Return the lines with all withheld text and output, because the turn has ended. Forget its texts."""
        lines: list[bytes] = []
        for shown in self._withheld[:]:
            self._release_text(shown, lines)
        self._release_ended(lines)
        lines += self.flush(inf)
        self._latest.clear()
        self._lines.last_text = None
        self._texts.clear()
        self._withheld.clear()
        self._quoted.clear()
        return lines

    def flush(self, now: float) -> list[bytes]:
        """Return the lines with the output of tool calls that is due at `now` (`calls.due_at`)."""
        return [self._lines.format_update(update) for update in self.calls.pop_due_updates(now)]

    # ---- operations

    def _apply_op(self, op: Op, source: Source | None, lines: list[bytes]) -> None:
        shown = self._texts.get(op.id)
        match op:
            case Began(item, "message" | "thought", fields):
                self._begin_text(item, op.kind, fields)
            case Began(_, "notice", fields):
                self._write_notice(fields, lines)
            case Grew(_, text) if shown is not None:
                self._extend_text(shown, op.id, text, source, lines)
            case Changed(_, fields) if shown is not None:
                self._change_text(shown, fields, source, lines)
            case Ended() if shown is not None:
                self._end_text(shown, lines)
            case _:
                self.calls.apply_op(op)

    def _begin_text(self, item: int, kind: str, fields: Mapping[str, Any]) -> None:
        chunk = THOUGHT if kind == "thought" else USER if fields.get("role") == "user" else AGENT
        if chunk is USER and self._editor_profile.drops_user_text and not fields.get("history"):
            chunk = AGENT
            self._quoted.add(item)
        may_repeat = self._repeats_starts and chunk is not USER and item not in self._quoted
        earlier = self._latest.get(chunk) if may_repeat and not fields.get("history") else None
        self._texts[item] = StreamedText(chunk, self._choose_message_id(fields.get("message_id")), earlier)

    def _choose_message_id(self, message_id: object) -> str:
        """Return the message's id from the agent. If there is none, or another message has it, return a new id."""
        if not isinstance(message_id, str) or message_id in self._ids:
            message_id = f"{self._id_prefix}{len(self._ids)}"
        self._ids.add(message_id)
        return message_id

    def _extend_text(
        self, shown: StreamedText, item: int, text: str, source: Source | None, lines: list[bytes]
    ) -> None:
        if item in self._quoted:
            text = quote_text(text, is_start=not shown.size)
        if shown.cursor is not None:
            shown.withheld.append(text)
            if not shown.cursor.feed(text):
                self._release_text(shown, lines)
            return
        earlier = shown.earlier
        if not shown.size and earlier is not None and shown.withhold_if_repeat(text, earlier, earlier.size):
            self._withheld.append(shown)
            return
        restarts = self._restarts_inside and shown.size and shown.size > len(shown.pieces[0])
        if restarts and shown.withhold_if_repeat(text, shown, shown.size):
            self._withheld.append(shown)
            return
        self._forget_earlier(shown, lines)
        lines += self._append_text(shown, text, source)

    def _change_text(
        self, shown: StreamedText, fields: Mapping[str, Any], source: Source | None, lines: list[bytes]
    ) -> None:
        if fields.get("superseded"):
            shown.is_superseded = True
        if "content" in fields and source is not None and source.update.get("sessionUpdate") in CHUNKS:
            self._release_text(shown, lines)
            lines.append(self._address_chunk(shown, source))
            self._lines.last_text = shown
        if "text" in fields:
            self._replace_text(shown, str(fields["text"] or ""), lines)

    def _replace_text(self, shown: StreamedText, text: str, lines: list[bytes]) -> None:
        """Write what is new in `text`, the message's whole text.

        If it differs from the text that the editor has, it is written whole, as another message.
        """
        written = "".join(shown.pieces)
        shown.withheld, shown.cursor = [], None
        if text.startswith(written):
            lines += self._append_text(shown, text[len(written) :]) if len(text) > len(written) else []
        elif not written.startswith(text):
            shown.begin_message(self._choose_message_id(None))
            lines += self._write_remark() + self._append_text(shown, text)

    def _end_text(self, shown: StreamedText, lines: list[bytes]) -> None:
        if shown.cursor is not None and shown.earlier is not None and not shown.size:
            self._ended_withheld.append(shown)  # it is shorter than the one before it
            if len(self._ended_withheld) > MAX_ENDED_WITHHELD:
                self._release_ended(lines)
        else:
            self._release_text(shown, lines)

    # ---- repeated starts

    def _settle_withheld(self, lines: list[bytes]) -> None:
        """Decide whether withheld texts are repeated starts, once all operations of an update are applied.

        A message that superseded an earlier one continues it. A message that proved to be none is written.
        """
        if not self._withheld:
            return
        self._ended_withheld = [shown for shown in self._ended_withheld if not shown.is_superseded]
        for shown in self._withheld[:]:
            if shown.cursor is None or shown.cursor.remaining:
                continue
            earlier = shown.earlier
            size = sum(map(len, shown.withheld))
            if earlier is not None and not shown.size and earlier.is_superseded:
                self._continue_text(shown, earlier, lines)
            elif earlier is None or shown.size or size > earlier.size:
                self._release_text(shown, lines)
        self._withheld = [shown for shown in self._withheld if shown.cursor is not None and not shown.is_superseded]

    def _continue_text(self, shown: StreamedText, earlier: StreamedText, lines: list[bytes]) -> None:
        """Write the new text of a message that repeats the failed start `earlier`, under its message id."""
        text = "".join(shown.withheld)[earlier.size :]
        shown.continue_text(earlier)
        shown.withheld, shown.cursor, shown.earlier = [], None, None
        self._latest[shown.chunk] = shown
        if self._lines.last_text is earlier:
            self._lines.last_text = shown
        lines += self._append_text(shown, text) if text else []

    def _release_text(self, shown: StreamedText, lines: list[bytes]) -> None:
        """Write the text of a message that is withheld."""
        if shown.cursor is None:
            return
        text, shown.withheld, shown.cursor = "".join(shown.withheld), [], None
        self._forget_earlier(shown, lines)
        lines += self._append_text(shown, text)

    def _forget_earlier(self, shown: StreamedText, lines: list[bytes]) -> None:
        """Note that the message does not continue an earlier one. If the earlier one was discarded, tell the person."""
        earlier, shown.earlier = shown.earlier, None
        if earlier is None:
            return
        if shown in self._ended_withheld:
            self._ended_withheld.remove(shown)
        self._release_ended(lines)
        if earlier.is_superseded and shown.chunk is AGENT and not self._has_noticed:
            lines += self._write_remark()

    def _release_ended(self, lines: list[bytes]) -> None:
        texts, self._ended_withheld = self._ended_withheld, []
        for shown in texts:
            shown.earlier = None
            self._release_text(shown, lines)

    # ---- lines

    def _append_text(self, shown: StreamedText, text: str, source: Source | None = None) -> list[bytes]:
        """Return the lines that add `text` to a message, and before them the lines of texts that wait."""
        lines: list[bytes] = []
        if self._lines.last_text is not shown:
            self._release_ended(lines)
            self._latest[shown.chunk] = shown
            self._has_noticed = False
        return lines + self._add_text(shown, text, *(source or NO_SOURCE))

    def _add_text(self, shown: StreamedText, text: str, update: Mapping[str, Any], line: bytes) -> list[bytes]:
        """Return the lines that add `text` to a message: the agent's line if its update says exactly that."""
        shown.add(text)
        if (
            update.get("messageId") == shown.message_id
            and update.get("sessionUpdate") == shown.chunk
            and type(content := update.get("content")) is dict
            and content.get("text") == text
            and not self._lines.needs_empty_line(shown)
        ):
            self._lines.last_text = shown
            return [line]
        return self._lines.write_text(shown, text)

    def _address_chunk(self, shown: StreamedText, source: Source) -> bytes:
        """Return the line for an attachment: the agent's chunk, with the id of its message in place of its own."""
        if source.update.get("messageId") == shown.message_id:
            return source.line
        return self._lines.format_update({**source.update, "messageId": shown.message_id})

    def _write_notice(self, fields: Mapping[str, Any], lines: list[bytes]) -> None:
        text = str(fields.get("text") or "")
        if text:
            lines += self._format_notice(text, bool(fields.get("history")))

    def _write_remark(self) -> list[bytes]:
        return self._format_notice(BEGAN_AGAIN_REMARK)

    def _format_notice(self, text: str, is_history: bool = False) -> list[bytes]:
        self._has_noticed = True
        if (line := self._lines.format_notice(text, is_history)) is not None:
            return [line]
        shown = StreamedText(AGENT, self._choose_message_id(None), None)
        latest = self._latest.get(AGENT)
        lines = self._append_text(shown, text)
        self._latest[AGENT] = latest  # no later text is a repeated start of a notice
        self._has_noticed = True
        return lines
