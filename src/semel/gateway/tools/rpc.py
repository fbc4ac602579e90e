"""The gateway's door for its own helpers: an agent's MCP process, and anything that wakes the gateway.

A unix socket, mode 0600 in a directory of mode 0700, that talks to processes of its own user only. JSON
lines:

    -> {"id": n, "method": m, "params": {...}}
    <- {"id": n, "result": {...}}  |  {"id": n, "error": {"code": str, "message": str}}

Requests of one connection are begun in the order they came and run side by side; answers come as they are
ready. A request outlives its connection: what it began is finished, and its caller asks again with the same
call id.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog

from semel.gateway.tools.unix_socket import SocketRefused, listen, peer_uid, socket_path, unlink_ours

__all__ = ["AT_ONCE", "LINE", "RpcError", "RpcServer", "SocketRefused", "socket_path"]

LINE = 8 << 20
"""Longest line, in bytes, in either direction."""

AT_ONCE = 256
"""Requests of one connection that run at a time; past that its lines wait unread."""

LINGER_S = 5.0
"""How long the rest of a line that is too long is thrown away, so that its sender can read the answer."""

Json = dict[str, Any]
Handler = Callable[[str, Json], Awaitable[Json]]

log = structlog.get_logger(__name__)


class RpcError(Exception):
    """A handler's definite no. `code` is one word for programs, `message` a sentence for whoever reads it."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


class RpcServer:
    """Serves `handler` at `path` from `start` to `stop`. `uid`: the only user that is served."""

    def __init__(self, path: Path, handler: Handler, *, limit: int = LINE, uid: int | None = None):
        self.path = path
        self._handler = handler
        self._limit = limit
        self._uid = os.getuid() if uid is None else uid
        self._server: asyncio.Server | None = None
        self._inode: tuple[int, int] | None = None
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self._requests: set[asyncio.Task[None]] = set()
        self._stopping = False

    def __repr__(self) -> str:
        state = "open" if self._server else "stopping" if self._inode else "closed"
        return f"<RpcServer {state} connections={len(self._connections)} requests={len(self._requests)}>"

    async def start(self) -> None:
        """Listen. Raises SocketRefused if the path is too long, taken by a live gateway, or not ours to
        use."""
        listener, self._inode = listen(self.path)
        self._stopping = False
        self._server = await asyncio.start_unix_server(self._connected, sock=listener, limit=self._limit)

    async def stop(self, grace: float = 2.0) -> None:
        """Take no new request, give running ones `grace` seconds, cancel the rest, close every connection."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._requests:
            _, late = await asyncio.wait(self._requests, timeout=grace)
            for request in late:
                request.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._close_connections()
        unlink_ours(self.path, self._inode)
        self._inode = None

    async def _close_connections(self) -> None:
        open_ones = dict(self._connections)
        for writer in open_ones:
            writer.close()
        if tasks := [task for task in open_ones.values() if task is not None]:
            await asyncio.wait(tasks, timeout=1.0)
        for writer in open_ones:
            writer.transport.abort()  # one whose reader never came for its answers

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = asyncio.current_task()
        try:
            if (uid := peer_uid(writer)) not in (None, self._uid):
                log.warning("rpc_stranger", uid=uid)
                said = "This socket serves the processes of its owner only."
                await _write(writer, _line(_failure(None, "stranger", said)))
                return
            await self._read(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the peer is gone or the loop ends; requests that were begun finish by themselves
        finally:
            del self._connections[writer]
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        places = asyncio.Semaphore(AT_ONCE)
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # StreamReader: a line beyond its limit; what follows is not a line's start
                said = f"A line is longer than {self._limit} bytes; the connection is closed."
                await _write(writer, _line(_failure(None, "too_long", said)))
                await _discard_rest(reader, writer)
                return
            if not line.endswith(b"\n"):  # end of stream; half a line is no request
                return
            await places.acquire()
            task = asyncio.create_task(self._serve(line, writer))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
            task.add_done_callback(lambda _: places.release())

    async def _serve(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        """One request, from its line to its answer. The wait for a slow reader is this task's own."""
        try:
            answer = await self._answer(line)
        except asyncio.CancelledError:
            answer = _line(_failure(_id_of(line), "stopping", "The gateway stopped; ask again when it is back."))
            writer.write(answer)
            raise
        with contextlib.suppress(ConnectionError):
            await _write(writer, answer)

    async def _answer(self, line: bytes) -> bytes:
        try:
            number, method, params = _request(line)
        except ValueError as error:
            return _line(_failure(_id_of(line), "bad_request", str(error)))
        if self._stopping:
            return _line(_failure(number, "stopping", "The gateway is stopping; ask again when it is back."))
        try:
            return _line({"id": number, "result": await self._handler(method, params)})
        except RpcError as error:
            return _line(_failure(number, error.code, error.message))
        except Exception:
            log.exception("rpc_failed", method=method)
            said = "The gateway failed on this request; its log has the reason."
            return _line(_failure(number, "internal", said))


# ---------------------------------------------------------------- lines


def _request(line: bytes) -> tuple[int | str, str, Json]:
    """Raises ValueError with a sentence that says what is wrong."""
    try:
        message = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError("The line is not JSON in UTF-8.") from error
    if not isinstance(message, dict):
        raise ValueError("A request is a JSON object.")
    number, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise ValueError('"id" must be a number without fraction, or a string.')
    if not isinstance(method, str) or not isinstance(params, dict):
        raise ValueError('"method" must be a string and "params" an object.')
    if b"\\u" in line and not _storable(message):
        raise ValueError("The text holds a lone surrogate, which no store can keep; send U+FFFD instead.")
    return number, method, params


def _id_of(line: bytes) -> int | str | None:
    """The id of a request that is otherwise wrong, so that its caller is not left waiting."""
    with contextlib.suppress(ValueError, RecursionError, AttributeError):
        number = json.loads(line).get("id")
        return number if isinstance(number, int | str) and not isinstance(number, bool) else None
    return None


def _storable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _failure(number: int | str | None, code: str, message: str) -> Json:
    return {"id": number, "error": {"code": code, "message": message}}


def _line(answer: Json) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"


async def _discard_rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Who still writes reads only later: were the connection closed now, they would see a broken pipe."""
    writer.write_eof()
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(LINGER_S):
            while await reader.read(1 << 16):
                pass


async def _write(writer: asyncio.StreamWriter, line: bytes) -> None:
    if not writer.is_closing():
        writer.write(line)
        await writer.drain()
