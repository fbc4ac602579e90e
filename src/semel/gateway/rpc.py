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
import hashlib
import json
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog

LINE = 8 << 20
"""Longest line, in bytes, in either direction."""

AT_ONCE = 256
"""Requests of one connection that run at a time; past that its lines wait unread."""

PATH_BYTES = 107 if sys.platform == "linux" else 103
"""Longest path of a unix socket (unix(7): sun_path holds 108 bytes on Linux, 104 on the BSDs, with the
NUL)."""

Json = dict[str, Any]
Handler = Callable[[str, Json], Awaitable[Json]]

log = structlog.get_logger(__name__)


class RpcError(Exception):
    """A handler's definite no. `code` is one word for programs, `message` a sentence for whoever reads it."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


class SocketRefused(Exception):
    """The socket cannot be opened at that path. The message says what to do."""


def socket_path(data_dir: Path) -> Path:
    """Where the gateway of this data directory listens: inside it, or, if that is too long a path for a unix
    socket, in a private directory of this user under the run-time or temporary directory."""
    path = data_dir / "gateway.sock"
    if len(os.fsencode(path)) <= PATH_BYTES:
        return path
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    name = hashlib.blake2b(os.fsencode(path.absolute()), digest_size=8).hexdigest()
    return Path(base) / f"semel-{os.getuid()}" / f"{name}.sock"


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
        listener, self._inode = _listen(self.path)
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
        _unlink_ours(self.path, self._inode)
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
            if (uid := _peer_uid(writer)) not in (None, self._uid):
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


async def _write(writer: asyncio.StreamWriter, line: bytes) -> None:
    if not writer.is_closing():
        writer.write(line)
        await writer.drain()


# ---------------------------------------------------------------- the socket


def _listen(path: Path) -> tuple[socket.socket, tuple[int, int]]:
    """A listening socket at `path`, and its (device, inode).

    It is bound under another name and renamed when it listens and only its owner may connect: there is no
    moment in which a caller finds it half made, and a dead gateway's socket is replaced in one step.
    """
    _private(path.parent)
    _free(path)
    draft = path.with_name(f".{os.getpid()}")
    for name in (path, draft):
        if len(os.fsencode(name)) > PATH_BYTES:
            raise SocketRefused(f"{name} is too long for a unix socket ({PATH_BYTES} bytes); use a shorter data_dir")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        draft.unlink(missing_ok=True)
        listener.bind(os.fspath(draft))
        draft.chmod(0o600)
        listener.listen(128)
        draft.rename(path)
        found = path.lstat()
    except OSError as error:
        listener.close()
        raise SocketRefused(f"cannot listen at {path}: {error.strerror}") from error
    listener.setblocking(False)
    return listener, (found.st_dev, found.st_ino)


def _private(directory: Path) -> None:
    """The directory exists, is ours, and no one else may enter it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise SocketRefused(f"{directory} must be a directory of this user; move it away or change data_dir")
        if found.st_mode & 0o077:
            directory.chmod(0o700)
    except OSError as error:
        raise SocketRefused(f"cannot use {directory}: {error.strerror}") from error


def _free(path: Path) -> None:
    """Nothing is at `path`, or only the socket of a gateway that is gone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketRefused(f"{path} is not a socket; move it away")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(1.0)
    try:
        probe.connect(os.fspath(path))
    except (ConnectionRefusedError, FileNotFoundError):
        return
    except OSError as error:
        raise SocketRefused(f"{path} may belong to a running gateway ({error})") from error
    finally:
        probe.close()
    raise SocketRefused(f"another gateway listens at {path}; stop it first")


def _unlink_ours(path: Path, inode: tuple[int, int] | None) -> None:
    """Law 10 in the small: a gateway that stops late does not take away its successor's socket."""
    with contextlib.suppress(OSError):
        found = path.lstat()
        if (found.st_dev, found.st_ino) == inode:
            path.unlink()


def _peer_uid(writer: asyncio.StreamWriter) -> int | None:
    """The user at the other end (Linux: SO_PEERCRED, unix(7)); None where the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    peer: socket.socket = writer.get_extra_info("socket")
    creds = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", creds)[1])
