"""Decide for each line between one editor and one agent whether it passes unchanged or is written anew.

Only five kinds of `session/update` are folded: chunks of messages, thoughts and user messages, `tool_call` and
`tool_call_update`. An `UpdateWriter` writes the result. Every other line passes unchanged, byte for byte and in order;
so do lines that are no JSON, and all lines if editor and agent agree on a version of ACP other than 1.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Any

from semel.acp_stream import ConnectionFolder, Limits
from semel.acp_stream.history import ROLES
from semel.acp_stream.wire import LOADING_METHODS
from semel.faces.acp.editor_profiles import UNMEASURED, read_editor_profile
from semel.faces.acp.updates.update_writer import UpdateWriter
from semel.text.json_types import Json, object_at, text_at

KEPT_CALLS = 64  # ended calls of earlier turns for which a late update is still known
MAX_WAITING_BYTES = (
    8 * 1024 * 1024
)  # of updates that wait for the editor's next prompt; beyond that, the oldest are sent
REPLAY_PAUSE_S = 0.5  # silence after which the last message of a replay that has no other end is complete


class WaitingLines:
    """Lines that wait for the editor's next prompt: MAX_WAITING_BYTES at most."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        self._size = 0

    def add(self, lines: list[bytes]) -> list[bytes]:
        """Add lines. Remove and return the oldest ones, as many as exceed MAX_WAITING_BYTES."""
        self.lines.extend(lines)
        self._size += sum(map(len, lines))
        excess: list[bytes] = []
        while self._size > MAX_WAITING_BYTES:
            excess.append(self.lines.popleft())
            self._size -= len(excess[-1])
        return excess


