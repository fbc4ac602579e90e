"""The double's servers: the REST API at `/api/v4`, `/control/NAME`, and the WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from semel.testing.http_double import HttpReply, ReplyCut, serve_http
from semel.testing.http_forms import parse_parameters
from semel.testing.http_requests import HttpRequest
from semel.testing.mattermost.double import MattermostDouble, MattermostLink
from semel.testing.mattermost.model import MattermostCall, MattermostError, MattermostFault
from semel.testing.mattermost.routes import call_route
from semel.text.json_types import Json, text_at

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection

PREFIX = "/api/v4"
_CONTROL = (
    "person direct channel archive write give_file edit remove react texts shown asked fail advance disconnect "
    "lose_event forget_logins"
)
CONTROL = frozenset(_CONTROL.split())
"""The methods of the double that `POST /control/NAME` calls. Their arguments are JSON."""
NOT_LOGGED_IN = MattermostError(401, "api.web_socket_router.not_authenticated.app_error")
BAD_ACTION = MattermostError(500, "api.web_socket_router.bad_action.app_error")
UNAUTHORIZED = MattermostError(401, "api.context.session_expired.app_error", "Invalid or expired session.")


@dataclass(frozen=True)
class MattermostUrls:
    """Where a double is served: the settings `url` and `websocket` of a mattermost channel."""

    url: str
    websocket: str


@asynccontextmanager
async def serve(double: MattermostDouble, port: int = 0, websocket_port: int = 0) -> AsyncIterator[MattermostUrls]:
    """Serve the double until the `async with` block ends. Port 0: any free one."""
    from websockets.asyncio.server import serve as serve_websocket  # an extra: see `semel.testing.mattermost.__main__`

    async def answer(request: HttpRequest) -> HttpReply:
        return await _answer(double, request)

    async def link(connection: ServerConnection) -> None:
        await _link(double, connection)

    async with (
        serve_http(answer, port) as url,
        serve_websocket(link, "127.0.0.1", websocket_port, close_timeout=0.2) as sockets,
    ):
        address = next(iter(sockets.sockets)).getsockname()
        yield MattermostUrls(url, f"ws://127.0.0.1:{address[1]}{PREFIX}/websocket")


# ---------------------------------------------------------------- WebSocket


async def _link(double: MattermostDouble, connection: ServerConnection) -> None:
    """Serve one connection: wait for the challenge, say hello, send events."""
    from websockets.exceptions import ConnectionClosed

    link = MattermostLink(double.token)
    sending: asyncio.Task[None] | None = None
    try:
        async for message in connection:
            request = json.loads(message)
            if link in double.links:
                await connection.send(json.dumps(_reply_on_socket(double, link, request)))
                continue
            if request.get("action") != "authentication_challenge":
                continue
            if text_at(request, "data", "token") != double.token:  # it is closed, without a word
                return
            await connection.send(json.dumps({"status": "OK", "seq_reply": request.get("seq")}))
            link.tell({"event": "hello", "data": {"connection_id": double.new_id("link")}, "broadcast": {}})
            double.links.append(link)
            sending = asyncio.create_task(_send(connection, link))
    except ConnectionClosed:
        pass
    finally:
        if link in double.links:
            double.links.remove(link)
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


def _reply_on_socket(double: MattermostDouble, link: MattermostLink, request: Json) -> Json:
    """Return the answer to a request on a WebSocket, whose token is looked up again."""
    if link.token != double.token:
        link.is_logged_in = False
    if not link.is_logged_in:
        return {"status": "FAIL", "seq_reply": request.get("seq"), "error": NOT_LOGGED_IN.body()}
    if request.get("action") == "ping":
        return {"status": "OK", "seq_reply": request.get("seq"), "data": {"text": "pong"}}
    return {"status": "FAIL", "seq_reply": request.get("seq"), "error": BAD_ACTION.body()}


async def _send(connection: ServerConnection, link: MattermostLink) -> None:
    while (event := await link.queue.get()) is not None:
        await connection.send(json.dumps(event))
    await connection.close()


# ---------------------------------------------------------------- HTTP


async def _answer(double: MattermostDouble, request: HttpRequest) -> HttpReply:
    url = urlsplit(request.target)
    if url.path.startswith("/control/"):
        return _control(double, url.path.removeprefix("/control/"), request.body)
    path = url.path.removeprefix(PREFIX)
    body, file = _parse_body(request)
    row: dict[str, Any] = {"request": f"{request.method} {path}", "body": body, "status": None}
    double.requests.append(row)
    fault = double.fault(f"{request.method} {path}")
    reply = await _apply_fault(fault) if fault is not None and not fault.after else None
    if reply is None:
        reply = _call(double, request, path, MattermostCall((), dict(parse_qsl(url.query)), body, file))
        if fault is not None and fault.after:
            reply = await _apply_fault(fault)
    row["status"] = reply.status
    return reply


def _call(double: MattermostDouble, request: HttpRequest, path: str, call: MattermostCall) -> HttpReply:
    limits, is_refused = double.count_request()
    if is_refused:
        return HttpReply(429, b"limit exceeded\n", {"content-type": "text/plain", **limits})
    try:
        if request.headers.get("authorization") != f"Bearer {double.token}":
            raise UNAUTHORIZED
        if path.startswith("/files/") and request.method == "GET":
            stored = double.files.get(path.removeprefix("/files/"))
            if stored is None:
                raise MattermostError(404, "app.file_info.get.app_error", "Unable to get the file.")
            return HttpReply(200, stored["content"], {"content-type": stored["mime_type"]})
        status, answer = call_route(double, request.method, path, call)
        return _reply(double, status, answer, limits)
    except MattermostError as error:
        if error.began:
            body = error.began + json.dumps(error.body())
            return HttpReply(200, body.encode(), {"content-type": "application/json", **limits})
        return _reply(double, error.status, error.body(), limits)


def _parse_body(request: HttpRequest) -> tuple[Any, Any]:
    """Return (the body as JSON or fields, the file in it)."""
    content_type = request.headers.get("content-type", "")
    if content_type.startswith("multipart/form-data"):
        fields = parse_parameters({}, content_type, request.body)
        return {name: value for name, value in fields.items() if name != "files"}, fields.get("files")
    try:
        return json.loads(request.body or b"null"), None
    except ValueError:
        return None, None


async def _apply_fault(fault: MattermostFault) -> HttpReply:
    """Return the answer that a request gets instead of the right one. Raises ReplyCut for "drop"."""
    match fault.how:
        case "drop":
            raise ReplyCut
        case "hang":
            await asyncio.Event().wait()
        case "502":
            return HttpReply(502, b"<html><body>bad gateway</body></html>", {"content-type": "text/html"})
        case "empty":
            return HttpReply(200, b'{"order": [], "posts": {}}', {"content-type": "application/json"})
        case "429":
            headers = {"content-type": "text/plain", "retry-after": str(fault.retry_after)}
            return HttpReply(429, b"limit exceeded\n", headers)
    status = int(fault.how)
    body = json.dumps(MattermostError(status, "api.context.fault.app_error").body()).encode()
    return HttpReply(status, body, {"content-type": "application/json"})


def _reply(double: MattermostDouble, status: int, body: Any, headers: Mapping[str, str]) -> HttpReply:
    date = formatdate(double.now(), usegmt=True)
    return HttpReply(status, json.dumps(body).encode(), {"content-type": "application/json", "date": date, **headers})


def _control(double: MattermostDouble, name: str, body: bytes) -> HttpReply:
    """Call a method of the double for a tester. The arguments are a JSON object."""
    try:
        if name not in CONTROL:
            raise KeyError(f"there is no control {name!r}; there is {', '.join(sorted(CONTROL))}")
        result = getattr(double, name)(**json.loads(body or b"{}"))
        return HttpReply(200, json.dumps({"result": result}).encode(), {"content-type": "application/json"})
    except (KeyError, TypeError, ValueError, MattermostError) as error:
        return HttpReply(400, json.dumps({"error": f"{name}: {error}"}).encode(), {"content-type": "application/json"})
