"""The part of MCP that a server with tools needs, without I/O: `receive` maps a line to the effects to carry out.

Two generations of MCP share one connection (modelcontextprotocol.io):
- with handshake (revisions 2024-11-05 to 2025-11-25): `initialize`, then requests;
- stateless (revision 2026-07-28): each request carries its revision in `_meta`, `server/discover` lists what is served.
Each request is answered in its own generation. Claude Code probes with `server/discover` and then initializes.

Two calls on one connection are always distinct, even with the same JSON-RPC id, which only routes the answer.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from semel import __version__
from semel.text.json_types import Json
from semel.text.wellformed import UNSTORABLE_ESCAPE, scrub
from semel.tools import catalogue
from semel.tools.catalogue import Greeting
from semel.tools.lines import MAX_LINE_BYTES, OverlongLine

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
UNSUPPORTED_VERSION = -32022

SERVER_INFO: Json = {"name": "semel", "title": "Semel", "version": __version__}
CAPABILITIES: Json = {"tools": {}}
CACHE_MS = 3_600_000  # one hour; the list does not change while this process lives

Id = int | str


class McpReply(NamedTuple):
    """Write this line to the agent."""

    message: Json


class McpCall(NamedTuple):
    """Forward this call to the gateway.

    given       the arguments as the agent wrote them; its ACP stream shows the same ones, so the gateway can match them
    arguments   the same after validation, with aliases resolved
    stateless   whether the answer must have the stateless format
    """

    id: Id
    name: str
    given: Json
    arguments: Json
    meta: Json
    stateless: bool


class McpCancel(NamedTuple):
    """The agent no longer waits for this request, which may be answered already or be unknown."""

    id: Id


Effect = McpReply | McpCall | McpCancel


class _InvalidRequest(Exception):
    def __init__(self, code: int, message: str, data: Json | None = None):
        super().__init__(message)
        self.error: Json = {"code": code, "message": message, **({"data": data} if data else {})}


def receive(line: bytes | OverlongLine, greeting: Greeting) -> list[Effect]:
    """Parse one line from the agent and return the effects to carry out."""
    if isinstance(line, OverlongLine):
        return _refuse_overlong_line(line)
    if not line.strip():
        return []
    try:
        message = _parse_json(line)
    except (ValueError, RecursionError):
        return [_make_error(None, {"code": PARSE_ERROR, "message": "The message is not JSON."})]
    if UNSTORABLE_ESCAPE.search(line):
        message = scrub(message)  # the JSON parser has joined surrogate pairs: only lone surrogates are left
    messages = message if isinstance(message, list) and message else [message]  # revision 2025-03-26 has batches
    return [effect for item in messages for effect in _receive_message(item, greeting)]


def answer(call: McpCall, text: str, *, ok: bool) -> Json:
    """Build the response to a call. A failed call is a result with `isError`, not an error, so the model reads it."""
    result: Json = {"content": [{"type": "text", "text": text}], "isError": not ok}
    return _make_response(call.id, result, call.stateless)


def _parse_json(line: bytes) -> Any:
    """Parse a line; bytes that are not UTF-8 become U+FFFD. Raises ValueError or RecursionError if it is not JSON.

    Python's parser accepts `NaN`, `Infinity` and 1e999, which JSON cannot express. They become null, so that a call
    that contains one can be passed on, and is answered under its id.
    """
    text = line.decode("utf-8", "replace")
    return json.loads(text, parse_constant=lambda _name: None, parse_float=_parse_float)


def _parse_float(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _refuse_overlong_line(line: OverlongLine) -> list[Effect]:
    """Answer an overlong line with an error. The id is read from the line's outline; without an answer to its id, the
    caller would wait forever."""
    try:
        message = _parse_json(line.outline)
    except (ValueError, RecursionError):
        message = None
    number = message.get("id") if isinstance(message, dict) and "method" in message else None
    if isinstance(number, bool) or not isinstance(number, int | str):
        number = None
    limit = f"{MAX_LINE_BYTES >> 20} MiB"
    text = f"Nothing was done: this call is larger than {limit}. Send a shorter text, or a file with send_file."
    return [_make_error(number, {"code": INVALID_REQUEST, "message": text})]


def _receive_message(message: Any, greeting: Greeting) -> list[Effect]:
    if not isinstance(message, dict):
        return [_make_error(None, {"code": INVALID_REQUEST, "message": "A message is a JSON object."})]
    method, params = message.get("method"), message.get("params")
    if method is None and ("result" in message or "error" in message):
        return []  # a response, although we send no requests
    if "id" not in message and isinstance(method, str):
        return _receive_notification(method, params)
    number = message.get("id")
    if isinstance(number, bool) or not isinstance(number, int | str):
        return [_make_error(None, {"code": INVALID_REQUEST, "message": "The id must be a string or an integer."})]
    try:
        return [_handle_request(number, method, params, greeting)]
    except _InvalidRequest as wrong:
        return [_make_error(number, wrong.error)]


def _receive_notification(method: str, params: Any) -> list[Effect]:
    if method != "notifications/cancelled" or not isinstance(params, dict):
        return []
    number = params.get("requestId")
    return [McpCancel(number)] if isinstance(number, int | str) and not isinstance(number, bool) else []


def _handle_request(number: Id, method: Any, params: Any, greeting: Greeting) -> Effect:
    if not isinstance(method, str):
        raise _InvalidRequest(INVALID_REQUEST, "A request names its method.")
    params = {} if params is None else params
    if not isinstance(params, dict):
        raise _InvalidRequest(INVALID_PARAMS, "params must be an object.")
    meta_value = params.get("_meta")
    meta: Json = meta_value if isinstance(meta_value, dict) else {}
    stateless = method != "initialize" and (method == "server/discover" or VERSION_KEY in meta)
    if stateless:
        _check_envelope(meta)
    if method == "tools/call":
        return _receive_call(number, params, meta, stateless)
    if method == "initialize":
        result = _initialize(params, greeting)
    elif method == "ping":
        result = {}
    elif method == "tools/list":
        result = {"tools": catalogue.list_tools(greeting), **_cache_fields(stateless)}
    elif method == "server/discover":
        result = {
            "supportedVersions": list(STATELESS_VERSIONS),
            **_server_description(greeting),
            **_cache_fields(stateless),
        }
    else:
        raise _InvalidRequest(METHOD_NOT_FOUND, f"Method not found: {method}")
    return McpReply(_make_response(number, result, stateless))


def _check_envelope(meta: Json) -> None:
    """Check the `_meta` of a stateless request: revision and client capabilities (2026-07-28, basic/index)."""
    version = meta.get(VERSION_KEY)
    if not isinstance(version, str) or not isinstance(meta.get(CAPABILITIES_KEY), dict):
        raise _InvalidRequest(INVALID_PARAMS, f"params._meta must carry {VERSION_KEY} and {CAPABILITIES_KEY}.")
    if version not in STATELESS_VERSIONS:
        data: Json = {"supported": list(STATELESS_VERSIONS), "requested": version}
        raise _InvalidRequest(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _initialize(params: Json, greeting: Greeting) -> Json:
    requested = params.get("protocolVersion")
    if not isinstance(requested, str):
        raise _InvalidRequest(INVALID_PARAMS, "protocolVersion must be a string.")
    version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return {"protocolVersion": version, "serverInfo": SERVER_INFO, **_server_description(greeting)}


def _server_description(greeting: Greeting) -> Json:
    return {"capabilities": CAPABILITIES, "instructions": greeting.instructions or catalogue.INSTRUCTIONS}


def _cache_fields(stateless: bool) -> Json:
    return {"ttlMs": CACHE_MS, "cacheScope": "private"} if stateless else {}


def _receive_call(number: Id, params: Json, meta: Json, stateless: bool) -> Effect:
    name, raw_arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or not isinstance(raw_arguments, dict | None):
        raise _InvalidRequest(INVALID_PARAMS, "tools/call takes a name and an object of arguments.")
    if name not in catalogue.TOOLS_BY_NAME:
        names = ", ".join(catalogue.TOOLS_BY_NAME)
        raise _InvalidRequest(INVALID_PARAMS, f"Unknown tool: {name}. There are: {names}.")
    raw_arguments = raw_arguments or {}
    arguments = catalogue.check_arguments(name, raw_arguments)
    call = McpCall(number, name, raw_arguments, {}, meta, stateless)
    if isinstance(arguments, str):
        return McpReply(answer(call, arguments, ok=False))
    return call._replace(arguments=arguments)


def _make_response(number: Id, result: Json, stateless: bool) -> Json:
    if stateless:
        result = {"resultType": "complete", **result, "_meta": {SERVER_KEY: SERVER_INFO}}
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _make_error(number: Id | None, error: Json) -> McpReply:
    return McpReply({"jsonrpc": "2.0", "id": number, "error": error})
