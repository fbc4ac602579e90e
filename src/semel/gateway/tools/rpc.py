"""The RPC server for local helpers of the gateway, such as the MCP process of an agent.

It listens on a unix socket, mode 0600 in a directory of mode 0700, and serves only processes of its own user. The
protocol is JSON lines:

    -> {"id": n, "method": m, "params": {...}}
    <- {"id": n, "result": {...}}  |  {"id": n, "error": {"code": str, "message": str}}

Requests of one connection start in the order of arrival and run concurrently; each answer is sent when it is ready. A
request outlives its connection: it runs to its end, and the caller asks again with the same call id.
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
"""Longest line in bytes, in either direction."""

AT_ONCE = 256
"""Most concurrent requests of one connection; further lines are not read until one ends."""

DISCARD_TIMEOUT_S = 5.0
"""Seconds for which the rest of an overlong line is read and discarded, so that its sender can read the answer."""

Json = dict[str, Any]
Handler = Callable[[str, Json], Awaitable[Json]]

log = structlog.get_logger(__name__)


class RpcError(Exception):
    """A request was refused. `code` is a word for programs, `message` a sentence for people and agents."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


class RpcServer:
    """Serves `handler` at `path` from `start` to `stop`. `uid`: the only user served; default: our own."""

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
        """Listen. Raises SocketRefused if the path is too long, in use by a live gateway, or not ours."""
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
            writer.transport.abort()  # a peer that never read its answers

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
            pass  # the peer is gone or the loop ends; running requests finish on their own
        finally:
            del self._connections[writer]
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        places = asyncio.Semaphore(AT_ONCE)
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # raised by StreamReader for an overlong line; the rest is not the start of a line
                said = f"A line is longer than {self._limit} bytes; the connection is closed."
                await _write(writer, _line(_failure(None, "too_long", said)))
                await _discard_rest(reader, writer)
                return
            if not line.endswith(b"\n"):  # end of stream; an incomplete line is not a request
                return
            await places.acquire()
            task = asyncio.create_task(self._serve(line, writer))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
            task.add_done_callback(lambda _: places.release())

    async def _serve(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        """Handle one request. Only this task waits if the peer reads slowly."""
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
    """Parse a line into (id, method, params). Raises ValueError with a message for the caller."""
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
    """The id of an otherwise invalid request, so that its caller gets an answer; None if it has no valid id."""
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
    """Read and discard what the peer still writes: it reads our answer only afterwards, if it gets no broken pipe."""
    writer.write_eof()
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            while await reader.read(1 << 16):
                pass


async def _write(writer: asyncio.StreamWriter, line: bytes) -> None:
    if not writer.is_closing():
        writer.write(line)
        await writer.drain()
