"""Recorded traces as connections, and the two ways to read one: through `semel acp --alone`, and by `semel fold`."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from model_editor import JoiningEditor, ModelEditor

from semel.acp_stream import WHOLE, ConnectionFolder, ViewItem
from semel.faces.acp.alone.stream import EditorStream
from semel.faces.acp.editor_profiles import EDITOR_PROFILES, UNMEASURED

Record = dict[str, Any]
TRACES = Path(__file__).parent.parent / "data" / "traces"
NAMES = sorted(
    f"{path.parent.name}/{path.name.removesuffix('.jsonl.xz')}"
    for path in TRACES.glob("*/*.jsonl.xz")
    if ".mcp." not in path.name
)
CAPABILITIES: dict[str, dict[str, Any]] = {
    "content": {},
    "terminals": {"_meta": {"terminal_output": True}},
    "notices": {"session": {"notices": {}}},
}
STEP_S = 0.01  # between two lines from the agent


@cache
def connections(name: str) -> list[list[Record]]:
    """Return the records of a trace, split at each `initialize`: `semel acp --alone` lives for one connection."""
    parts: list[list[Record]] = [[]]
    with lzma.open(TRACES / f"{name}.jsonl.xz", "rt") as text:
        for record in map(json.loads, text):
            if record["dir"] == "c2a" and record["msg"].get("method") == "initialize":
                parts.append([])
            parts[-1].append(record)
    return [part for part in parts if any(record["dir"] == "a2c" for record in part)]


def line_of(message: object) -> bytes:
    text = json.dumps(message, ensure_ascii=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can say
        return json.dumps(message).encode() + b"\n"


class StreamPlayer:
    """Plays records through an `EditorStream`. `out`: what the editor got; `editor`: what it shows of that."""

    def __init__(
        self, capabilities: dict[str, Any] | None = None, client: str = "test", editor: ModelEditor | None = None
    ) -> None:
        self.stream = EditorStream("made")
        self.editor = editor or ModelEditor()
        self.out: list[bytes] = []
        self.now = 0.0
        self._requests: dict[Any, str] = {}  # the session of each open prompt or load, by the request's id
        self._initialize = {"clientInfo": {"name": client}, "clientCapabilities": capabilities or {}}

    def play(self, records: list[Record]) -> StreamPlayer:
        for record in records:
            if record["dir"] == "c2a":
                self.say(record["msg"])
            elif record["dir"] == "a2c":
                self.hear(record["msg"])
        self.take(self.stream.end())
        return self

    def say(self, message: Record) -> None:
        """Send a message from the editor."""
        if message.get("method") == "initialize":
            message = {**message, "params": {"protocolVersion": 1, **self._initialize}}
        if message.get("method") == "session/load":
            self.editor.sessions.pop(message["params"]["sessionId"], None)  # the editor reads it anew
        if message.get("method") in ("session/prompt", "session/load"):
            self._requests[message["id"]] = message["params"]["sessionId"]
        self.take(self.stream.handle_editor_line(line_of(message), self.now))

    def hear(self, message: Record) -> None:
        """Send a message from the agent."""
        self.now += STEP_S
        self.take(self.stream.handle_agent_line(line_of(message), self.now))
        due_at = self.stream.due_at
        if due_at is not None and due_at <= self.now:
            self.take(self.stream.flush(self.now))
        if "method" not in message and message.get("id") in self._requests:
            session = self._requests.pop(message["id"])
            if session not in self._requests.values():  # otherwise its turn goes on for a prompt that was steered in
                self.editor.end_messages(session)

    def take(self, lines: list[bytes]) -> None:
        self.out += lines
        self.editor.read(lines)


@cache
def played(name: str, capability: str, client: str = "test") -> list[StreamPlayer]:
    """Return a trace's connections, each played for an editor with this name and one of CAPABILITIES."""
    joins = EDITOR_PROFILES.get(client, UNMEASURED).joins_messages
    model = JoiningEditor if joins else ModelEditor
    return [StreamPlayer(CAPABILITIES[capability], client, model()).play(records) for records in connections(name)]


@cache
def folded(name: str) -> list[dict[str, list[ViewItem]]]:
    return [fold_connection(records) for records in connections(name)]


def fold_connection(records: list[Record]) -> dict[str, list[ViewItem]]:
    """Return what `semel fold` shows of each session since the editor opened it last."""
    wire = ConnectionFolder(limits=WHOLE)
    for record in records:
        if record["dir"] == "c2a":
            message = record["msg"]
            if message.get("method") in ("session/load", "session/resume"):
                wire.forget(message["params"]["sessionId"])
            wire.fold_sent(message)
        elif record["dir"] == "a2c":
            wire.fold_received(record["msg"])
    for fold in wire.folds.values():
        fold.settle()
    resumed = {
        record["msg"]["params"]["sessionId"]
        for record in records
        if record["dir"] == "c2a" and record["msg"].get("method") == "session/resume"
    }
    return {
        session: [item for item in fold.items() if not (session in resumed and item.fields.get("history"))]
        for session, fold in wire.folds.items()
    }


def texts_of(items: list[ViewItem], kind: str) -> list[str]:
    """Return the agent's texts of a kind, in order, without failed starts."""
    return [
        item.text
        for item in items
        if item.kind == kind and item.fields.get("role") != "user" and not item.fields.get("superseded")
    ]


def failed_starts_in(items: list[ViewItem], kind: str) -> list[str]:
    """Return the texts of failed starts, which an editor may have shown before they failed."""
    return [item.text for item in items if item.kind == kind and item.fields.get("superseded")]


# ---- short ways to say what an agent or an editor sends


def update(kind: str, session: str = "s", /, **fields: Any) -> Record:
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def say(text: object, mid: str | None = None, kind: str = "agent_message_chunk") -> Record:
    named = {} if mid is None else {"messageId": mid}
    return update(kind, content={"type": "text", "text": text}, **named)


def call(cid: str = "t", **fields: Any) -> Record:
    return update("tool_call", toolCallId=cid, title="Run", status="in_progress", **fields)


def result(cid: str = "t", **fields: Any) -> Record:
    return update("tool_call_update", toolCallId=cid, **fields)


def content(text: str) -> list[Any]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def delta(text: str, key: str = "terminal_output", cid: str = "t") -> Record:
    return result(cid, _meta={key: {"terminal_id": cid, "data": text}})


def request(number: object, method: str, session: str = "s", **params: Any) -> Record:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {"sessionId": session, **params}}


def prompt(text: str = "go", number: object = 1) -> Record:
    return request(number, "session/prompt", prompt=[{"type": "text", "text": text}])


def answer(number: object = 1, **fields: Any) -> Record:
    return {"jsonrpc": "2.0", "id": number, "result": fields or {"stopReason": "end_turn"}}


def start(capabilities: dict[str, Any] | None = None, client: str = "zed", agent: str = "some-agent") -> StreamPlayer:
    """Return a player whose two sides have agreed on ACP v1."""
    player = StreamPlayer(capabilities, client)
    player.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
    player.hear(answer(0, protocolVersion=1, agentInfo={"name": agent, "version": "1"}, agentCapabilities={}))
    return player
