"""MCP servers that a client gives to a session's agent: it gets them at every start, and nobody else sees them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script

from semel.gateway.errors import BadRequest

Json = dict[str, Any]
SERVER = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    elif m.get("method") == "tools/list":
        result = {"tools": [{"name": "water", "inputSchema": {"type": "object"}}]}
    elif m.get("method") == "tools/call":
        result = {"content": [{"type": "text", "text": "watered"}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
"""


def stdio(tmp_path: Path, name: str = "garden") -> Json:
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    env = [{"name": "KEY", "value": "sesame"}]
    return {"name": name, "command": sys.executable, "args": [str(program)], "env": env}


async def test_a_sessions_agent_has_the_servers_at_every_start_until_they_are_removed(tmp_path: Path) -> None:
    use = script({"call": "water"}, "Done.")
    async with World(tmp_path) as w:
        await w.gateway.make_session("s")
        await w.gateway.set_mcp_servers("s", [stdio(tmp_path)])
        for _ in range(2):
            await w.ask(use)
            await w.gateway.spawns.end(1, "a test")
        items = (await w.gateway.history("s", 1 << 60))["items"]
        assert [(one["status"], one["text"]) for one in items if one["kind"] == "tool"] == [("done", "watered")] * 2
        (kept,) = (w.gateway.settings.data_dir / "mcp-servers").iterdir()
        assert kept.stat().st_mode & 0o777 == 0o600 and json.loads(kept.read_text())[0]["name"] == "garden"
        assert "sesame" not in str(await w.gateway.session("s"))
        await w.gateway.set_mcp_servers("s", [])
        assert not list((w.gateway.settings.data_dir / "mcp-servers").iterdir())


async def test_a_transport_that_the_agent_does_not_take_is_left_out_and_semels_own_name_is_kept(tmp_path: Path) -> None:
    remote = {"type": "sse", "name": "far", "url": "https://example.org/mcp", "headers": []}
    async with World(tmp_path) as w:
        await w.gateway.make_session("s")
        await w.gateway.set_mcp_servers("s", [remote, stdio(tmp_path, "semel")])
        assert [one["name"] for one in w.gateway.mcp_servers.read(1)] == ["far"]
        assert await w.ask(script("Hi.")) == ["Hi."]


async def test_deleting_a_session_removes_its_servers(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.make_session("s")
        await w.gateway.set_mcp_servers("s", [stdio(tmp_path)])
        await w.gateway.delete("s")
        assert w.gateway.mcp_servers.read(1) == []


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x"}, {"name": "x"}, {"name": "x", "command": "y", "args": "z"}, {"name": "x", "type": "http"},
        {"name": "x", "type": "ws", "url": "ws://here"},
    ],
)  # fmt: skip
async def test_what_is_no_server_is_refused(tmp_path: Path, server: Json) -> None:
    async with World(tmp_path) as w:
        await w.gateway.make_session("s")
        reason = "servers: 'x' has the type 'ws'; the types are" if server.get("type") == "ws" else "servers: "
        with pytest.raises(BadRequest, match=reason):
            await w.gateway.set_mcp_servers("s", [server])
