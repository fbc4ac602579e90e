"""Recorded traces as connections, and the two ways to read one: through `semel acp --alone`, and by `semel fold`."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from model_editor import ModelEditor

from semel.acp_stream import WHOLE, ConnectionFolder, ViewItem
from semel.faces.acp.stream import EditorStream

Record = dict[str, Any]
TRACES = Path(__file__).parent.parent / "data" / "traces"
NAMES = sorted(
    f"{path.parent.name}/{path.name.removesuffix('.jsonl.xz')}"
    for path in TRACES.glob("*/*.jsonl.xz")
    if ".mcp." not in path.name
)
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
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


class Player:
    """Plays records through an `EditorStream`. `out`: what the editor got; `editor`: what it shows of that."""

    def __init__(self, capabilities: dict[str, Any] | None = None, client: str = "test") -> None:
        self.stream = EditorStream("made")
        self.editor = ModelEditor()
        self.out: list[bytes] = []
        self.now = 0.0
        self._initialize = {"clientInfo": {"name": client}, "clientCapabilities": capabilities or {}}

    def play(self, records: list[Record]) -> Player:
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
        self.take(self.stream.take_from_editor(line_of(message), self.now))

    def hear(self, message: Record) -> None:
        """Send a message from the agent."""
        self.now += STEP_S
        self.take(self.stream.take_from_agent(line_of(message), self.now))
        due_at = self.stream.due_at
        if due_at is not None and due_at <= self.now:
            self.take(self.stream.flush(self.now))

    def take(self, lines: list[bytes]) -> None:
        self.out += lines
        self.editor.read(lines)


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
    """Return the agent's texts of a kind, in order, without failed attempts."""
    return [
        item.text
        for item in items
        if item.kind == kind and item.fields.get("role") != "user" and not item.fields.get("superseded")
    ]


def attempts_in(items: list[ViewItem], kind: str) -> list[str]:
    """Return the texts of failed attempts, which an editor may have shown before they failed."""
    return [item.text for item in items if item.kind == kind and item.fields.get("superseded")]
