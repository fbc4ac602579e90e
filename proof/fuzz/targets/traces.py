"""Recorded traces: a file of any bytes, plain or packed, is a view or a TraceError that names the line.

Folded twice it is the same view; lines that are no JSON change nothing; everything that is shown was in the file.
"""

from __future__ import annotations

import json
import lzma
from typing import Any

from proof.fuzz.scratch import folder
from proof.fuzz.source import Source, plain
from proof.fuzz.targets.acp import TEMPLATES as MESSAGES
from semel.faces.fold import TraceError, fold_file

AGENTS = [None, "claude", "codex", "gemini", "opencode", "hermes", "", "nobody", "x" * 400]
RECORDS: list[Any] = [
    {"t": 0.1, "dir": "c2a", "msg": {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}},
    {"t": 0.2, "dir": "c2a", "msg": {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {
        "sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}}},
    {"t": 0.2, "dir": "c2a", "msg": {"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": {
        "sessionId": "s"}}},
    {"t": 0.3, "dir": "note", "msg": {"exit": 1}}, {"t": 0.3, "dir": "note", "msg": {"kill": 9}},
    {"t": 0.4, "dir": "stderr", "msg": "oops"}, {"t": 0.4, "dir": "a2c_raw", "msg": "printed"},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "bare"}}, {"_prompt": "go"},
    {"_load": True}, {"_cancel": True}, {"_end_turn": "end_turn"}, {"_died": True},
    {"_permission": {"toolCallId": "t1", "title": "x"}}, *({"t": 1, "dir": "a2c", "msg": one} for one in MESSAGES),
    *MESSAGES,
]  # fmt: skip


def one(data: bytes) -> None:
    source = Source(data)
    agent = source.pick(AGENTS) if source.number(3) == 2 else None
    whole = _file(source)
    path = folder() / "trace.jsonl"
    path.write_bytes(whole)
    view = _folded(agent)
    assert _folded(agent) == view, "the same file folds to two views"
    if view is None:
        return
    json.dumps(view).encode()
    for item in view:
        assert isinstance(item["item"], str)
    if not whole.startswith(b"\xfd7zXZ"):
        noisy = b"\n".join(b"not JSON {" if not line.strip() else line for line in whole.split(b"\n")) + b"\n}"
        path.write_bytes(noisy)
        if _folded(agent) is not None:
            assert _folded(agent) == view, "lines that are no JSON change the view"


def _folded(agent: str | None) -> list[Any] | None:
    try:
        return list(fold_file(folder() / "trace.jsonl", agent))
    except TraceError as bad:
        assert str(bad)
        return None


def _file(source: Source) -> bytes:
    how = source.number(8)
    if how == 7:
        return source.rest()
    lines = []
    while source.left > 20 and len(lines) < 40:
        lines.append(plain(source.mutated(source.pick(RECORDS), 2)))
        if source.number(16) == 15:
            lines.append(source.take(source.number(30)))
    whole = b"\n".join(lines)
    if how == 6:
        packed = lzma.compress(whole)
        return packed[: len(packed) - source.number(3) * 5]
    return whole


SEEDS = [
    b"\x00\x07" + b"\n".join(plain(one) for one in RECORDS), b"\x00\x07" + lzma.compress(plain(RECORDS[1])),
    b"\x00\x07[]\n\n{", *(b"\x00\x00" + bytes([n, 0, n + 1, 1, n, 3, 9, 2, n + 3]) * 20 for n in range(0, 40, 3)),
    b"\x00\x06" + bytes(range(90)),
]  # fmt: skip
LONGEST = 8192
