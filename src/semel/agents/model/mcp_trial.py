"""Try each MCP server of a model agent alone: connect to it, list its tools, and disconnect. No tool is called.

A conversation needs all of its servers, so one that fails here would fail the agent's next turn.
"""

from __future__ import annotations

import asyncio
import http
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from semel.agents.model.mcp_servers import McpConnection
from semel.gateway.settings import McpSettings

STATUS_TIMEOUT_S = 5.0
_INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "semel", "version": "1"}},
}
_REFUSALS = (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN)


@dataclass(frozen=True)
class ServerTrial:
    """What was found of one server. `tools`: how many it lists. `problem`: why it cannot be used; "" if it can."""

    name: str
    tools: int = 0
    problem: str = ""


async def try_servers(agent: str, servers: Mapping[str, McpSettings], cwd: Path) -> list[ServerTrial]:
    """Try all servers at once, in START_TIMEOUT_S and the time that they take to stop. `agent`: its name."""
    return list(await asyncio.gather(*(_try_server(agent, name, server, cwd) for name, server in servers.items())))


async def _try_server(agent: str, name: str, settings: McpSettings, cwd: Path) -> ServerTrial:
    connection = McpConnection(name, settings, cwd)
    try:
        return ServerTrial(name, len(await connection.list_tools()))
    except Exception as error:  # of the server, the system or the client's library
        reason = connection.describe_failure(error)
    finally:
        await connection.disconnect()
    status = "" if settings.command else await _describe_status(settings)
    problem = f"the MCP server {name!r} cannot be used: {reason}{status} (correct [agents.{agent}.mcp.{name}])"
    return ServerTrial(name, problem=problem)


async def _describe_status(settings: McpSettings) -> str:
    """Return the HTTP status if a URL refuses each request, as the end of a sentence; "" if it does not.

    The client's library says only that it got an error.
    """
    headers = {"Accept": "application/json, text/event-stream", **settings.headers}
    try:
        async with httpx2.AsyncClient(timeout=STATUS_TIMEOUT_S, trust_env=False) as client:
            status = (await client.post(settings.url, json=_INITIALIZE, headers=headers)).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return ""
    if status < http.HTTPStatus.BAD_REQUEST:
        return ""
    advice = ": are its `headers` right?" if status in _REFUSALS else ""
    return f" (HTTP {status} {httpx2.codes.get_reason_phrase(status)}){advice}"
