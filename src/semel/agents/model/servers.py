"""MCP servers as a model agent's tools, through pydantic-ai's toolset. Each tool is named SERVER_TOOL for the model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import BinaryContent
from pydantic_ai.tools import ToolDefinition

from semel.agents.acp.environment import build_environment
from semel.agents.model.builtin import ToolResult
from semel.gateway.ports import AgentError
from semel.gateway.settings import McpSettings

Json = dict[str, Any]
log = logging.getLogger("semel.agents")

START_TIMEOUT_S, CALL_TIMEOUT_S = 30.0, 600.0  # to initialize; to answer a call
SERVER_ERROR_CODES = frozenset({-32601, -32602, -32603})  # JSON-RPC 2.0, section 5.1: sent by the server
STOP_TIMEOUT_S = 10.0  # for one server to shut down
MAX_RESULT_CHARS = 60_000  # of a result, as the model reads it


class McpServers:
    """The MCP servers of one conversation, from `open` to `close`."""

    def __init__(self) -> None:
        self._servers: list[_McpConnection] = []
        self._tools: dict[str, tuple[_McpConnection, str]] = {}
        self.definitions: list[ToolDefinition] = []

    def __repr__(self) -> str:
        return f"<Servers with {len(self._tools)} tools>"

    @classmethod
    async def open(cls, agent: str, servers: Mapping[str, McpSettings], cwd: Path) -> McpServers:
        """Start or connect to all servers. If one fails, stops the others and raises AgentError."""
        self = cls()
        for name, one in servers.items():
            server = _McpConnection(name, one, cwd)
            self._servers.append(server)
            try:
                tools = await (await server.reached()).list_tools()
            except Exception as error:
                await self.close()
                raise AgentError(
                    f"the MCP server {name!r} of agent {agent!r} does not answer: {error or type(error).__name__}. "
                    f"See [agents.{agent}.mcp.{name}]",
                    passing=True,
                ) from error
            for tool in tools:
                told = _build_tool_name(name, tool.name)
                if told in self._tools:
                    log.warning("agent %s: MCP server %s: the name %s is taken; left out", agent, name, told)
                    continue
                self._tools[told] = (server, tool.name)
                self.definitions.append(_definition(told, dict(tool.input_schema), tool.description))
        return self

    def has(self, name: str) -> bool:
        return name in self._tools

    async def call(self, name: str, given: Json) -> tuple[ToolResult, Any]:
        """Call a tool; returns (result for people, content for the model). A server's error is a result, too.

        A call that the server did not answer is reported as "outcome unknown" and never repeated automatically
        (Law 9); the next call reconnects.
        """
        server, tool = self._tools[name]
        try:
            toolset = await server.reached()
        except Exception as error:
            text = f"Not done: the MCP server cannot be reached ({error or type(error).__name__})."
            return ToolResult(text, ok=False), text
        try:
            found = await toolset.direct_call_tool(tool, given)
        except ToolFailed as failed:
            return ToolResult(failed.message, ok=False), failed.message
        except Exception as error:  # the server died or the transport broke
            if isinstance(error, ModelRetry) and _is_server_error(error):
                return ToolResult(error.message, ok=False), error.message
            await server.let_go()
            text = f"Outcome unknown: the MCP server did not answer ({error or type(error).__name__})."
            return ToolResult(text, ok=False), text
        return ToolResult(_render_result(found)), found if _has_binary(found) else _render_result(found)

    async def close(self) -> None:
        for server in self._servers:
            await server.let_go()


class _McpConnection:
    """One server: connected at its first use, and reconnected after a call that it did not answer."""

    def __init__(self, name: str, settings: McpSettings, cwd: Path) -> None:
        self._name = name
        self._settings = settings
        self._cwd = cwd
        self._stack: contextlib.AsyncExitStack | None = None
        self._toolset: MCPToolset[Any] | None = None

    def __repr__(self) -> str:
        return f"<_Server {self._name}, {'reached' if self._toolset is not None else 'not reached'}>"

    async def reached(self) -> MCPToolset[Any]:
        """The open toolset, after connecting if necessary. Raises whatever the connection attempt raises."""
        if self._toolset is None:
            toolset = _build_toolset(self._name, self._settings, self._cwd)
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(toolset)
                self._stack, self._toolset = stack.pop_all(), toolset
        assert self._toolset is not None
        return self._toolset

    async def let_go(self) -> None:
        """Close the connection and stop the server; errors are ignored, as it may be dead already."""
        stack, self._stack, self._toolset = self._stack, None, None
        if stack is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(stack.aclose(), STOP_TIMEOUT_S)


def _build_toolset(name: str, one: McpSettings, cwd: Path) -> MCPToolset[Any]:
    more: dict[str, Any] = {
        "id": name,
        "tool_error_behavior": "failed",
        "init_timeout": START_TIMEOUT_S,
        "read_timeout": CALL_TIMEOUT_S,
    }
    if one.url:
        return MCPToolset(one.url, headers=dict(one.headers) or None, **more)
    env = build_environment(one.command, one.env)
    transport = StdioTransport(
        one.command[0], list(one.command[1:]), env=env, cwd=str(cwd), keep_alive=False, log_file=Path(os.devnull)
    )
    return MCPToolset(transport, **more)


def _is_server_error(error: ModelRetry) -> bool:
    """Whether the error is an answer of the server (unknown tool, wrong arguments), so the call had no effect."""
    told = getattr(error.__cause__ or error.__context__, "error", None)
    return getattr(told, "code", None) in SERVER_ERROR_CODES


def _build_tool_name(server: str, tool: str) -> str:
    """SERVER_TOOL as model APIs accept it: letters, digits, `_` and `-`, at most 64 characters."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}")[:64]


def _has_binary(found: Any) -> bool:
    return isinstance(found, BinaryContent) or (isinstance(found, list) and any(map(_has_binary, found)))


def _render_result(found: Any) -> str:
    if isinstance(found, BinaryContent):
        return f"[{found.media_type}, {len(found.data)} bytes]"
    if isinstance(found, list):
        return "\n".join(map(_render_result, found))
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)
    return (
        text
        if len(text) <= MAX_RESULT_CHARS
        else f"{text[:MAX_RESULT_CHARS]}\n[{len(text) - MAX_RESULT_CHARS} characters left out]"
    )


def _definition(name: str, schema: Json, description: str | None) -> ToolDefinition:
    return ToolDefinition(name=name, parameters_json_schema=schema, description=description)
