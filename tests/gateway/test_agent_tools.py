"""Whether an agent has Semel's tools: over HTTP where it starts no MCP server, and said where it has none."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx2
import pytest
from gateway_world import World, script, until

from semel.faces.config.load import DEMO_COMMAND
from semel.faces.http import Settings, make_app
from semel.faces.http.server import serve
from semel.gateway.turns import agent_pool
from semel.tools.http_tools import MCP_PATH

CANNOT = "cannot send messages or files in the middle of its turn"


@asynccontextmanager
async def opened(
    path: Path, *args: str, port: bool = True, mcp_transport: str | None = None, **settings: Any
) -> AsyncIterator[World]:
    """A world whose gateway also serves a port, and whose scripted agent has these options, and these settings."""
    async with World(path, args=args, agent={"mcp_transport": mcp_transport}, **settings) as world:
        server = await serve(make_app(world.gateway, Settings()), "127.0.0.1", 0)
        world.gateway.spawns.tools_url = server.url + MCP_PATH if port else None
        try:
            yield world
        finally:
            await server.stop(0.0)


async def status_of(world: World) -> dict[str, Any]:
    (agent,) = (await world.gateway.status())["agents"]
    return dict(agent)


async def session_of(world: World) -> dict[str, Any]:
    (session,) = await world.gateway.sessions()
    return dict(session)


async def test_an_agent_that_takes_tools_over_http_only_speaks_in_mid_turn(tmp_path: Path) -> None:
    async with opened(tmp_path, "--name", "copilot", "--mcp", "http") as world:
        send = {"call": "send_message", "arguments": {"text": "On it."}}
        assert await world.ask(script(send, "Done.")) == ["On it.", "Done."]
        assert (await status_of(world))["tools"] is True
        assert await world.ask(script(send, "On it.")) == ["On it.", "Done.", "On it."]  # the closing text is an echo


async def test_a_token_over_http_is_of_no_use_after_its_process(tmp_path: Path) -> None:
    async with opened(tmp_path, "--name", "copilot", "--mcp", "http") as world:
        await world.ask(script("Hello."))
        (live,) = world.gateway.spawns.live.values()
        agent: Any = live.conversation
        await world.gateway.spawns.drop(live, "for a test")
        assert agent.process.code is not None
        await world.ask(script({"call": "send_message", "arguments": {"text": "New."}}, "End."))
        assert await world.texts("s", "agent") == ["Hello.", "New.", "End."]


@pytest.mark.parametrize("transport", ["http", None])
async def test_an_unknown_agent_that_takes_http_servers_only_has_tools_as_configured_or_is_told_of_the_setting(
    tmp_path: Path, transport: str | None, monkeypatch: Any
) -> None:
    monkeypatch.setattr(agent_pool, "TOOLS_START_TIMEOUT_S", 0.05)
    async with opened(tmp_path, "--mcp", "http", mcp_transport=transport) as world:
        send = {"call": "send_message", "arguments": {"text": "On it."}}
        if transport:
            assert await world.ask(script(send, "Done.")) == ["On it.", "Done."]
            return
        assert await world.ask("say: hello") == ["hello"]

        async def told() -> bool:
            return (await session_of(world)).get("tools") is False

        await until(told)
        assert 'set mcp_transport = "http" under [agents.' in (await status_of(world))["problem"]


async def test_an_agent_that_is_to_have_its_tools_over_stdio_is_not_offered_them_over_http(tmp_path: Path) -> None:
    async with opened(tmp_path, "--name", "copilot", "--mcp", "stdio", mcp_transport="stdio") as world:
        send = {"call": "send_message", "arguments": {"text": "On it."}}
        assert await world.ask(script(send, "Done.")) == ["On it.", "Done."]


@pytest.mark.parametrize(
    ("args", "port", "why"),
    [
        (("--mcp", "refused"), True, "it refuses MCP servers (per-session mcpServers are not supported)"),
        (("--name", "copilot", "--mcp", "http"), False, "the gateway does not listen on loopback"),
        (("--name", "copilot", "--mcp", "ignored"), True, "it starts no MCP servers"),
        (("--mcp", "ignored"), True, "it has not started Semel's MCP server"),
    ],
)
async def test_an_agent_without_tools_is_told_of_once(
    tmp_path: Path, args: tuple[str, ...], port: bool, why: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(agent_pool, "TOOLS_START_TIMEOUT_S", 0.05)
    log = Mock()
    monkeypatch.setattr(agent_pool, "log", log)
    async with opened(tmp_path, *args, port=port) as world:
        assert await world.ask("say: hello") == ["hello"]

        async def told() -> bool:
            return (await session_of(world)).get("tools") is False

        await until(told)
        agent = await status_of(world)
        assert agent["tools"] is False
        assert why in agent["problem"]
        assert CANNOT in agent["problem"]
        await world.gateway.say("other", "say: hello")
        await world.idle("other")
        await asyncio.sleep(0.1)
        assert [call.args[0] for call in log.warning.call_args_list].count("agent has no tools") == 1


async def test_an_agent_that_starts_its_tools_late_has_them_after_all(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(agent_pool, "TOOLS_START_TIMEOUT_S", 0.05)
    async with opened(tmp_path) as world:
        await world.ask("say: hello")

        async def is_told(tools: bool) -> bool:
            return (await session_of(world)).get("tools") is tools

        await until(lambda: is_told(False))
        await world.ask(script({"call": "send_message", "arguments": {"text": "Here."}}, "End."))
        await until(lambda: is_told(True))
        assert (await status_of(world))["problem"] == ""


async def test_the_demo_has_its_tools_before_it_calls_one(tmp_path: Path) -> None:
    async with World(tmp_path, command=DEMO_COMMAND, env={"XDG_STATE_HOME": str(tmp_path / "state")}) as world:
        await world.ask("say: hello")

        async def has_tools() -> bool:
            return (await status_of(world))["tools"] is True

        await until(has_tools)


async def test_the_agent_of_the_documentation_speaks_over_http_and_so_does_curl_with_its_token(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", docs, re.DOTALL) if "ClientSession" in block]
    (tmp_path / "agent.py").write_text(code)
    command = (sys.executable, str(tmp_path / "agent.py"))
    async with opened(tmp_path, command=command, mcp_transport="http") as world:
        assert await world.ask("hello") == ["On it.", "Done."]
        (server,) = json.loads(next(world.work.glob("servers-*.json")).read_text())
        headers = {header["name"]: header["value"] for header in server["headers"]}
        list_tools, call_tool = re.findall(r"-d '(.*)'", docs)
        async with httpx2.AsyncClient(headers=headers, timeout=30) as curl:
            tools = (await curl.post(server["url"], content=list_tools)).json()["result"]["tools"]
            answer = (await curl.post(server["url"], content=call_tool)).json()
        assert "send_message" in [tool["name"] for tool in tools]
        assert answer["result"]["content"][0]["text"].startswith("sent (id c")
        assert await world.texts("s", "agent") == ["On it.", "Done.", "From curl."]
