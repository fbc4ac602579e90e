"""`semel fold TRACE`: what it prints, and what it says about a file that is no trace."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from stream_help import call, result, say, terminal, user
from stream_truth import TRACES

from semel.acp_stream import fold
from semel.faces.fold import TraceError, fold_file


def lines(*objects: object) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


def update(data: object, session: str = "s") -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": data}}


def test_the_objects_are_those_of_the_house(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        lines(
            {
                "t": 0,
                "dir": "c2a",
                "msg": {
                    "id": 1,
                    "method": "session/prompt",
                    "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]},
                },
            },
            {"t": 0.1, "dir": "stderr", "msg": "noise"},
            {"t": 0.2, "dir": "a2c", "msg": update(say("Hello."))},
            {"t": 0.3, "dir": "a2c", "msg": update(call(rawInput={"command": "x"}))},
            {"t": 0.4, "dir": "a2c", "msg": update(terminal("1%\r2%\n"))},
            {"t": 0.5, "dir": "a2c", "msg": update(result(status="completed", rawOutput={"exit_code": 0}))},
            {"t": 0.6, "dir": "a2c_raw", "msg": "not json"},
            {
                "t": 0.7,
                "dir": "a2c",
                "msg": {"id": 1, "error": {"code": -32603, "message": "Internal error", "data": {"message": "no"}}},
            },
        )
    )
    assert list(fold_file(trace)) == [
        {"item": "message", "role": "user", "text": "hi"},
        {"item": "message", "role": "agent", "text": "Hello."},
        {
            "item": "tool",
            "id": "t",
            "title": "Run",
            "status": "done",
            "output": "2%\n",
            "exit": 0,
            "input": {"command": "x"},
        },
        {"item": "turn", "stop": "error", "error": "Internal error: no"},
    ]


def test_plain_messages_and_bare_updates_are_traces_too(tmp_path: Path) -> None:
    messages = tmp_path / "messages"
    messages.write_text(lines(update(say("a")), [update(say("b"))], 7, "x", None, update(say("c"))))
    assert [o["text"] for o in fold_file(messages)] == ["abc"]
    bare = tmp_path / "bare"
    bare.write_text(lines({"_prompt": "q"}, user("q"), say("a"), {"_end_turn": True}))
    assert [o.get("text") for o in fold_file(bare)] == ["q", "a", None]


def test_sessions_are_told_apart(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(lines(update(say("a"), "one"), update(say("b"), "two"), update(say("c"), "one")))
    assert [(o["text"], o["session"]) for o in fold_file(trace)] == [("ac", "one"), ("b", "two")]


def test_the_profile_may_be_named(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(lines(update(say("Warning: x"))))
    assert [o["item"] for o in fold_file(trace)] == ["message"]
    assert [o["item"] for o in fold_file(trace, "codex")] == ["notice"]
    assert [o["item"] for o in fold_file(trace, "@agentclientprotocol/codex-acp")] == ["notice"]


def test_xz_is_known_by_its_content(tmp_path: Path) -> None:
    packed = tmp_path / "trace.jsonl"
    packed.write_bytes(lzma.compress(lines(update(say("a"))).encode()))
    assert [o["text"] for o in fold_file(packed)] == ["a"]


def test_lines_that_are_no_json_are_left_out_and_told(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(lines(update(say("a"))) + "\nnoise\n" + lines(update(say("b"))) + '{"cut": ')
    told: list[str] = []
    assert [o["text"] for o in fold_file(trace, note=told.append)] == ["ab"]
    assert told == [f"2 lines are not JSON and left out; the first is line 3 of {trace}"]
    assert fold(trace.read_text().splitlines()).unreadable == (3, 5)
    assert fold(lines(update(say("a"))).splitlines()).unreadable == ()


def test_a_line_of_eight_megabytes(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    text = "x" * 8_000_000
    trace.write_text(lines(update(say(text))))
    assert [o["text"] for o in fold_file(trace)] == [text]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: None, "no such file"),
        (lambda p: p.mkdir(), "is a folder"),
        (lambda p: p.write_text(""), "no JSON line"),
        (lambda p: p.write_text("plain words\n" * 50), "not JSON"),
        (lambda p: p.write_text("[" * 100_000 + "\n"), "no JSON line"),
        (lambda p: p.write_bytes(lzma.compress(b"{}\n" * 1000)[:-40]), "damaged or incomplete"),
        (lambda p: p.write_bytes(b"\xff\xfe\x00\n"), "no JSON line"),
    ],
)
def test_what_is_no_trace_gets_a_clear_error(tmp_path: Path, make: object, says: str) -> None:
    path = tmp_path / "x"
    make(path)  # type: ignore[operator]
    with pytest.raises(TraceError, match=says):
        list(fold_file(path))


def test_an_unknown_agent_gets_the_known_names() -> None:
    with pytest.raises(TraceError, match="claude, codex"):
        list(fold_file(TRACES / "claude" / "plain.jsonl.xz", "nobody"))


def test_a_failure_that_only_the_answers_meta_tells_is_the_turns_error() -> None:
    turn = list(fold_file(TRACES / "claude" / "e400_air.jsonl.xz"))[-1]
    assert turn == {"item": "turn", "stop": "end_turn", "error": "API Error: 400 mock says no"}


def test_messages_without_a_direction_are_told_apart_by_their_methods(tmp_path: Path) -> None:
    ask = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "session/request_permission",
        "params": {"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "rm x"}},
    }
    trace = tmp_path / "trace"
    trace.write_text(
        lines(
            {"id": 0, "method": "initialize", "params": {}},
            {"id": 0, "result": {"agentInfo": {"name": "@agentclientprotocol/codex-acp"}}},
            {
                "id": 2,
                "method": "session/prompt",
                "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]},
            },
            update(say("Warning: no id")),
            ask,
            {"id": 2, "result": {"outcome": {"outcome": "selected", "optionId": "x"}}},
            update(say("Done.", "msg_1")),
            {"id": 2, "result": {"stopReason": "end_turn"}},
        )
    )
    assert [(o["item"], o.get("text") or o.get("title") or o["stop"]) for o in fold_file(trace)] == [
        ("message", "hi"),
        ("notice", "Warning: no id"),
        ("tool", "rm x"),
        ("message", "Done."),
        ("turn", "end_turn"),
    ]
