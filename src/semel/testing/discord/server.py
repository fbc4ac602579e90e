"""The servers of the double: the REST API with the files, and the gateway, each at a port of its own.

The methods of the double are at `/control/<name>`, for tests of a double in another process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from semel.testing.discord.double import DiscordDouble, limited
from semel.testing.discord.gateway_server import serve_gateway
from semel.testing.discord.model import ApiAnswer, ApiError, ApiFault
from semel.testing.http_double import HttpReply, ReplyCut, serve_http
from semel.testing.http_forms import parse_parameters
from semel.testing.http_requests import HttpRequest

PREFIX = "/api/v10"
_CONTROL = (
    "person guild channel thread direct write edit delete react command press texts shown asked fail clear_faults "
    "advance disconnect ask_for_reconnect invalidate_sessions"
)
CONTROL = frozenset(_CONTROL.split())
"""The methods of the double that `/control/<name>` calls. Their arguments are JSON."""
UNAUTHORIZED = ApiError(401, 0, "401: Unauthorized")


@dataclass(frozen=True)
class DiscordUrls:
    """Where a double is served: the settings `api` and `gateway` of a discord channel."""

    api: str
    gateway: str


@asynccontextmanager
async def serve(double: DiscordDouble, port: int = 0, gateway_port: int = 0) -> AsyncIterator[DiscordUrls]:
    """Serve the double until the `async with` block ends. Port 0: any free one."""

    async def handle(request: HttpRequest) -> HttpReply:
        return await _handle(double, request)

    async with serve_gateway(double, gateway_port) as gateway, serve_http(handle, port) as base:
        double.gateway_url, double.file_base = gateway, base
        yield DiscordUrls(base + PREFIX, gateway)


async def _handle(double: DiscordDouble, request: HttpRequest) -> HttpReply:
    url = urlsplit(request.target)
    if url.path.startswith("/control/"):
        return _control(double, url.path.removeprefix("/control/"), request.body)
    if url.path.startswith("/attachments/"):
        content = double.files.get(url.path.split("/")[2])
        double.requests.append({"request": f"GET {url.path}", "body": None, "status": 404 if content is None else 200})
        return HttpReply(404) if content is None else HttpReply(200, content, {"content-type": "text/plain"})
    path = url.path.removeprefix(PREFIX)
    body, files = _parse_body(request)
    row = {"request": f"{request.method} {path}", "body": body, "status": None}
    double.requests.append(row)
    fault = double.fault(f"{request.method} {path}")
    answer = await _apply_fault(fault, None) if fault is not None and not fault.after else None
    if answer is None:
        answer = _call(double, request, path, dict(parse_qsl(url.query)), body, files)
        if fault is not None and fault.after:
            answer = await _apply_fault(fault, answer) or answer
    row["status"] = answer.status
    return _to_reply(answer)


def _call(
    double: DiscordDouble, request: HttpRequest, path: str, query: dict[str, Any], body: Any,
    files: list[tuple[str, str, bytes]],
) -> ApiAnswer:  # fmt: skip
    has_own_token = path.startswith(("/interactions/", "/webhooks/"))
    if not has_own_token and request.headers.get("authorization") != f"Bot {double.token}":
        return ApiAnswer(401, UNAUTHORIZED.body())
    if not has_own_token and not request.headers.get("user-agent", "").startswith("DiscordBot ("):
        return ApiAnswer(403, b"error code: 1010", {"content-type": "text/plain"})
    return double.call(request.method, path, query, body, files)


def _to_reply(answer: ApiAnswer) -> HttpReply:
    headers = {"date": formatdate(usegmt=True), **answer.headers}
    if answer.status == 204:
        return HttpReply(204, b"", headers)
    if isinstance(answer.body, bytes):
        return HttpReply(answer.status, answer.body, headers)
    body = json.dumps(answer.body).encode()
    return HttpReply(answer.status, body, {"content-type": "application/json", **headers})


def _parse_body(request: HttpRequest) -> tuple[Any, list[tuple[str, str, bytes]]]:
    """Return (the body as JSON, the files as (name, type, content))."""
    content_type = request.headers.get("content-type", "")
    if not content_type.startswith("multipart/form-data"):
        try:
            return json.loads(request.body or b"null"), []
        except ValueError:
            return None, []
    fields = parse_parameters({}, content_type, request.body)
    files = [(one["name"], one["mime"], one["content"]) for name, one in fields.items() if name.startswith("files[")]
    return json.loads(fields["payload_json"]), files


async def _apply_fault(fault: ApiFault, answer: ApiAnswer | None) -> ApiAnswer | None:
    """Return the answer that the caller gets instead of the right one, or None if it gets the right one.

    `answer`: the right answer, or None before the request took effect. Raises ReplyCut for "drop" and "cut".
    """
    match fault.how:
        case "drop":
            raise ReplyCut
        case "cut":
            raise ReplyCut(_to_reply(answer or ApiAnswer(200, {"id": "1", "channel_id": "1"})))
        case "hang":
            await asyncio.Event().wait()
        case "slow":
            await asyncio.sleep(fault.seconds)
        case "500":
            return ApiAnswer(500, {"message": "500: Internal Server Error", "code": 0})
        case "502":
            return ApiAnswer(502, b"<html><title>502 Bad Gateway</title></html>", {"content-type": "text/html"})
        case "429":
            return limited(fault.retry_after, fault.scope)
        case "401":
            return ApiAnswer(401, UNAUTHORIZED.body())
        case "400":
            return ApiAnswer(400, ApiError(400, fault.code or 50035, "Invalid Form Body").body())
        case "403":
            return ApiAnswer(403, ApiError(403, fault.code or 50013, "Missing Permissions").body())
    return None


def _control(double: DiscordDouble, name: str, body: bytes) -> HttpReply:
    try:
        if name not in CONTROL:
            raise ValueError(f"there is no control {name!r}; there is {', '.join(sorted(CONTROL))}")
        result = getattr(double, name)(**json.loads(body or b"{}"))
        return HttpReply(200, json.dumps({"result": result}).encode(), {"content-type": "application/json"})
    except (KeyError, TypeError, ValueError) as error:
        return HttpReply(400, json.dumps({"error": f"{name}: {error}"}).encode(), {"content-type": "application/json"})
