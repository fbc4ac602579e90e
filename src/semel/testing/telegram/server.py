"""The double behind HTTP: the Bot API at `/bot<token>/<method>`, files at `/file/bot<token>/<path>`, tests at
`/control/<name>`.

A server of its own, since a fault must be able to close a connection at any byte.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from semel.testing.telegram.double import TelegramDouble
from semel.testing.telegram.forms import BadForm, parameters
from semel.testing.telegram.model import Fault, Json

MOST = 64_000_000
"""Bytes of a request's body."""
_CONTROL = (
    "person group topic write post send_file edit react remove block member join migrate shown texts pending asked "
    "typing fail clear_faults advance renumber update webhook retoken"
)
CONTROL = frozenset(_CONTROL.split())
"""What `/control/<name>` calls: methods of the double, their arguments as JSON. `content` is base64."""

_BOT = re.compile(r"/(file/)?bot([^/]*)/(.+)")
_TOKEN = re.compile(r"\d+:[\w-]{20,}")


@dataclass
class _Request:
    method: str
    path: str
    query: Json
    kind: str  # the content type
    body: bytes


@dataclass
class _Answer:
    status: int
    body: bytes
    kind: str = "application/json"


class _Cut(Exception):
    """The connection is to be closed, after these bytes of the answer."""

    def __init__(self, answer: _Answer | None = None) -> None:
        super().__init__()
        self.answer = answer


@asynccontextmanager
async def serve(double: TelegramDouble, port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Serve until the block ends; yields the URL, the `api` setting of a channel. Port 0: any free one."""
    tasks: set[asyncio.Task[None]] = set()
    closing = False

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if closing:
            writer.transport.abort()
            return
        task = asyncio.create_task(_connection(double, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, host, port)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        closing = True
        server.close()
        await asyncio.sleep(0)  # a task that is cancelled before it begins would leave its connection open
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # those that were just being accepted are closed


async def _connection(double: TelegramDouble, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    wire = h11.Connection(h11.SERVER)
    try:
        while (request := await _read(wire, reader)) is not None:
            answer = await _answer(double, request)
            writer.write(_bytes(wire, answer))
            await writer.drain()
            if wire.our_state is not h11.DONE or wire.their_state is not h11.DONE:
                break
            wire.start_next_cycle()
    except _Cut as cut:
        if cut.answer is not None:
            whole = _bytes(wire, cut.answer)
            writer.write(whole[: len(whole) - len(cut.answer.body) // 2 - 1])
            with suppress(ConnectionError):
                await writer.drain()
        writer.transport.abort()
    except (h11.RemoteProtocolError, ConnectionError):
        pass
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _read(wire: h11.Connection, reader: asyncio.StreamReader) -> _Request | None:
    """The next request; None: the caller is gone."""
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wire.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MOST:
                raise _Cut
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            url = urlsplit(head.target.decode("ascii", "replace"))
            kind = dict(head.headers).get(b"content-type", b"").decode("latin-1")
            query = dict(parse_qsl(url.query, keep_blank_values=True))
            return _Request(head.method.decode("ascii"), url.path, query, kind, bytes(body))
        else:
            return None


def _bytes(wire: h11.Connection, answer: _Answer) -> bytes:
    headers = [("content-type", answer.kind), ("content-length", str(len(answer.body)))]
    parts = (
        wire.send(h11.Response(status_code=answer.status, headers=headers)),
        wire.send(h11.Data(data=answer.body)),
        wire.send(h11.EndOfMessage()),
    )
    return b"".join(part or b"" for part in parts)


# ---------------------------------------------------------------- what is asked


async def _answer(double: TelegramDouble, request: _Request) -> _Answer:
    if request.path.startswith("/control/"):
        return _control(double, request)
    told = _BOT.fullmatch(request.path)
    if told is None:
        return _json(404, {"ok": False, "error_code": 404, "description": "Not Found"})
    file, token, method = told.groups()
    if (no := _refused(double, unquote(token))) is not None:
        return no
    return await _file(double, method) if file else await _bot(double, method, request)


def _refused(double: TelegramDouble, token: str) -> _Answer | None:
    """Telegram answers 404 to what is no token, and 401 to one that does not count."""
    if not _TOKEN.fullmatch(token):
        return _json(404, {"ok": False, "error_code": 404, "description": "Not Found"})
    if token != double.token:
        return _json(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
    return None


async def _bot(double: TelegramDouble, method: str, request: _Request) -> _Answer:
    try:
        params = parameters(request.query, request.kind, request.body)
    except BadForm as bad:
        return _json(400, {"ok": False, "error_code": 400, "description": f"Bad Request: {bad}"})
    row: Json = {"method": method, "params": _plain(params), "status": None}
    double.requests.append(row)
    fault = double.fault(method)
    if fault is not None and not fault.after:
        answer = await _struck(fault, None)
        if answer is not None:
            row["status"] = answer.status
            return answer
    status, body = await double.call(method, params)
    answer = _json(status, body)
    if fault is not None and fault.after and (struck := await _struck(fault, answer)) is not None:
        answer = struck
    row["status"] = answer.status
    return answer


async def _file(double: TelegramDouble, path: str) -> _Answer:
    row: Json = {"method": "file", "params": {"path": path}, "status": None}
    double.requests.append(row)
    stored = next((each for each in double.files.values() if each.path == path), None)
    if stored is None or stored.content is None:
        answer = _json(404, {"ok": False, "error_code": 404, "description": "Not Found"})
    else:
        answer = _Answer(200, stored.content, "application/octet-stream")
    if (fault := double.fault("file")) is not None and (struck := await _struck(fault, answer)) is not None:
        answer = struck
    row["status"] = answer.status
    return answer


async def _struck(fault: Fault, answer: _Answer | None) -> _Answer | None:
    """What the caller gets instead; None: the right answer. Raises _Cut."""
    match fault.how:
        case "drop":
            raise _Cut
        case "cut":
            raise _Cut(answer or _json(200, {"ok": True, "result": {}}))
        case "hang":
            await asyncio.Event().wait()
        case "slow":
            await asyncio.sleep(fault.seconds)
        case "500":
            return _json(500, {"ok": False, "error_code": 500, "description": "Internal Server Error"})
        case "502":
            page = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
            return _Answer(502, page, "text/html")
        case "401":
            return _json(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
        case "429":
            wait = fault.retry_after
            told = f"Too Many Requests: retry after {wait}"
            body = {"ok": False, "error_code": 429, "description": told, "parameters": {"retry_after": wait}}
            return _json(429, body)
    return None


def _control(double: TelegramDouble, request: _Request) -> _Answer:
    name = request.path.removeprefix("/control/")
    try:
        given = json.loads(request.body or b"{}")
        if name not in CONTROL:
            raise KeyError(f"there is no control {name!r}; there is {', '.join(sorted(CONTROL))}")
        if isinstance(given.get("content"), str) and name == "send_file":
            given["content"] = base64.b64decode(given["content"])
        return _json(200, {"result": getattr(double, name)(**given)})
    except (KeyError, TypeError, ValueError, AttributeError) as bad:
        return _json(400, {"error": f"{name}: {bad}"})


def _json(status: int, body: Any) -> _Answer:
    return _Answer(status, json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _plain(params: Json) -> Json:
    """As it may be looked at: the content of a file is its size."""
    return {
        name: {"name": value["name"], "mime": value["mime"], "size": len(value["content"])}
        if isinstance(value, dict) and "content" in value
        else value
        for name, value in params.items()
    }
