"""Turns of others, in an editor that draws a turn that it did not begin (agent-shell's `session/push`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from semel.faces.acp.connection.request_errors import METHOD_NOT_FOUND
from semel.faces.acp.session.turn_ends import read_stop_reason
from semel.faces.acp.updates.row_writer import RowWriter
from semel.text.json_types import Json, object_at

if TYPE_CHECKING:
    from semel.faces.acp.connection.editor_port import Editor


class PushedTurns:
    """Announces the turns of other people in one session, one at a time, and says when each has ended.

    `show_refused`: called with an entry whose turn the editor does not draw, and which it lacks now.
    """

    def __init__(self, session: str, editor: Editor, writer: RowWriter, show_refused: Callable[[Json], None]) -> None:
        self._session = session
        self._editor = editor
        self._writer = writer
        self._show_refused = show_refused
        self._request: str | None = None  # the request by which the turn that runs is drawn
        self._seq = 0  # its entry
        self._refused: set[int] = set()  # the entries for which the editor refused that
        self._can_push = editor.profile.out_of_turn == "push"

    def __repr__(self) -> str:
        return f"<PushedTurns {self._session} {self._request}>"

    def begin_turn(self, row: Json, *, is_idle: bool) -> bool:
        """Announce another person's message as a turn; return whether this was done. `is_idle`: no turn runs.

        A command begins no turn, nor does a message that leaves the session idle.
        """
        if not self._can_push or row.get("role") != "user" or self._writer.has_begun(row):
            return False
        if self._request is not None or "ended" in row or row["seq"] in self._refused:
            return False
        if row.get("kind") == "command" or is_idle:
            return False
        text = {"type": "text", "text": row["text"]}
        self._seq = row["seq"]
        params = {"sessionId": self._session, "prompt": [text]}
        self._request = self._editor.ask("session/push", params, lambda answer: self._note_answer(row, answer))
        # agent-shell draws the message from an update, not from the request. If it refuses the turn because a prompt of
        # its own is open, it drops that update; whoever refuses gets a quotation.
        self._editor.write(self._writer.write_drawn_message(row))
        return True

    def _note_answer(self, row: Json, answer: Json) -> None:
        if "error" not in answer:
            return
        if self._seq == row["seq"]:
            self._request = None
        self._refused.add(row["seq"])
        self._can_push = object_at(answer, "error").get("code") != METHOD_NOT_FOUND
        self._writer.forget_row(row)
        self._show_refused(row)

    def end_turn(self, entries: Mapping[int, Json], *, is_idle: bool) -> None:
        """Say that the announced turn has ended, if it has. A message may join a turn without asking for one."""
        entry = entries.get(self._seq)
        if self._request is not None and (is_idle or entry is None or "ended" in entry):
            stop = read_stop_reason(object_at(entry or {}, "ended"))
            update = self._writer.format_update("session_push_end", stopReason=stop)
            self._editor.write([*self._writer.end_turn(), update])
            self._request = None

    def close(self) -> None:
        """Show nothing any more, because the editor opens the session again."""
        self._show_refused = _ignore_row  # it refers to whoever has these turns


def _ignore_row(row: Json) -> None:
    pass
