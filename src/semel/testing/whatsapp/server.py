"""The double's servers: the Graph API at `/graph/...`, `/control/NAME`; and the requests to the webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx2

from semel.testing.http_double import HttpReply, ReplyCut, serve_http
from semel.testing.http_forms import BadForm, parse_parameters
from semel.testing.http_requests import HttpRequest
from semel.testing.webhook_posts import post_deliveries
from semel.testing.whatsapp.double import WhatsAppDouble, decode_content, no_such_object
from semel.testing.whatsapp.model import NUMBER_ID, GraphError, WhatsAppFault, invalid
from semel.text.json_types import Json

CONTROL = frozenset(
    {
        "person", "group", "write", "send_file", "react", "press", "edit", "revoke", "read", "shown", "texts", "fail",
        "post_again",
    }
)  # fmt: skip
"""The methods of the double that `POST /control/NAME` calls."""
PREFIX = "/graph/"


@asynccontextmanager
async def serve(double: WhatsAppDouble, port: int = 0) -> AsyncIterator[str]:
    """Serve the double until the block ends. Port 0: any free one. Yields the setting `api` of a whatsapp channel."""

    async def answer(request: HttpRequest) -> HttpReply:
        return await _answer(double, request)

    async with serve_http(answer, port) as url:
        double.url = f"{url}/graph"
        async with post_deliveries(double):
            yield double.url


async def confirm_address(double: WhatsAppDouble, address: str) -> bool:
    """Ask whether a webhook's address is right, as Meta does before it posts there. Return whether it is."""
    query = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": double.verify_token}
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=20) as client:
        answer = await client.get(address, params=query)
    return answer.status_code == 200 and answer.text == query["hub.challenge"]


async def _answer(double: WhatsAppDouble, request: HttpRequest) -> HttpReply:
    url = urlsplit(request.target)
    path = unquote(url.path)
    if path.startswith("/control/"):
        return _control(double, path.removeprefix("/control/"), request.body)
    if not path.startswith(PREFIX):
        return HttpReply(404, b"not found", {"content-type": "text/plain"})
    name = _name_call(request, path.removeprefix(PREFIX))
    row: Json = {"call": name, "arguments": _read_json(request), "status": None}
    double.requests.append(row)
    fault = double.fault(name)
    reply = await _apply_fault(fault) if fault is not None and not fault.after else None
    if reply is None:
        reply = _call(double, request, path.removeprefix(PREFIX), dict(parse_qsl(url.query)))
        if fault is not None and fault.after:
            reply = await _apply_fault(fault)
    row["status"] = reply.status
    return reply


def _name_call(request: HttpRequest, path: str) -> str:
    if path == f"{NUMBER_ID}/messages":
        return "typing" if b'"typing_indicator"' in request.body else "messages"
    names = {f"{NUMBER_ID}/media": "upload", NUMBER_ID: "number", "debug_token": "token"}
    return names.get(path, "file" if path.startswith("files/") else "media")


def _read_json(request: HttpRequest) -> Any:
    try:
        return json.loads(request.body or b"null")
    except ValueError:
        return None


def _call(double: WhatsAppDouble, request: HttpRequest, path: str, query: dict[str, str]) -> HttpReply:
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if path.startswith("files/"):
        return _give_file(double, path.removeprefix("files/"), token)
    try:
        double.check_access(token, query.get("appsecret_proof"))
        return _json_reply(200, _call_method(double, request, path))
    except GraphError as error:
        return _json_reply(error.status, error.body())
    except BadForm as error:
        return _json_reply(400, invalid(str(error)).body())


def _call_method(double: WhatsAppDouble, request: HttpRequest, path: str) -> Json:
    match request.method, path:
        case "POST", path if path == f"{NUMBER_ID}/messages":
            message = _read_json(request)
            return double.take(message if isinstance(message, dict) else {})
        case "POST", path if path == f"{NUMBER_ID}/media":
            return double.upload(parse_parameters({}, request.headers.get("content-type", ""), request.body))
        case "GET", path if path == NUMBER_ID:
            return double.describe_number()
        case "GET", "debug_token":
            return double.describe_token()
        case "GET", path:
            return double.describe_media(path)
    raise no_such_object(path)


def _give_file(double: WhatsAppDouble, id: str, token: str) -> HttpReply:
    media = double.media.get(id)
    if token != double.token:
        return HttpReply(401, b"", {"content-type": "text/plain"})
    if media is None or media.url_until < double.now():
        return HttpReply(404, b"", {"content-type": "text/plain"})
    return HttpReply(200, media.content, {"content-type": media.mime})


async def _apply_fault(fault: WhatsAppFault) -> HttpReply:
    """Return the answer that a call gets instead of the right one. Raises ReplyCut for "drop"."""
    match fault.how:
        case "drop":
            raise ReplyCut
        case "hang":
            await asyncio.Event().wait()
        case "502":
            return HttpReply(502, b"<html><body>bad gateway</body></html>", {"content-type": "text/html"})
        case "429":
            return _json_reply(429, GraphError(80007, "Rate limit issues").body())
        case "error":
            return _json_reply(fault.status, GraphError(fault.code, "An error").body())
    return _json_reply(500, GraphError(131000, "Something went wrong").body())


def _control(double: WhatsAppDouble, name: str, body: bytes) -> HttpReply:
    """Call a method of the double for a tester. The arguments are a JSON object."""
    try:
        if name not in CONTROL:
            raise KeyError(f"there is no control {name!r}; there is {', '.join(sorted(CONTROL))}")
        arguments = json.loads(body or b"{}")
        if name == "send_file" and "content" in arguments:
            arguments["content"] = decode_content(arguments["content"])
        return _json_reply(200, {"result": getattr(double, name)(**arguments)})
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        return _json_reply(400, {"error": f"{name}: {error or 'there is no such thing'}"})


def _json_reply(status: int, body: Json) -> HttpReply:
    return HttpReply(status, json.dumps(body).encode(), {"content-type": "application/json; charset=UTF-8"})
