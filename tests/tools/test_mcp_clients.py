"""The official SDK's client against our server: what it accepts, other clients built on it accept."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from semel.tools.catalogue import TOOLS

if TYPE_CHECKING:
    import mcp

    from .conftest import Recorder


def open_client(gateway: Recorder, mode: Any) -> mcp.Client:
    import mcp  # here, as it is slow, and every worker of a run imports all tests
    from mcp.client.stdio import stdio_client

    env = {"SEMEL_SOCKET": os.fspath(gateway.path), "SEMEL_TOKEN": "secret"}
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "semel.tools"], env=env)
    # The SDK's default for `errlog` is the stderr of its import, which may have been a test's capture.
    return mcp.Client(stdio_client(server, errlog=sys.__stderr__), mode=mode)


@pytest.mark.parametrize(
    ("mode", "version"),
    [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")],
)
async def test_the_official_client_connects_lists_and_calls(gateway: Recorder, mode: Any, version: str) -> None:
    from mcp import MCPError

    gateway.names = ["ops"]
    async with open_client(gateway, mode) as client:
        assert client.session.protocol_version == version
        tools = (await client.list_tools()).tools
        names = [tool.name for tool in tools]
        assert names == [tool.name for tool in TOOLS]
        assert all(tool.annotations for tool in tools)
        dangerous = [tool.name for tool in tools if tool.annotations and tool.annotations.destructive_hint is not False]
        assert dangerous == ["run_in_background"]
        told = await client.call_tool("send_message", {"text": "hé 🌍"}, meta={"callId": "c1"})
        assert [block.text for block in told.content if block.type == "text"] == ["sent"]
        assert told.is_error is False
        refused = await client.call_tool("send_message", {"words": "x"})
        assert refused.is_error is True
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("shout", {})
    (call,) = gateway.calls
    assert call["arguments"] == {"text": "hé 🌍"}
    assert call["meta"]["callId"] == "c1"


async def test_the_official_client_is_given_the_gateways_instructions(gateway: Recorder) -> None:
    gateway.instructions = "You may reach ops."
    for mode in ("legacy", "auto"):
        async with open_client(gateway, mode) as client:
            assert client.session.instructions == "You may reach ops."


async def test_the_official_client_calls_fifty_times_at_once(gateway: Recorder) -> None:
    """Of a tool that says nothing: those that do are called one after the other."""
    waiting = asyncio.Event()

    async def answer(params: dict[str, Any]) -> dict[str, Any]:
        if len(gateway.calls) == 50:
            waiting.set()
        await waiting.wait()
        return {"ok": True, "text": params["arguments"]["id"]}

    gateway.on_call = answer
    async with open_client(gateway, "legacy") as client:
        calls = [client.call_tool("cancel_background", {"id": str(n)}) for n in range(50)]
        answers = await asyncio.wait_for(asyncio.gather(*calls), 30)
    assert [b.text for a in answers for b in a.content if b.type == "text"] == [str(n) for n in range(50)]
    assert len({call["call"] for call in gateway.calls}) == 50
