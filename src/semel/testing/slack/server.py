"""The double's servers: the Web API at `/api/METHOD`, uploads, downloads, `/control/NAME`, and Socket Mode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from semel.testing.http_double import HttpReply, ReplyCut, serve_http
from semel.testing.http_requests import HttpRequest
from semel.testing.slack.double import SlackDouble
from semel.testing.slack.model import SlackFault
from semel.text.json_types import Json

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection

CONTROL = frozenset(
    {
        "person", "direct", "channel", "write", "edit", "remove", "react", "press", "command", "shown", "texts", "fail",
        "post_again", "disconnect",
    }
)  # fmt: skip
"""The methods of the double that `POST /control/NAME` calls."""
LOGIN_PAGE = b"<!DOCTYPE html><html><head><title>Sign in to Test | Slack</title></head></html>"


@asynccontextmanager
async def serve(double: SlackDouble, port: int = 0, socket_port: int = 0) -> AsyncIterator[str]:
    """Serve the double until the block ends. Port 0: any free one. Yields the setting `api` of a slack channel."""
    from websockets.asyncio.server import serve as serve_websocket  # an extra: see `semel.testing.slack.__main__`

    async def answer(request: HttpRequest) -> HttpReply:
        return await _answer(double, request)

    async def link(connection: ServerConnection) -> None:
        await _link(double, connection)

    async with (
        serve_http(answer, port) as url,
        serve_websocket(link, "127.0.0.1", socket_port, close_timeout=0.2) as sockets,
    ):
        double.url = f"{url}/api"
        double.socket_url = f"ws://127.0.0.1:{next(iter(sockets.sockets)).getsockname()[1]}"
        yield double.url


# ---------------------------------------------------------------- Socket Mode


async def _link(double: SlackDouble, connection: ServerConnection) -> None:
    """Serve one connection: greet, send envelopes, take acknowledgements, repeat what was not acknowledged."""
    from websockets.exceptions import ConnectionClosed

    ticket = dict(parse_qsl(urlsplit(connection.request.path if connection.request else "").query)).get("ticket", "")
    if ticket not in double.tickets:
        await connection.close(1008, "the ticket was used")
        return
    double.tickets.discard(ticket)
    queue: asyncio.Queue[Json] = asyncio.Queue()
    await connection.send(json.dumps({"type": "hello", "num_connections": len(double.links) + 1}))
    double.links.append(queue)
    double.repeat_pending()
    senders = [asyncio.create_task(_send(connection, queue)), asyncio.create_task(_repeat(double))]
    try:
        async for message in connection:
            double.acknowledge(str(json.loads(message).get("envelope_id")))
    except ConnectionClosed:
        pass
    finally:
        double.links.remove(queue)
        for task in senders:
            task.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


async def _send(connection: ServerConnection, queue: asyncio.Queue[Json]) -> None:
    while True:
        message = await queue.get()
        await connection.send(json.dumps(message))
        if message.get("reason") == "link_disabled":
            await connection.close()


async def _repeat(double: SlackDouble) -> None:
    while True:
        await asyncio.sleep(double.repeat_s)
        double.repeat_pending()


# ---------------------------------------------------------------- HTTP


async def _answer(double: SlackDouble, request: HttpRequest) -> HttpReply:
    path = unquote(urlsplit(request.target).path)
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if path.startswith("/control/"):
        return _control(double, path.removeprefix("/control/"), request.body)
    if path.startswith("/api/"):
        return await _call(double, path.removeprefix("/api/"), token, _read_params(request))
    if path.startswith("/upload/v1/") and (file := double.files.get(path.rpartition("/")[2])) is not None:
        if len(request.body) != file.size:
            return _reply(400, b"the size is wrong", "text/plain")
        file.content = request.body
        return _reply(200, f"OK - {file.size}".encode(), "text/plain")
    if path.startswith("/files-pri/"):
        if (fault := double.fault("file")) is not None:
            return await _apply_fault(fault)
        stored = double.files.get(path.split("/")[2])
        if token != double.bot_token or "files:read" not in double.scopes:
            return _reply(200, LOGIN_PAGE, "text/html; charset=utf-8")
        if stored is not None and stored.content is not None:
            return _reply(200, stored.content, stored.mime, {"content-disposition": "attachment"})
    return _reply(404, b"not found", "text/plain")


def _control(double: SlackDouble, name: str, body: bytes) -> HttpReply:
    """Call a method of the double for a tester. The arguments are a JSON object."""
    try:
        if name not in CONTROL:
            raise KeyError(f"there is no control {name!r}; there is {', '.join(sorted(CONTROL))}")
        return _json_reply(200, {"result": getattr(double, name)(**json.loads(body or b"{}"))})
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        return _json_reply(400, {"error": f"{name}: {error or 'there is no such thing'}"})


async def _call(double: SlackDouble, method: str, token: str, params: Json) -> HttpReply:
    row: Json = {"method": method, "params": params, "status": None}
    double.requests.append(row)
    fault = double.fault(method)
    reply = await _apply_fault(fault) if fault is not None and not fault.after else None
    if reply is None:
        status, body, headers = double.call(method, token, params)
        reply = _json_reply(status, body, headers)
        if fault is not None and fault.after:
            reply = await _apply_fault(fault)
    row["status"] = reply.status
    return reply


async def _apply_fault(fault: SlackFault) -> HttpReply:
    """Return the answer that a call gets instead of the right one. Raises ReplyCut for "drop"."""
    match fault.how:
        case "drop":
            raise ReplyCut
        case "hang":
            await asyncio.Event().wait()
        case "502":
            return _reply(502, b"<html><body>bad gateway</body></html>", "text/html")
        case "429":
            return _json_reply(429, {"ok": False, "error": "ratelimited"}, {"retry-after": str(fault.retry_after)})
        case "error":
            return _json_reply(200, {"ok": False, "error": fault.code})
    return _json_reply(500, {"ok": False, "error": "internal_error"})


def _json_reply(status: int, body: Json, headers: Mapping[str, str] | None = None) -> HttpReply:
    return _reply(status, json.dumps(body).encode(), "application/json; charset=utf-8", headers)


def _reply(status: int, body: bytes, mime: str, headers: Mapping[str, str] | None = None) -> HttpReply:
    return HttpReply(status, body, {"content-type": mime, **(headers or {})})


def _read_params(request: HttpRequest) -> Json:
    """Return the arguments of a call: a form, JSON, or the query. Those of JSON are texts here, too."""
    params: Json = dict(parse_qsl(urlsplit(request.target).query))
    if request.headers.get("content-type", "").startswith("application/json"):
        body = json.loads(request.body or b"{}")
        return params | {name: v if isinstance(v, str) else json.dumps(v) for name, v in body.items()}
    return params | dict(parse_qsl(request.body.decode("utf-8"), keep_blank_values=True))
