"""Decide for each line between one editor and one agent: it passes as it came, or its update is written anew.

Only five kinds of `session/update` are read for what they show: chunks of messages, thoughts and user messages, and
tool calls. They are folded, and a `Pen` writes the result. Every other line passes unchanged, byte for byte, in order;
so do lines that are no JSON, and everything if the two agree on another version of ACP than 1.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Any

from semel.acp_stream import ConnectionFolder, Limits
from semel.acp_stream.history import ROLES
from semel.faces.acp.clients import UNMEASURED, read_client
from semel.faces.acp.pen import Pen
from semel.text.json_types import Json, object_at, text_at

LOADS = ("session/load", "session/resume")
KEPT_CALLS = 64  # ended calls of earlier turns for which a late update is still known
MAX_HELD_BYTES = 8 * 1024 * 1024  # of updates that wait for the client's next prompt; beyond that, the oldest are sent
REPLAY_PAUSE_S = 0.5  # silence after which the last message of a replay that has no other end is complete


class HeldLines:
    """Lines that wait for the client's next prompt: MAX_HELD_BYTES at most."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        self._size = 0

    def add(self, lines: list[bytes]) -> list[bytes]:
        """Add lines. Returns the oldest ones, as many as there is no room for."""
        self.lines.extend(lines)
        self._size += sum(map(len, lines))
        excess: list[bytes] = []
        while self._size > MAX_HELD_BYTES:
            excess.append(self.lines.popleft())
            self._size -= len(excess[-1])
        return excess


