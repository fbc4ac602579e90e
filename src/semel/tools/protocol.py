"""MCP as far as a server with tools needs it: a line from the agent in, what to do about it out. No I/O.

Two eras share one connection (modelcontextprotocol.io, revisions 2024-11-05 to 2025-11-25, and 2026-07-28):
- the handshake era: `initialize`, then requests;
- the stateless era: each request carries its revision in `_meta`, and `server/discover` tells what is served.
Each request is answered in the era it speaks. Claude Code probes with `server/discover` and then initializes.

Within one connection every tools/call is distinct: a JSON-RPC id decides nothing but where the answer goes.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from semel import __version__
from semel.tools import catalogue
from semel.tools.catalogue import Greeting, Json
from semel.tools.lines import LIMIT, TooLong

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
UNSUPPORTED_VERSION = -32022

SERVER: Json = {"name": "semel", "title": "Semel", "version": __version__}
CAPABILITIES: Json = {"tools": {}}
CACHE_MS = 3_600_000  # the list is fixed while this process lives

SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
SURROGATE = re.compile("[\ud800-\udfff]")

Id = int | str


class Reply(NamedTuple):
    """Write this line to the agent."""

    message: Json


class Call(NamedTuple):
    """Hand this call to the gateway. `given`: the arguments as the agent wrote them, which its ACP stream shows
    too; `arguments`: as the tool takes them. `stateless`: the era its answer must be in."""

    id: Id
    name: str
    given: Json
    arguments: Json
    meta: Json
    stateless: bool


class Cancel(NamedTuple):
    """The agent no longer wants the answer to this request; it may be answered already, or never have
    been."""

    id: Id


Effect = Reply | Call | Cancel


class _Wrong(Exception):
    def __init__(self, code: int, message: str, data: Json | None = None):
        super().__init__(message)
        self.error: Json = {"code": code, "message": message, **({"data": data} if data else {})}


def receive(line: bytes | TooLong, greeting: Greeting) -> list[Effect]:
    """What one line from the agent asks for."""
    if isinstance(line, TooLong):
        return _refused(line)
    if not line.strip():
        return []
    try:
        # A broken byte spoils a character, not the call.
        message = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return [_error(None, {"code": PARSE_ERROR, "message": "The line is not JSON."})]
    if SURROGATE_ESCAPE.search(line):
        message = _clean(message)
    messages = message if isinstance(message, list) and message else [message]  # 2025-03-26 knows batches
    return [effect for one in messages for effect in _one(one, greeting)]


def answer(call: Call, text: str, *, ok: bool) -> Json:
    """The response to a call. A tool's error is a result: the model reads it and acts on it."""
    result: Json = {"content": [{"type": "text", "text": text}], "isError": not ok}
    return _response(call.id, result, call.stateless)


