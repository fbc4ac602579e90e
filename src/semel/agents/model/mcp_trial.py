"""Try each MCP server of a model agent alone: connect to it, list its tools, and disconnect. No tool is called.

A conversation needs all of its servers, so one that fails here would fail the agent's next turn.
"""

from __future__ import annotations

import asyncio
import http
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from semel.agents.model.mcp_servers import McpConnection, describe_failure
from semel.gateway.settings import McpSettings
from semel.text.wellformed import shorten_to_line

STATUS_TIMEOUT_S = 5.0
MAX_WORDS_BYTES, MAX_WORDS_CHARS = 4_000, 300  # how much of what a command wrote to stderr is read, and is told
MIN_SECRET_CHARS = 8
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
    with tempfile.TemporaryDirectory(prefix="semel-mcp-") as folder:
        stderr = Path(folder) / "stderr"
        connection = McpConnection(name, settings, cwd, stderr)
        try:
            return ServerTrial(name, len(await connection.list_tools()))
        except Exception as error:  # of the server, the system or the client's library
            reason = describe_failure(error)
        finally:
            await connection.disconnect()
        details = _read_last_words(stderr) if settings.command else await _describe_status(settings)
    words = _hide_secrets(f"{reason}{details}", settings)
    problem = f"the MCP server {name!r} cannot be used: {words} (correct [agents.{agent}.mcp.{name}])"
    return ServerTrial(name, problem=problem)


def _hide_secrets(text: str, settings: McpSettings) -> str:
    """Return the text with the values of `env` and `headers` replaced, as far as they are long enough to be secrets."""
    for value in (*settings.env.values(), *settings.headers.values()):
        if len(value) >= MIN_SECRET_CHARS:
            text = text.replace(value, "(hidden)")
    return text


def _read_last_words(stderr: Path) -> str:
    """Return the last line that the command wrote to stderr, as the end of a sentence; "" if it wrote none."""
    try:
        text = stderr.read_bytes()[-MAX_WORDS_BYTES:].decode(errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    return f"; it wrote: {shorten_to_line(lines[-1], MAX_WORDS_CHARS).rstrip('.')}" if lines else ""


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