class EditorStream:
    """One connection. The `take_` methods return the lines to be written to the editor, each with its newline.

    Lines to the agent always pass; `take_from_editor` must be called before a line is given to the agent, so that the
    view knows of a prompt before its answer. `id_prefix`: begins the message ids that are made here.
    """

    def __init__(self, id_prefix: str) -> None:
        self._id_prefix = id_prefix
        self._client = UNMEASURED
        self._folder = ConnectionFolder(limits=Limits())
        self._pens: dict[str, Pen] = {}
        self._terminals: set[str] = set()  # those that the client made
        self._held: dict[str, HeldLines] = {}  # by session: what waits for the client's next prompt
        self._resumed: set[str] = set()  # sessions whose history the client has already
        self._late_replays: dict[str, float] = {}  # replays that go on after their answer -> when the last update came
        self._pen_count = 0
        self._passes_all = False

    def __repr__(self) -> str:
        return f"<EditorStream {self._folder.profile.name} -> {self._client.name}, {len(self._pens)} sessions>"

    @property
    def due_at(self) -> float | None:
        """When `flush` has something to write next, as a monotonic time in seconds; None if nothing waits."""
        times = [pen.calls.due_at for pen in self._pens.values()]
        times += [last + REPLAY_PAUSE_S for last in self._late_replays.values()]
        return min((time for time in times if time is not None), default=None)

    def pass_all(self) -> None:
        """Let every further line pass as it comes."""
        self._passes_all = True

    # ---- from the editor

    def take_from_editor(self, line: bytes, now: float) -> list[bytes]:
        """Note a line from the editor to the agent. Returns what waited for it. `now`: as for `take_from_agent`."""
        message = _parse(line)
        if self._passes_all or not isinstance(message, dict):
            return []
        method, session = message.get("method"), text_at(message, "params", "sessionId") or ""
        if method is None:
            if terminal := text_at(message, "result", "terminalId"):
                self._terminals.add(terminal)
            return []
        if method == "initialize":
            self._client = read_client(object_at(message, "params"))
        if method in LOADS:
            self._open_anew(session, is_resumed=method == "session/resume")
        if method == "session/prompt":
            return self._take_prompt(session, message, now)
        ops = self._folder.fold_sent(message)
        return self._pen(session).write(ops, now=now) if ops else []

    def _take_prompt(self, session: str, message: Json, now: float) -> list[bytes]:
        lines = self._end_replay(session)
        if not self._folder.is_prompting(session):
            lines += self._hold(session, self._pen(session).settle())
        self._late_replays.pop(session, None)
        self._resumed.discard(session)
        lines += self._pen(session).write(self._folder.fold_sent(message), now=now)
        return lines + self._take_held(session)

    def _take_held(self, session: str) -> list[bytes]:
        return list(self._held.pop(session, HeldLines()).lines)

    def _open_anew(self, session: str, is_resumed: bool) -> None:
        """The client opens a session: it has nothing of it on this connection, or (`is_resumed`) its history."""
        self._folder.forget(session)
        self._pens.pop(session, None)
        self._held.pop(session, None)
        self._late_replays.pop(session, None)
        self._resumed.discard(session)
        if is_resumed:
            self._resumed.add(session)

    # ---- from the agent

    def take_from_agent(self, line: bytes, now: float) -> list[bytes]:
        """Return the lines that stand for a line from the agent. `now`: a monotonic time, in seconds."""
        if self._passes_all:
            return [line]
        try:
            message = json.loads(str(line, "utf-8"))
            if type(message) is not dict:
                return [line]
            method, params = message.get("method"), message.get("params")
            if method is None:
                return self._take_answer(message, line, now)
            if type(params) is not dict or type(session := params.get("sessionId")) is not str:
                return [line]
            update = params.get("update")
            if method == "session/update" and type(update) is dict and _is_folded(update):
                return self._take_update(session, update, line, now)
            ops = self._folder.fold_received(message)
            return [*self._pen(session).write(ops, now=now), line] if ops else [line]
        except (ValueError, RecursionError):  # no JSON, or nested a thousand levels deep
            return [line]

    def _take_update(self, session: str, update: Json, line: bytes, now: float) -> list[bytes]:
        ops = self._folder.update(session, update)
        pen = self._pens.get(session) or self._pen(session)
        lines = pen.write(ops, update, line, now)
        if self._folder.is_replaying(session):
            if session in self._late_replays:
                self._late_replays[session] = now
            return [] if session in self._resumed else lines
        return self._hold(session, lines)

    def _take_answer(self, message: Json, line: bytes, now: float) -> list[bytes]:
        """Return the lines for an agent's answer: all that belongs before it, and the answer itself."""
        method, session = self._folder.find_request(message)
        ops = self._folder.fold_received(message)
        if method == "initialize":
            self._passes_all = object_at(message, "result").get("protocolVersion", 1) != 1
        lines: list[bytes] = []
        if method in LOADS and self._folder.is_replaying(session):
            self._late_replays[session] = now
        elif method in LOADS:
            lines = self._end_replay(session)
            self._resumed.discard(session)
        elif method == "session/prompt":
            pen = self._pen(session)
            lines = pen.write(ops, now=now)
            if not self._folder.is_prompting(session):
                lines += pen.settle()
                self._folder.fold(session).forget_all_but(pen.calls.keep_latest(KEPT_CALLS))
        return [*lines, line]

    def _hold(self, session: str, lines: list[bytes]) -> list[bytes]:
        """Return the lines, or keep them for the next prompt of a client that drops what comes outside of a turn."""
        if self._client.outside != "held" or not lines or self._folder.is_prompting(session):
            return lines
        held = self._held.setdefault(session, HeldLines())
        return held.add(lines)

    # ---- time

    def flush(self, now: float) -> list[bytes]:
        """Return what is due at `now`: output of running calls, and the end of a replay that has no other end."""
        lines: list[bytes] = []
        for session, last in list(self._late_replays.items()):
            if now >= last + REPLAY_PAUSE_S:
                lines += self._end_replay(session)
                self._late_replays[session] = inf  # until the next replayed update
        for session, pen in self._pens.items():
            lines += self._hold(session, pen.flush(now))
        return lines

    def end(self) -> list[bytes]:
        """Return all that is still withheld, because the agent has ended."""
        lines: list[bytes] = []
        for session in list(self._pens):
            lines += self._take_held(session) + self._end_replay(session) + self._pen(session).settle()
        return lines

    def _end_replay(self, session: str) -> list[bytes]:
        """End a replay, if there is one. Its last message is complete."""
        fold = self._folder.folds.get(session)
        if fold is None or not fold.is_replaying:
            return []
        pen = self._pen(session)
        lines = pen.write(fold.end_replay()) + pen.settle()
        return [] if session in self._resumed else lines

    def _pen(self, session: str) -> Pen:
        if session not in self._pens:
            profile = self._folder.fold(session).profile
            self._pen_count += 1
            prefix = f"{self._id_prefix}-{self._pen_count}-"
            self._pens[session] = Pen(session, self._client, profile, prefix, self._terminals)
        return self._pens[session]


def _is_folded(update: Mapping[str, Any]) -> bool:
    """Whether an update is one that the pen writes, and has what it needs for that."""
    kind = update.get("sessionUpdate")
    if type(kind) is not str:
        return False
    if kind in ROLES:
        content = update.get("content")
        return type(content) is dict and (type(content.get("text")) is str or kind == "agent_message_chunk")
    return kind in ("tool_call", "tool_call_update") and isinstance(update.get("toolCallId"), str)


def _parse(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
