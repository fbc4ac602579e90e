"""MCP servers whose tools a model agent gets, through pydantic-ai's toolset. The model sees a tool as SERVER_TOOL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from fastmcp.client.transports import StdioTransport
from mcp.types import Tool
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import BinaryContent
from pydantic_ai.tools import ToolDefinition

from semel.agents.acp.environment import build_environment
from semel.agents.acp.pipes import StderrReader
from semel.agents.model.builtin import ToolResult
from semel.gateway.ports import AgentError
from semel.gateway.settings import McpSettings
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line

log = logging.getLogger("semel.agents")

START_TIMEOUT_S, CALL_TIMEOUT_S = 30.0, 600.0  # for a server to list its tools, and to answer a call
SERVER_ERROR_CODES = frozenset({-32601, -32602, -32603})  # errors that the server sends (JSON-RPC 2.0, section 5.1)
STOP_TIMEOUT_S = 10.0  # for a server to shut down
MAX_RESULT_CHARS = 60_000  # how much of a result the model reads
MAX_WORDS_CHARS = 300  # how much is told of the error that a command wrote to stderr
MIN_SECRET_CHARS = 8


class McpServers:
    """The MCP servers of one conversation. `open` starts them; `close` stops them."""

    def __init__(self) -> None:
        self._servers: list[McpConnection] = []
        self._tools: dict[str, tuple[McpConnection, str]] = {}
        self.definitions: list[ToolDefinition] = []

    def __repr__(self) -> str:
        return f"<McpServers with {len(self._tools)} tools>"

    @classmethod
    async def open(cls, agent: str, servers: Mapping[str, McpSettings], cwd: Path) -> McpServers:
        """Start or connect to all servers, list their tools, and return the servers.

        `agent`: the agent's name, for messages. `servers`: the settings by server name. If one server fails, the others
        are stopped, and AgentError is raised.
        """
        self = cls()
        for name, settings in servers.items():
            server = McpConnection(name, settings, cwd)
            self._servers.append(server)
            try:
                tools = await server.list_tools()
            except Exception as error:
                await self.close()
                raise AgentError(
                    f"the MCP server {name!r} of agent {agent!r} does not answer: {server.describe_failure(error)}. "
                    f"See [agents.{agent}.mcp.{name}], and try it: semel agents check {agent}",
                    passing=True,
                ) from error
            for tool in tools:
                model_name = _build_tool_name(name, tool.name)
                if model_name in self._tools:
                    log.warning("agent %s: MCP server %s: the name %s is taken; left out", agent, name, model_name)
                    continue
                self._tools[model_name] = (server, tool.name)
                self.definitions.append(
                    ToolDefinition(
                        name=model_name, parameters_json_schema=dict(tool.input_schema), description=tool.description
                    )
                )
        return self

    def has(self, name: str) -> bool:
        return name in self._tools

    async def call(self, name: str, arguments: Json) -> tuple[ToolResult, Any]:
        """Call a tool. Return (result for people, content for the model). Errors are returned as results, too.

        `name`: the model's name for the tool. If the server does not answer, the result is "outcome unknown": the call
        is never repeated automatically (Law 9), and the next call reconnects.
        """
        server, tool = self._tools[name]
        try:
            toolset = await server.connect()
        except Exception as error:
            text = f"Not done: the MCP server cannot be reached ({error or type(error).__name__})."
            return ToolResult(text, ok=False), text
        try:
            result = await toolset.direct_call_tool(tool, arguments)
        except ToolFailed as tool_error:
            return ToolResult(tool_error.message, ok=False), tool_error.message
        except Exception as error:  # the server died or the transport broke
            if isinstance(error, ModelRetry) and _is_server_error(error):
                return ToolResult(error.message, ok=False), error.message
            await server.disconnect()
            text = f"Outcome unknown: the MCP server did not answer ({error or type(error).__name__})."
            return ToolResult(text, ok=False), text
        return ToolResult(_render_result(result)), result if _has_binary(result) else _render_result(result)

    async def close(self) -> None:
        for server in self._servers:
            await server.disconnect()


class McpConnection:
    """The connection to one server. It is made at its first use, and again after a call that was not answered."""

    def __init__(self, name: str, settings: McpSettings, cwd: Path) -> None:
        self._name = name
        self._settings = settings
        self._cwd = cwd
        self._stderr: StderrReader | None = None  # of the last process
        self._stack: contextlib.AsyncExitStack | None = None
        self._toolset: MCPToolset[Any] | None = None

    def __repr__(self) -> str:
        return f"<McpConnection {self._name}, {'reached' if self._toolset is not None else 'not reached'}>"

    async def connect(self) -> MCPToolset[Any]:
        """Connect if necessary, and return the open toolset. Raises any exception of the connection attempt."""
        if self._toolset is None:
            async with contextlib.AsyncExitStack() as stack:
                stderr = self._open_stderr(stack) if self._settings.command else None
                toolset = _build_toolset(self._name, self._settings, self._cwd, stderr)
                await stack.enter_async_context(toolset)
                self._stack, self._toolset = stack.pop_all(), toolset
        assert self._toolset is not None
        return self._toolset

    def _open_stderr(self, stack: contextlib.AsyncExitStack) -> TextIO:
        """Return the file to which a command writes its stderr. It is always read, until `stack` closes."""
        read_end, write_end = os.pipe()
        self._stderr = StderrReader(os.fdopen(read_end, "rb", buffering=0), lambda line: None)
        stack.callback(self._stderr.close)
        stack.callback(self._stderr.drain)
        return stack.enter_context(os.fdopen(write_end, "w"))

    async def list_tools(self) -> list[Tool]:
        """Connect if necessary, and return the server's tools. Raises any exception of the attempt.

        Raises TimeoutError if the server does not list them within START_TIMEOUT_S.
        """
        async with asyncio.timeout(START_TIMEOUT_S):
            return await (await self.connect()).list_tools()

    async def disconnect(self) -> None:
        """Close the connection and stop the server. Ignore errors, because the server may already be dead."""
        stack, self._stack, self._toolset = self._stack, None, None
        if stack is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(stack.aclose(), STOP_TIMEOUT_S)

    def describe_failure(self, error: Exception) -> str:
        """Say why the server did not list its tools, with the error that its command wrote last to stderr.

        `error`: the exception that `list_tools` raised.
        """
        text, line = _describe_error(error), ""
        if self._stderr is not None:
            self._stderr.drain()
            line = shorten_to_line(_hide_secrets(self._stderr.error_line(), self._settings), MAX_WORDS_CHARS)
        return _hide_secrets(text, self._settings) + (f"; it wrote: {line.rstrip('.')}" if line else "")


def _hide_secrets(text: str, settings: McpSettings) -> str:
    """Return the text with the values of `env` and `headers` replaced, as far as they are long enough to be secrets."""
    for value in (*settings.env.values(), *settings.headers.values()):
        if len(value) >= MIN_SECRET_CHARS:
            text = text.replace(value, "(hidden)")
    return text


def _describe_error(error: Exception) -> str:
    """Say why a server did not list its tools, in its own words or the system's."""
    cause = error.__cause__ or error
    if isinstance(cause, FileNotFoundError):
        return f"command not found: {cause.filename!r}"
    if isinstance(error, TimeoutError) or isinstance(cause, TimeoutError):
        return f"it did not list its tools within {START_TIMEOUT_S:g} s"
    return str(error).removeprefix("Client failed to connect: ") or type(error).__name__


