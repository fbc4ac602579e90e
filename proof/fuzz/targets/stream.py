"""An agent's stream, folded: whatever it sends, nothing is made up, nothing grows beyond bounds.

From bytes to a stream that no agent would send, and what must hold for any stream. Used by tests/stream, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proof.fuzz.source import Source
from semel.acp_stream import PROFILES, Changed, ConnectionFolder, Fold, Grew, Limits, Op
from semel.acp_stream.view import RecordedStreamReader

LIMITS = Limits(head=200, tail=100, window=1000)
TEXTS = [
    "a", "ha", "\n", "\n\n", "", "word word ", "The quick brown fox ", "jumps over", " the lazy dog. ", "Checking A.",
    "****\n", "Retrying (attempt 1/3, waiting 2s)...", "Queued for the next turn. (1 queued)", "API Error: 400",
    "<persisted-output>\n", "</persisted-output>", "<untrusted_tool_result source=\"x\">\n", "```console\n", "\n```",
    "...\n\n", "...output truncated...\n\nFull output saved to: /x\n\n", "terminal result\n- **output:** x\n",
    "- **exit_code:** 3", "[System: x]", "\r", "\x1b[31m", "\x1b[K", "line 1 of the long output abcdefgh\n" * 40,
    "0123456789 " * 30, "é\U0001f600", "\ud800",
    "\ud83d", "\ude00", "Smile \ud83d", "\ude00 end", "**Checking ", "beads** ", "**Checking beads** ", "I love you. ",
    "I love you. I love you. ", "".join(f"Sentence {n} of a long answer. " for n in range(140)), "and th",
    "Command finished, exit code 0", "error: retrying\nresult: 42", "result: 42",
]  # fmt: skip
WORDS = [
    "ha ",
    "I ",
    "love ",
    "you. ",
    "I love you. ",
    "\n",
    "- a\n",
    "0",
    "1",
    ", ",
    "|---|",
    "no, no. ",
    "\ud83d",
    "\ude00",
]
MOST_WORDS = 60  # a few hundred characters: below the length of a retry
KINDS = [
    "agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update",
    "usage_update", "plan", "session_info_update", "current_mode_update", "available_commands_update",
    "_session/retrying", "odd", None, "agent_message", "agent_thought", "user_message",
    "tool_call_content_chunk", "terminal_update", "terminal_output_chunk", "notice",
]  # fmt: skip
IDS = [None, "m1", "m2", "msg_1", "t1", "t2", 7]
STATUSES = ["pending", "in_progress", "completed", "failed", "cancelled", "odd", None, 3]
MARKS = ["prompt", "cancel", "end", "died", "permission", "settle"]


class Decisions(Source):
    """What agents send, decided by bytes."""

    def text(self) -> str:
        return "".join(self.pick(TEXTS) for _ in range(self.number(4)))

    def junk(self, depth: int = 0) -> Any:
        what = self.number(9)
        if what < 3 or depth > 2:
            return self.pick([None, True, 0, -1, 1.5, "x", [], {}, 10**30])
        if what < 5:
            return self.text()
        if what < 7:
            return [self.junk(depth + 1) for _ in range(self.number(3))]
        keys = ["type", "text", "content", "data", "stdout", "stderr", "output", "metadata", "exit", "error", "result"]
        return {self.pick(keys): self.junk(depth + 1) for _ in range(self.number(4))}


def meta(source: Decisions) -> Any:
    what = source.number(8)
    if what == 0:
        return source.junk()
    if what == 1:
        return {"terminal_output": {"data": source.text()}}
    if what == 2:
        return {"terminal_output_delta": {"data": source.text()}, "terminal_exit": {"exit_code": source.junk()}}
    if what == 3:
        return {"claudeCode": {"toolResponse": source.junk(), "toolName": source.pick(IDS), "kind": "informational"}}
    if what == 4:
        return {"claudeCode": {"toolResponse": {"stdout": source.text(), "stderr": source.text()}}}
    if what == 5:
        return {"codex": {"error": {"message": source.pick(TEXTS), "willRetry": source.pick([True, False, 1])}}}
    if what == 6:
        failure = {"title": source.pick(TEXTS), "severity": source.pick(["warning", "error", None])}
        return {"jetbrains": {"air": {"sessionFailure": failure}}}
    return {"terminal_info": {}, "usage": {}}


def update(source: Decisions) -> dict[str, Any]:
    kind = source.pick(KINDS)
    data: dict[str, Any] = {"sessionUpdate": kind}
    chunk = isinstance(kind, str) and kind.endswith("_chunk")
    if chunk:
        data["content"] = {"type": "text", "text": source.text()} if source.number(8) else source.junk()
        data["messageId"] = source.pick(IDS)
        if source.number(8) == 7:
            data["_meta"] = meta(source)
        return data
    if kind in ("tool_call", "tool_call_update"):
        data["toolCallId"] = source.pick(["t1", "t2", "t3", None])
        for key in ("status", "title", "kind", "name", "rawInput", "rawOutput", "content", "_meta"):
            if source.number(3) == 1:
                data[key] = field(key, source)
        return data
    if kind in ("agent_message", "agent_thought", "user_message"):
        data |= {"messageId": source.pick(IDS), "content": [{"type": "text", "text": source.text()}, source.junk()]}
    if isinstance(kind, str) and kind.startswith("terminal"):
        data |= {"terminalId": source.pick(["t1", "x", None]), "data": source.pick(["aGEK", "w6k=", "*", 7])}
        data |= {"output": {"data": source.pick(["aGEK", None])}, "exitStatus": source.junk()}
    if kind == "tool_call_content_chunk":
        inner = {"type": "content", "content": {"type": "text", "text": source.text()}}
        data |= {"toolCallId": source.pick(["t1", "t5"]), "content": inner}
    for key in ("used", "size", "cost", "entries", "title", "currentModeId", "availableCommands", "detail", "_meta"):
        if source.number(3) == 1:
            data[key] = meta(source) if key == "_meta" else source.junk()
    return data


def field(key: str, source: Decisions) -> Any:
    if key == "status":
        return source.pick(STATUSES)
    if key == "_meta":
        return meta(source)
    if key == "content" and source.number(2):
        inner = {"type": "content", "content": {"type": "text", "text": source.text()}}
        return [{"type": "terminal", "terminalId": source.pick(["t1", "x", 7])}, inner]
    if key == "rawOutput" and source.number(2):
        return {"stdout": source.text(), "exit_code": source.number(4), "metadata": {"truncated": True}}
    return source.junk()


def check(data: bytes) -> None:
    """Never raises, never grows beyond bounds, never makes text up; operations and items agree."""
    source = Decisions(data)
    a_fold = Fold(source.pick(list(PROFILES.values())), LIMITS)
    wire: list[str] = []
    grown: dict[int, str] = {}
    steps = 0
    while source.left and steps < 200:
        steps += 1
        keep(step(a_fold, source, wire), grown)
    keep(a_fold.settle(), grown)
    known = frozenset("".join(wire)) | set("ha\né\ufffd\U0001f600\U00010200")  # what the base64 data and two halves say
    for item in a_fold.items():
        if item.kind in ("message", "thought", "tool") and item.id in grown:
            hold(item.fields, item.text, grown[item.id], known)
    assert len(list(a_fold.items())) <= 3 * steps + 3


def check_honest(data: bytes) -> None:
    """The chunks of one message are that message, whatever repeats in it."""
    source = Decisions(data)
    a_fold = Fold(source.pick(list(PROFILES.values())))
    chunks: list[str] = []
    while source.left and len(chunks) < MOST_WORDS:
        chunks.append(source.pick(WORDS))
        content = {"type": "text", "text": chunks[-1]}
        a_fold.update({"sessionUpdate": "agent_message_chunk", "messageId": "msg_1", "content": content})
    a_fold.end("end_turn")
    text = "".join(chunks).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert [item.text for item in a_fold.items() if item.kind == "message"] == [text] * bool(text)


def keep(ops: list[Op], grown: dict[int, str]) -> None:
    for op in ops:
        if isinstance(op, Grew):
            grown[op.id] = grown.get(op.id, "") + op.text
        elif isinstance(op, Changed) and "text" in op.fields:
            grown[op.id] = op.fields["text"]


def hold(fields: Any, text: str, told: str, known: frozenset[str]) -> None:
    assert set(told) <= known | {"\n"}, "text that was not on the wire"
    if "gap" in fields:
        assert len(fields["head"]) <= 200 and len(fields["tail"]) <= 100
        assert told.startswith(fields["head"]) and told.endswith(fields["tail"])
        assert len(told) == 300 + fields["gap"]
    else:
        assert text == told


def step(a_fold: Fold, source: Decisions, wire: list[str]) -> Any:
    if source.number(6):
        data = update(source)
        wire.extend(strings(data))
        return a_fold.update(data, replay=source.number(6) == 5)
    mark = source.pick(MARKS)
    if mark == "prompt":
        text = source.text()
        wire.append(text)
        return a_fold.prompt(text)
    if mark == "permission":
        data = {"toolCallId": source.pick(["t1", "t9", None]), "title": source.text(), "rawInput": source.junk()}
        wire.extend(strings(data))
        return a_fold.apply_permission(data)
    if mark == "cancel":
        return a_fold.cancel()
    if mark == "settle":
        return a_fold.settle()
    return a_fold.end(source.pick(["end_turn", "cancelled", "odd", "error"]), None, died=mark == "died")


def check_wire(data: bytes) -> None:
    """Whole messages of any shape are read without complaint."""
    source = Decisions(data)
    reader = RecordedStreamReader(ConnectionFolder())
    for _ in range(60):
        if not source.left:
            break
        message = {
            "jsonrpc": "2.0",
            "id": source.pick([1, 2, "x", None]),
            "method": source.pick(["session/prompt", "session/load", "session/update", "initialize", 3]),
            "params": source.pick([{"sessionId": "s", "update": update(source)}, source.junk()]),
            "result": source.junk(),
        }
        for key in ("id", "method", "params", "result"):
            if source.number(3) == 1:
                del message[key]
        record = {"dir": source.pick(["c2a", "a2c", "note", "x"]), "msg": source.pick([message, source.junk()])}
        reader.read(source.pick([record, message, source.junk()]))
    list(reader.build_view().json())


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def one(data: bytes) -> None:
    (check_wire, check_honest, check, check, check)[len(data) % 5](data)


SEEDS = [bytes(range(0, 250, 3)), bytes(range(1, 200, 2)), b"\x01\x00\x04\x02\x08" * 12, b"\x05\x03\x01\x20" * 20]
LONGEST = 2048
