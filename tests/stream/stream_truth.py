"""What the model truly said in a recorded trace, from the script it was played by (tests/data/script.json).

A scenario is steps (one per answer of the model), a step is attempts (one per time it was asked), an attempt is what
it sent: `["text", ...]`, `["think", ...]`, `["shell", command]`, `["mcp", tool, arguments]`, and how it broke off
(`drop`, `fin`, `sse_error`, `http`, `stop`).
"""

from __future__ import annotations

import functools
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from semel.faces.fold import fold_file

DATA = Path(__file__).parent.parent / "data"
TRACES = DATA / "traces"
SCRIPT: dict[str, Any] = json.loads((DATA / "script.json").read_text())
MARK = re.compile(r"\[\[S:([A-Za-z0-9_\-]+)\]\]")


def traces() -> list[Path]:
    return sorted(p for p in TRACES.glob("*/*.jsonl.xz") if not p.name.endswith(".mcp.jsonl.xz"))


def name_of(trace: Path) -> str:
    return f"{trace.parent.name}/{trace.name.removesuffix('.jsonl.xz')}"


@functools.cache
def records(trace: Path) -> list[dict[str, Any]]:
    with lzma.open(trace, "rt") as lines:
        return [json.loads(line) for line in lines]


def text_of(trace: Path) -> str:
    """The trace as it is written: to look for a word in it takes a quarter of the time that parsing it takes."""
    with lzma.open(trace, "rt") as lines:
        return lines.read()


@functools.cache
def scenarios(trace: Path) -> list[str]:
    """The scenarios that the trace's prompts ask for, in order; sessions one after the other."""
    by_session: dict[str, list[str]] = {}
    for record in records(trace):
        message = record["msg"]
        if record["dir"] == "c2a" and message.get("method") == "session/prompt":
            prompt = message["params"]["prompt"][0]["text"]
            by_session.setdefault(message["params"]["sessionId"], []).append(MARK.findall(prompt)[-1])
    return [name for names in by_session.values() for name in names]


def said(attempt: list[Any], kind: str = "text") -> str:
    return "".join(action[1] for action in attempt if action[0] == kind)


def answers(scenario: str) -> list[str]:
    """What each answer of the model was in the end: the texts a person must see, in order."""
    return [text for step in SCRIPT[scenario] if (text := said(step[-1]))]


def attempts(scenario: str) -> list[list[str]]:
    """Per step, the text of each attempt."""
    return [[said(attempt) for attempt in step] for step in SCRIPT[scenario]]


@functools.cache
def wire_text(trace: Path) -> str:
    """Everything that the agent put on the wire: its JSON text values, one after the other."""
    return "".join(text for record in records(trace) if record["dir"] == "a2c" for text in strings(record["msg"]))


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def deltas(trace: Path, call: str) -> str:
    """The terminal deltas of one tool call as it ran, one after the other."""
    parts: list[str] = []
    for record in records(trace):
        message = record["msg"]
        if isinstance(message, dict) and message.get("method") == "session/load":
            break
        update = message.get("params", {}).get("update", {}) if isinstance(message, dict) else {}
        if record["dir"] == "a2c" and update.get("toolCallId") == call:
            meta = update.get("_meta") or {}
            part = meta.get("terminal_output") or meta.get("terminal_output_delta") or {}
            parts.append(part.get("data", ""))
    return "".join(parts)


@functools.cache
def chunks(trace: Path) -> str:
    """All text of messages and thoughts on the wire, chunk after chunk."""
    parts: dict[str, list[str]] = {}
    for record in records(trace):
        message = record["msg"]
        update = message.get("params", {}).get("update", {}) if isinstance(message, dict) else {}
        kind = update.get("sessionUpdate", "")
        if record["dir"] == "a2c" and kind.endswith("_chunk"):
            session = message["params"]["sessionId"]
            parts.setdefault(kind + session, []).append(update["content"].get("text", ""))
    return "\x00".join("".join(texts) for texts in parts.values())


@functools.cache
def view(name: str) -> list[dict[str, Any]]:
    """What `semel fold` prints for the trace of that name."""
    return list(fold_file(TRACES / f"{name}.jsonl.xz"))
