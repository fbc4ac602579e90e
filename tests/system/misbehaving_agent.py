"""An agent that speaks ACP and breaks it in the way its first argument names; run as a program.

    python misbehaving_agent.py HOW [FILE]

FILE: it misbehaves only while this is not there yet, and makes it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

HOW = sys.argv[1]
AGAIN = len(sys.argv) > 2 and Path(sys.argv[2]).exists()
TEXT, CALL, MORE = "agent_message_chunk", "tool_call", "tool_call_update"
if len(sys.argv) > 2:
    Path(sys.argv[2]).touch()


def raw(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def tell(**message: Any) -> None:
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode())


def update(kind: Any, session: Any = "s1", /, **fields: Any) -> None:
    tell(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": kind, **fields}})


def say(text: str, session: Any = "s1") -> None:
    update(TEXT, session, content={"type": "text", "text": text})


def ask(id: str) -> None:
    call = {"toolCallId": "x", "title": "do it"}
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    tell(
        id=id,
        method="session/request_permission",
        params={"sessionId": "s1", "toolCall": call, "options": options},
    )


def at_start() -> None:
    match HOW:
        case "exits":
            sys.exit(3)
        case "closes its output":
            os.close(1)
            time.sleep(600)
        case "deaf to signals":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        case "garbage":
            for line in (
                b"Welcome!",
                b"\xff\xfe\x00",
                b"{",
                b"[]",
                b"null",
                b"3",
                b"{}",
                b"[[[[",
                b'{"id":{"a":1}}',
            ):
                raw(line)


def initialize(id: Any) -> None:
    match HOW:
        case "mute":
            time.sleep(600)
        case "other version":
            tell(id=id, result={"protocolVersion": 99})
        case "wrong ids":
            tell(id="nobody", result={})
            tell(id=9999, result=None)
    logins = [{"id": "in", "name": "Log in", "description": "Run `agent login`"}] if HOW == "wants a login" else []
    loads = HOW == "dies while loading"
    tell(
        id=id,
        result={"protocolVersion": 1, "agentCapabilities": {"loadSession": loads}, "authMethods": logins},
    )


def new(id: Any) -> None:
    if HOW == "wants a login":
        tell(id=id, error={"code": -32000, "message": "Authentication required"})
    else:
        tell(id=id, result={} if HOW == "no session id" else {"sessionId": "s1"})


def odd_updates() -> None:
    text, odd = {"type": "text", "text": "x"}, {"a": [1, None]}
    for kind in (
        None,
        5,
        "unknown_kind",
        TEXT,
        "agent_thought_chunk",
        CALL,
        MORE,
        "plan",
        "current_mode_update",
    ):
        for fields in (
            {},
            {"content": "text"},
            {"content": [5]},
            {"toolCallId": 5},
            {"toolCallId": "t", "content": odd},
        ):
            update(kind, **fields)
    update("plan", entries=[1, None, {"content": 5}])
    update("config_option_update", configOptions=5)
    update("session_info_update", title=odd)
    update(MORE, toolCallId="t", title=5, kind=6, rawInput=7, rawOutput=odd, locations=8, _meta=9)
    update(MORE, toolCallId="t", _meta={"terminal_output": {"data": 5}, "terminal_exit": "x"})
    update("user_message_chunk", content=text)
    for params in (None, 5, [], {}, {"sessionId": "s1"}, {"sessionId": "s1", "update": [1]}):
        tell(method="session/update", params=params)
    tell(id=77, method="fs/read_text_file", params={"path": "/etc/passwd"})
    tell(method="weird/notification")


def prompt(id: Any, words: str) -> None:
    """Everything but the answer at the end is the misbehaviour."""
    match HOW:
        case "floods tool output":
            update(CALL, toolCallId="t", title="flood", status="in_progress", kind="execute")
            for _ in range(50):
                update(MORE, toolCallId="t", _meta={"terminal_output": {"terminal_id": "t", "data": "x" * 10**6}})
            update(MORE, toolCallId="t", status="completed")
        case "one huge line":
            say("z" * 4_000_000)
        case "a line without end":
            while True:
                sys.stdout.buffer.write(b"q" * 1024 * 1024)
        case "updates of another session":
            say("not for you", "other")
        case "odd updates":
            odd_updates()
        case "asks twice with one id":
            ask("p1")
            ask("p1")
            while "result" not in json.loads(sys.stdin.readline()):
                pass
        case "answers requests that nobody made":
            tell(id=12345, result={"stopReason": "end_turn"})
            tell(id=[id], result={"stopReason": "end_turn"})
            tell(id=None, error={"code": 1, "message": "x"})
        case "dies" | "dies once" if not AGAIN or HOW == "dies":
            say("half")
            os.kill(os.getpid(), signal.SIGKILL)
        case "hangs":
            say("hanging")
            return
        case "odd error":
            tell(id=id, error="kaputt")
            return
        case "floods stderr":
            sys.stderr.write(("e" * 5000 + "\n") * 1000 + "no end" * 500_000)
            sys.stderr.flush()
    say(f"answer to {words}")
    tell(id=id, result={"stopReason": "end_turn"})
    if HOW == "talks on":
        say(f"one more thing about {words}")
    if HOW == "answers twice":
        tell(id=id, result={"stopReason": "end_turn"})
        tell(id=id, error={"code": 1, "message": "late"})


at_start()
for line in sys.stdin:
    got = json.loads(line)
    match got.get("method"):
        case "initialize":
            initialize(got["id"])
        case "session/new":
            new(got["id"])
        case "session/load":
            os.kill(os.getpid(), signal.SIGKILL)
        case "session/prompt":
            prompt(got["id"], got["params"]["prompt"][-1]["text"])
