"""Operations for agents' MCP processes: describe the session, call Semel's tools, confirm that an answer arrived.

They are served on the unix socket only, and are not part of the documented API: both ends have the same version. The
bearer token is the fencing token of the agent's spawn (Law 10).

MCP itself is served on loopback, too, for agents that start no MCP process (`semel.tools.http_tools`).
"""

from __future__ import annotations

from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import Response

from semel.faces.http.routing import ApiCall, RequestBody, Returns, Router, decode_body, json_response, read_bytes
from semel.faces.http.security import Access, get_bearer_token
from semel.tools.gateway_link import MAX_BODY_BYTES
from semel.tools.http_tools import MCP_PATH, HttpToolCalls, McpPost

router = Router("tools")


class ToolCallBody(RequestBody, omit_defaults=True):
    """A `tools/call` of the agent. `conn` identifies the MCP process, `call` the call; a repeat has the same ids.

    `arguments` are validated and include the defaults. `given`: the arguments as the agent sent them, if they differ.
    `meta`: the call's `_meta`.
    """

    conn: str
    call: str
    name: str
    arguments: dict[str, Any]
    given: dict[str, Any] | None = None
    meta: Any = None


class ToolCallAnsweredBody(RequestBody):
    """The agent received the answer of `call`.

    An equal call of another MCP process then counts as a new call, unless its tool call id is the same.
    """

    call: str


@router.route("POST", "/v1/tools/call", Returns("The tool's result.", dict), access=Access.SPAWN, streamed=True)
async def call_tool(call: ApiCall) -> Response:
    """Call one of Semel's tools. A repeat gets the first outcome."""
    tool_call: ToolCallBody = decode_body(await read_bytes(call.request, MAX_BODY_BYTES), ToolCallBody)
    params = {"arguments": tool_call.arguments, "meta": tool_call.meta}
    if tool_call.given is not None:
        params["given"] = tool_call.given
    ids = {"conn": tool_call.conn, "call": tool_call.call, "name": tool_call.name}
    return await _call_gateway(call, "call", ids | params)


@router.route("POST", "/v1/tools/answered", Returns("Noted.", dict), access=Access.SPAWN)
async def note_answered(call: ApiCall, body: ToolCallAnsweredBody) -> Response:
    """Note that the agent has the answer of a call."""
    return await _call_gateway(call, "answered", {"call": body.call})


@router.route("POST", "/v1/tools/hello", Returns("The session.", dict), access=Access.SPAWN)
async def describe_session(call: ApiCall) -> Response:
    """Describe the session of an agent process: its destinations, its workspace and the instructions for the model."""
    return await _call_gateway(call, "hello", {})


@router.route("POST", MCP_PATH, Returns("The answer.", dict), access=Access.LOOPBACK_SPAWN, streamed=True)
async def serve_mcp(call: ApiCall) -> Response:
    """Answer an MCP client over HTTP (MCP, "Streamable HTTP")."""
    request = call.request
    session, version = (request.headers.get(name, "") for name in ("mcp-session-id", "mcp-protocol-version"))
    body = await read_bytes(request, MAX_BODY_BYTES)
    calls = HttpToolCalls(call.gateway.tools, McpPost(get_bearer_token(request), body, session, version))
    answer = await calls.answer()
    # A client could send its next call while the server closes the idle connection, and would not repeat it.
    headers = {"Connection": "close"} | ({"Mcp-Session-Id": answer.session} if answer.session else {})
    response = Response(status_code=202) if answer.body is None else json_response(answer.body, answer.status)
    response.headers.update(headers)
    if not await request.is_disconnected():
        response.background = BackgroundTask(calls.confirm)
    return response


async def _call_gateway(call: ApiCall, method: str, params: dict[str, Any]) -> Response:
    return json_response(await call.gateway.tools(method, {"token": get_bearer_token(call.request), **params}))