def _refused(line: TooLong) -> list[Effect]:
    """The caller of a line that was too long is told so: without its id, it would wait for an answer for ever."""
    try:
        message = json.loads(line.outline.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        message = None
    number = message.get("id") if isinstance(message, dict) and "method" in message else None
    if isinstance(number, bool) or not isinstance(number, int | str):
        number = None
    told = (
        f"Nothing was done: this call is larger than {LIMIT >> 20} MiB. Send a shorter text, or a file with send_file."
    )
    return [_error(number, {"code": INVALID_REQUEST, "message": told})]


def _one(message: Any, greeting: Greeting) -> list[Effect]:
    if not isinstance(message, dict):
        return [_error(None, {"code": INVALID_REQUEST, "message": "A message is a JSON object."})]
    method, params = message.get("method"), message.get("params")
    if method is None and ("result" in message or "error" in message):
        return []  # an answer; we never ask
    if "id" not in message and isinstance(method, str):
        return _notified(method, params)
    number = message.get("id")
    if isinstance(number, bool) or not isinstance(number, int | str):
        return [_error(None, {"code": INVALID_REQUEST, "message": "The id must be a string or an integer."})]
    try:
        return [_request(number, method, params, greeting)]
    except _Wrong as wrong:
        return [_error(number, wrong.error)]


def _notified(method: str, params: Any) -> list[Effect]:
    if method != "notifications/cancelled" or not isinstance(params, dict):
        return []
    number = params.get("requestId")
    return [Cancel(number)] if isinstance(number, int | str) and not isinstance(number, bool) else []


def _request(number: Id, method: Any, params: Any, greeting: Greeting) -> Effect:
    if not isinstance(method, str):
        raise _Wrong(INVALID_REQUEST, "A request names its method.")
    params = {} if params is None else params
    if not isinstance(params, dict):
        raise _Wrong(INVALID_PARAMS, "params must be an object.")
    given = params.get("_meta")
    meta: Json = given if isinstance(given, dict) else {}
    stateless = method != "initialize" and (method == "server/discover" or VERSION_KEY in meta)
    if stateless:
        _check_envelope(meta)
    if method == "tools/call":
        return _call(number, params, meta, stateless)
    if method == "initialize":
        result = _initialize(params, greeting)
    elif method == "ping":
        result = {}
    elif method == "tools/list":
        result = {"tools": catalogue.listing(greeting), **_cached(stateless)}
    elif method == "server/discover":
        result = {"supportedVersions": list(STATELESS), **_introduction(greeting), **_cached(stateless)}
    else:
        raise _Wrong(METHOD_NOT_FOUND, f"Method not found: {method}")
    return Reply(_response(number, result, stateless))


def _check_envelope(meta: Json) -> None:
    """2026-07-28, basic/index: each request carries its revision and the client's capabilities."""
    version = meta.get(VERSION_KEY)
    if not isinstance(version, str) or not isinstance(meta.get(CAPABILITIES_KEY), dict):
        raise _Wrong(INVALID_PARAMS, f"params._meta must carry {VERSION_KEY} and {CAPABILITIES_KEY}.")
    if version not in STATELESS:
        data: Json = {"supported": list(STATELESS), "requested": version}
        raise _Wrong(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _initialize(params: Json, greeting: Greeting) -> Json:
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise _Wrong(INVALID_PARAMS, "protocolVersion must be a string.")
    version = wanted if wanted in HANDSHAKE else HANDSHAKE[-1]
    return {"protocolVersion": version, "serverInfo": SERVER, **_introduction(greeting)}


def _introduction(greeting: Greeting) -> Json:
    return {"capabilities": CAPABILITIES, "instructions": greeting.instructions or catalogue.INSTRUCTIONS}


def _cached(stateless: bool) -> Json:
    return {"ttlMs": CACHE_MS, "cacheScope": "private"} if stateless else {}


def _call(number: Id, params: Json, meta: Json, stateless: bool) -> Effect:
    name, given = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or not isinstance(given, dict | None):
        raise _Wrong(INVALID_PARAMS, "tools/call takes a name and an object of arguments.")
    if name not in catalogue.BY_NAME:
        known = ", ".join(catalogue.BY_NAME)
        raise _Wrong(INVALID_PARAMS, f"Unknown tool: {name}. There are: {known}.")
    given = given or {}
    arguments = catalogue.check(name, given)
    call = Call(number, name, given, {}, meta, stateless)
    if isinstance(arguments, str):
        return Reply(answer(call, arguments, ok=False))
    return call._replace(arguments=arguments)


def _response(number: Id, result: Json, stateless: bool) -> Json:
    if stateless:
        result = {"resultType": "complete", **result, "_meta": {SERVER_KEY: SERVER}}
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _error(number: Id | None, error: Json) -> Reply:
    return Reply({"jsonrpc": "2.0", "id": number, "error": error})


def _clean(value: Any) -> Any:
    """Lone surrogates (half of an emoji, cut by someone's slice) become U+FFFD: no store and no platform can
    carry them. Pairs were joined by the JSON reader."""
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_clean(one) for one in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(one) for key, one in value.items()}
    return value