def _build_toolset(name: str, settings: McpSettings, cwd: Path, stderr: TextIO | None) -> MCPToolset[Any]:
    options: dict[str, Any] = {
        "id": name,
        "tool_error_behavior": "failed",
        "init_timeout": START_TIMEOUT_S,
        "read_timeout": CALL_TIMEOUT_S,
    }
    if settings.url:
        return MCPToolset(settings.url, headers=dict(settings.headers) or None, **options)
    env = build_environment(settings.command, settings.env)
    transport = StdioTransport(
        settings.command[0],
        list(settings.command[1:]),
        env=env,
        cwd=str(cwd),
        keep_alive=False,
        log_file=stderr,
    )
    return MCPToolset(transport, **options)


def _is_server_error(error: ModelRetry) -> bool:
    """Return whether the server itself answered with an error (unknown tool, wrong arguments).

    Then the outcome is known.
    """
    rpc_error = getattr(error.__cause__ or error.__context__, "error", None)
    return getattr(rpc_error, "code", None) in SERVER_ERROR_CODES


def _build_tool_name(server: str, tool: str) -> str:
    """Return the model's name for a server's tool: SERVER_TOOL, in the form that models' APIs accept.

    The name has at most 64 ASCII letters, digits, `_` and `-`; any other character becomes `_`.
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}")[:64]


def _has_binary(result: Any) -> bool:
    return isinstance(result, BinaryContent) or (isinstance(result, list) and any(map(_has_binary, result)))


def _render_result(result: Any) -> str:
    if isinstance(result, BinaryContent):
        return f"[{result.media_type}, {len(result.data)} bytes]"
    if isinstance(result, list):
        return "\n".join(map(_render_result, result))
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    return (
        text
        if len(text) <= MAX_RESULT_CHARS
        else f"{text[:MAX_RESULT_CHARS]}\n[{len(text) - MAX_RESULT_CHARS} characters left out]"
    )
