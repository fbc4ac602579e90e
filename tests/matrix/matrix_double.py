"""A homeserver's answers as a test says them: for what a real one cannot be made to do.

    async with Double() as server:
        server.on("PUT", "/send/", answer(502))              # by a part of the path; the newest that fits is taken
        server.on("PUT", "/send/", answer(200, {"event_id": "$1"}), DROP, times=...)
        server.asked("PUT", "/send/")                        # the requests

What no test said is answered as by a homeserver that knows the account and nothing else: a login, 404 for the rest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from semel.testing.servers import close_server

Json = dict[str, Any]
BOT = "@bot:test"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Json:
        return dict(json.loads(self.body or b"{}"))


@dataclass(frozen=True)
class Said:
    """One answer. `cut`: the connection breaks instead; `hang`: nothing comes."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False


Way = Said | Callable[[Request], Said]
DROP, HANG = Said(cut=True), Said(hang=True)


def answer(status: int, data: Any = None, **headers: str) -> Said:
    """`retry_after="5"` is the header Retry-After. Bytes are a body as it stands."""
    body = data if isinstance(data, bytes) else json.dumps({} if data is None else data).encode()
    return Said(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def refusal(status: int, code: str, **more: Any) -> Said:
    return answer(status, {"errcode": code, "error": "because", **more})


class Double:
    """`requests`, in order."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._ways: list[tuple[str, str, list[Way]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        login = {"user_id": BOT, "device_id": "SEMEL", "access_token": "token-1"}
        self.on("POST", "/login", answer(200, login))
        self.on("GET", "/account/whoami", answer(200, {"user_id": BOT, "device_id": "DEV"}))
        self.on("GET", "/joined_members", answer(200, {"joined": {BOT: {}, "@ada:test": {"display_name": "Ada"}}}))

    async def __aenter__(self) -> Double:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await close_server(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def on(self, method: str, path: str, *ways: Way) -> None:
        """What requests to a path that holds `path` are answered, one after the other; the last one stays."""
        self._ways.insert(0, (method, path, list(ways)))

    def asked(self, method: str, path: str) -> list[Request]:
        return [one for one in self.requests if one.method == method and path in one.path]

    def _way(self, request: Request) -> Said:
        for method, path, ways in self._ways:
            if method == request.method and path in request.path:
                way = ways.pop(0) if len(ways) > 1 else ways[0]
                return way if isinstance(way, Said) else way(request)
        return refusal(404, "M_NOT_FOUND")

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._talk(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, target, _ = head[0].split(" ")
            parts = urlsplit(target)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self.requests.append(Request(method, unquote(parts.path), query, body, headers))
            said = self._way(self.requests[-1])
            if said.hang:
                await asyncio.Event().wait()
            if not said.cut:
                lines = [f"HTTP/1.1 {said.status} X", f"content-length: {len(said.body)}", "connection: close"]
                lines += [f"{name}: {value}" for name, value in said.headers.items()]
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + said.body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
