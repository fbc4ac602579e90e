"""Semel's MCP server over HTTP, for agents that start no MCP server over stdio (MCP, "Streamable HTTP").

It runs in the gateway. Each POST has one JSON-RPC message, or a batch, and gets its answer as JSON: no tool reports
progress, so there are no event streams. `protocol` reads the messages, as for stdio.

Calls are idempotent (Law 5). `initialize` starts a session, whose id is the connection's, and MCP forbids using a
request's id twice in a session. So a call's id is made of both, and a POST that an HTTP client sends again is the same
call. A request outside of a session is a connection of its own: a call that equals an earlier one counts as a repeat
only if that one was never answered.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass

from semel.text.json_types import Json
from semel.tools import outcomes, protocol
from semel.tools.in_process_tools import Handler, InProcessTools
from semel.tools.protocol import McpCall, McpReply

MCP_PATH = "/v1/tools/mcp"
_SESSION_ID = re.compile(r"[0-9a-f]{16}")
_VERSIONS = (*protocol.HANDSHAKE_VERSIONS, *protocol.STATELESS_VERSIONS)


@dataclass(frozen=True)
class McpPost:
    """A POST. `token`: the bearer token. `session`, `version`: the headers Mcp-Session-Id and MCP-Protocol-Version;
    "" if they are missing."""

    token: str
    body: bytes
    session: str = ""
    version: str = ""


@dataclass(frozen=True)
class McpAnswer:
    """The answer to a POST: its status, its JSON body (None: none), and the header Mcp-Session-Id ("": none)."""

    status: int
    body: Json | list[Json] | None = None
    session: str = ""


class HttpToolCalls:
    """The tool calls of one POST. `handler`: the gateway's handler of tool requests, which also checks the token."""

    def __init__(self, handler: Handler, post: McpPost) -> None:
        self._handler = handler
        self._post = post
        self._tools = InProcessTools(handler, post.token, post.session)
        self._answered_calls: list[str] = []

    async def answer(self) -> McpAnswer:
        """Carry out what the POST asks for. Raises UnknownSpawn for a wrong token."""
        post = self._post
        greeting = outcomes.parse_greeting(await self._handler("hello", {"token": post.token}))
        if post.version and post.version not in _VERSIONS:
            return _make_refusal(400, f"MCP-Protocol-Version: {post.version!r} is none of {', '.join(_VERSIONS)}.")
        if post.session and not _SESSION_ID.fullmatch(post.session):
            return _make_refusal(404, "There is no such session; send `initialize`.")
        replies = [await self._carry_out(effect) for effect in protocol.receive(post.body, greeting)]
        messages = [message for message in replies if message is not None]
        is_new = any("protocolVersion" in message.get("result", {}) for message in messages)  # it was `initialize`
        body = messages if len(messages) > 1 else next(iter(messages), None)
        return McpAnswer(200 if messages else 202, body, self._tools.conn if is_new else "")

    async def confirm(self) -> None:
        """Tell the gateway that the agent has the answers. Call it after they were written."""
        for call_id in self._answered_calls:
            await self._tools.confirm(call_id)

    async def _carry_out(self, effect: protocol.Effect) -> Json | None:
        """Carry out an effect of a message; returns the message that answers it."""
        if isinstance(effect, McpReply):
            return effect.message
        if not isinstance(effect, McpCall):
            return None  # a call that is cancelled runs on
        number = _digest_id(effect.id) if self._post.session else os.urandom(8).hex()
        call_id = f"{self._tools.conn}-{number}"
        outcome = await self._tools.forward(call_id, effect.name, effect.arguments, effect.given, effect.meta)
        if outcomes.is_outcome_known(outcome):
            self._answered_calls.append(call_id)
        text, ok = outcomes.render_outcome(outcome, 0.0)
        return protocol.answer(effect, text, ok=ok)


def _digest_id(id: protocol.Id) -> str:
    """Return the JSON-RPC id of a request as a short text; 1 and "1" are different ids."""
    return hashlib.blake2b(json.dumps(id).encode(), digest_size=8).hexdigest()


def _make_refusal(status: int, message: str) -> McpAnswer:
    error = {"code": protocol.INVALID_REQUEST, "message": message}
    return McpAnswer(status, {"jsonrpc": "2.0", "id": None, "error": error})