class EditorStream:
    """One connection of an editor and an agent.

    Its methods return the lines to write to the editor, each with its newline. Lines to the agent always pass. Call
    `handle_editor_line` before a line is given to the agent, so that a prompt is known before its answer.

    `id_prefix`: begins the message ids that are made here.
    """

    def __init__(self, id_prefix: str) -> None:
        self._id_prefix = id_prefix
        self._editor_profile = UNMEASURED
        self._folder = ConnectionFolder(limits=Limits())
        self._writers: dict[str, UpdateWriter] = {}
        self._terminals: set[str] = set()  # ids of the terminals that the editor made
        self._waiting: dict[str, WaitingLines] = {}  # by session: what waits for the editor's next prompt
        self._resumed: set[str] = set()  # sessions whose history the editor has already
        self._late_replays: dict[str, float] = {}  # replays that go on after their answer -> when the last update came
        self._writer_count = 0
        self._passes_all = False

    def __repr__(self) -> str:
        return (
            f"<EditorStream {self._folder.profile.name} -> {self._editor_profile.name}, {len(self._writers)} sessions>"
        )

    @property
    def due_at(self) -> float | None:
        """When `flush` has something to write next, as a monotonic time in seconds; None if nothing waits."""
        times = [writer.calls.due_at for writer in self._writers.values()]
        times += [last + REPLAY_PAUSE_S for last in self._late_replays.values()]
        return min((time for time in times if time is not None), default=None)

    def pass_all(self) -> None:
        """Let every further line pass as it comes."""
        self._passes_all = True

    # ---- from the editor

    def handle_editor_line(self, line: bytes, now: float) -> list[bytes]:
        """Note a line from the editor to the agent. Return the lines that waited for it.

        `now`: a monotonic time, in seconds.
        """
        message = _parse_json(line)
        if self._passes_all or not isinstance(message, dict):
            return []
        method, session = message.get("method"), text_at(message, "params", "sessionId") or ""
        if method is None:
            if terminal := text_at(message, "result", "terminalId"):
                self._terminals.add(terminal)
            return []
        if method == "initialize":
            self._editor_profile = read_editor_profile(object_at(message, "params"))
        if method in LOADING_METHODS:
            self._forget_session(session, is_resumed=method == "session/resume")
        if method == "session/prompt":
            return self._handle_prompt(session, message, now)
        ops = self._folder.fold_sent(message)
        return self._get_writer(session).write(ops, now=now) if ops else []

    def _handle_prompt(self, session: str, message: Json, now: float) -> list[bytes]:
        lines = self._end_replay(session)
        if not self._folder.is_prompting(session):
            lines += self._keep_until_prompt(session, self._get_writer(session).end_turn())
        self._late_replays.pop(session, None)
        self._resumed.discard(session)
        lines += self._get_writer(session).write(self._folder.fold_sent(message), now=now)
        return lines + self._pop_waiting_lines(session)

    def _pop_waiting_lines(self, session: str) -> list[bytes]:
        return list(self._waiting.pop(session, WaitingLines()).lines)

    def _forget_session(self, session: str, is_resumed: bool) -> None:
        """Forget a session that the editor opens again: the editor has nothing of the session on this connection yet.

        `is_resumed`: the editor has the session's history already.
        """
        self._folder.forget(session)
        self._writers.pop(session, None)
        self._waiting.pop(session, None)
        self._late_replays.pop(session, None)
        self._resumed.discard(session)
        if is_resumed:
            self._resumed.add(session)

    # ---- from the agent

    def handle_agent_line(self, line: bytes, now: float) -> list[bytes]:
        """Return the lines to write to the editor for a line from the agent. `now`: a monotonic time, in seconds."""
        if self._passes_all:
            return [line]
        try:
            message = json.loads(str(line, "utf-8"))
            if type(message) is not dict:
                return [line]
            method, params = message.get("method"), message.get("params")
            if method is None:
                return self._handle_answer(message, line, now)
            if type(params) is not dict or type(session := params.get("sessionId")) is not str:
                return [line]
            update = params.get("update")
            if method == "session/update" and type(update) is dict and _is_folded(update):
                return self._handle_update(session, update, line, now)
            ops = self._folder.fold_received(message)
            return [*self._get_writer(session).write(ops, now=now), line] if ops else [line]
        except (ValueError, RecursionError):  # no JSON, or nested a thousand levels deep
            return [line]

    def _handle_update(self, session: str, update: Json, line: bytes, now: float) -> list[bytes]:
        ops = self._folder.update(session, update)
        writer = self._writers.get(session) or self._get_writer(session)
        lines = writer.write(ops, update, line, now)
        if self._folder.is_replaying(session):
            if session in self._late_replays:
                self._late_replays[session] = now
            return [] if session in self._resumed else lines
        return self._keep_until_prompt(session, lines)

    def _handle_answer(self, message: Json, line: bytes, now: float) -> list[bytes]:
        """Return the lines for an agent's answer: text and output that was withheld, and then the answer itself."""
        method, session = self._folder.find_request(message)
        ops = self._folder.fold_received(message)
        if method == "initialize":
            self._passes_all = object_at(message, "result").get("protocolVersion", 1) != 1
        lines: list[bytes] = []
        if method in LOADING_METHODS and self._folder.is_replaying(session):
            self._late_replays[session] = now
        elif method in LOADING_METHODS:
            lines = self._end_replay(session)
            self._resumed.discard(session)
        elif method == "session/prompt":
            writer = self._get_writer(session)
            lines = writer.write(ops, now=now)
            if not self._folder.is_prompting(session):
                lines += writer.end_turn()
                self._folder.fold(session).forget_all_but(writer.calls.keep_latest(KEPT_CALLS))
        return [*lines, line]

    def _keep_until_prompt(self, session: str, lines: list[bytes]) -> list[bytes]:
        """Return the lines to write now. Some editors drop lines that come outside of a turn.

        For such an editor, lines that come outside of a turn wait for its next prompt.
        """
        if self._editor_profile.out_of_turn != "until_prompt" or not lines or self._folder.is_prompting(session):
            return lines
        waiting = self._waiting.setdefault(session, WaitingLines())
        return waiting.add(lines)

    # ---- time

    def flush(self, now: float) -> list[bytes]:
        """Return the lines that are due at `now`.

        These are the output of running calls, and the last message of a replay that ended only by silence.
        """
        lines: list[bytes] = []
        for session, last in list(self._late_replays.items()):
            if now >= last + REPLAY_PAUSE_S:
                lines += self._end_replay(session)
                self._late_replays[session] = inf  # until the next replayed update
        for session, writer in self._writers.items():
            lines += self._keep_until_prompt(session, writer.flush(now))
        return lines

    def end(self) -> list[bytes]:
        """Return the lines that were still kept or withheld, because the agent has ended."""
        lines: list[bytes] = []
        for session in list(self._writers):
            lines += self._pop_waiting_lines(session) + self._end_replay(session) + self._get_writer(session).end_turn()
        return lines

    def _end_replay(self, session: str) -> list[bytes]:
        """End the session's replay, if there is one, so that its last message is complete. Return its lines."""
        fold = self._folder.folds.get(session)
        if fold is None or not fold.is_replaying:
            return []
        writer = self._get_writer(session)
        lines = writer.write(fold.end_replay()) + writer.end_turn()
        return [] if session in self._resumed else lines

    def _get_writer(self, session: str) -> UpdateWriter:
        if session not in self._writers:
            agent_profile = self._folder.fold(session).profile
            self._writer_count += 1
            prefix = f"{self._id_prefix}-{self._writer_count}-"
            self._writers[session] = UpdateWriter(session, self._editor_profile, agent_profile, prefix, self._terminals)
        return self._writers[session]


def _is_folded(update: Mapping[str, Any]) -> bool:
    """Whether an update is of a kind that is folded, and has the fields that folding needs."""
    kind = update.get("sessionUpdate")
    if type(kind) is not str:
        return False
    if kind in ROLES:
        content = update.get("content")
        return type(content) is dict and (type(content.get("text")) is str or kind == "agent_message_chunk")
    return kind in ("tool_call", "tool_call_update") and isinstance(update.get("toolCallId"), str)


def _parse_json(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
