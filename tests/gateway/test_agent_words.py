"""What real agents say beside their answers: greetings, errors as text, retries; and tool calls that they never end."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World

from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.testing import FakeChannel, Platform

AGENT = """
import json, sys
def out(**m): print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
def update(**u): out(method="session/update", params={"sessionId": "s1", "update": u})
def say(text): update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})
for line in sys.stdin:
    got = json.loads(line)
    match got.get("method"):
        case "initialize":
            out(id=got["id"], result={"protocolVersion": 1})
        case "session/new":
            say("\\u2139 New session\\n"); say("Using model mock\\n")
            out(id=got["id"], result={"sessionId": "s1"})
        case "session/prompt":
            text = got["params"]["prompt"][-1]["text"]
            if "retry" in text:
                params = {"sessionId": "s1", "category": "rate_limited", "detail": "HTTP 429."}
                out(method="_session/retrying", params=params)
            if "pending" in text:
                update(sessionUpdate="tool_call", toolCallId="c1", title="rm", status="pending")
            if "fail" in text:
                say("**Error:** No such model: mock.")
                error = {"code": -32603, "message": "Internal error", "data": {"details": "No such model: mock"}}
                out(id=got["id"], error=error)
                continue
            say("The answer.")
            stop = "banana" if text == "odd" else "end_turn"
            out(id=got["id"], result=None if text == "null" else {"stopReason": stop})
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    async with World(tmp_path, command=(sys.executable, str(program))) as world:
        yield world


async def items(world: World, kind: str) -> list[dict[str, Any]]:
    snapshot = await anext(world.gateway.watch("s"))
    return [item for item in snapshot["items"] if item["kind"] == kind]


async def test_a_greeting_before_the_first_prompt_is_a_notice_and_no_answer(world: World) -> None:
    assert await world.ask("hello") == ["The answer."]
    assert [item["text"] for item in await items(world, "notice")] == ["\u2139 New session\nUsing model mock"]
    assert await world.ask("again") == ["The answer.", "The answer."]
    assert len(await items(world, "notice")) == 1


async def test_a_failure_that_the_agent_tells_itself_is_told_once(world: World) -> None:
    await world.ask("fail")
    texts = [(entry["role"], entry["text"]) for entry in await world.entries() if entry["role"] != "user"]
    assert texts == [
        ("agent", "**Error:** No such model: mock."),
        ("notice", "The agent's turn failed, as it says itself."),
    ]


async def test_in_a_chat_a_failure_that_the_agent_tells_itself_is_told_once_and_the_books_hold(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    platform = Platform()
    channel = FakeChannel("chat", Safety.IDEMPOTENT, platform)
    async with World(
        tmp_path, command=(sys.executable, str(tmp_path / "agent.py")), channels={"chat": channel},
        channel_settings={"chat": ChannelSettings(name="chat", kind="fake")},
    ) as world:  # fmt: skip
        await world.ask("fail", "demo:chat:room")
        await world.sent()
        assert [post.text for post in platform.log] == ["**Error:** No such model: mock."]
        await world.balanced()


async def test_a_retry_that_the_agent_announces_is_shown(world: World) -> None:
    assert await world.ask("retry") == ["The answer."]
    told = [item["text"] for item in await items(world, "notice")]
    assert told[-1] == "The agent's model request failed (HTTP 429). The agent is trying again."


async def test_no_tool_call_is_pending_after_its_turn(world: World) -> None:
    await world.ask("pending")
    (call,) = await items(world, "tool")
    assert (call["status"], call.get("live", False)) == ("no result", False)


async def test_a_stop_reason_that_acp_does_not_have_ends_the_turn_and_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for text, told in (("null", "None"), ("odd", "'banana'")):
        caplog.clear()
        await world.ask(text)
        (line,) = [line for line in caplog.messages if "stop reason" in line]
        assert line.endswith(f"taken as end_turn: {told}")
    caplog.clear()
    await world.ask("again")
    assert not [line for line in caplog.messages if "stop reason" in line]
