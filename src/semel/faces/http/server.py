"""Serve the application on a port and on the gateway's unix socket, with uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from semel.faces.http.security import CAME_BY_UNIX_SOCKET, can_identify_owner
from semel.faces.http.slow_clients import CLIENT_LIMITS, TimedConnection
from semel.gateway.unix_socket import UnixListener

BACKLOG = 512
LAST_ANSWER_S = 1.0  # for requests that the stop cuts off, to be answered
MAX_PORT = 65535


class CannotListen(OSError):
    """The address cannot be bound. The message gives the reason and what to do."""


class _Server(uvicorn.Server):
    """uvicorn inside our own event loop: without signal handlers, and with one tick per second instead of ten."""

    def __init__(
        self, app: Starlette, asgi: ASGIApp, sockets: list[socket.socket], protocol: type[asyncio.Protocol] | str
    ):
        super().__init__(
            uvicorn.Config(
                asgi,
                http=protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # access depends on tokens and hosts, never on forwarded headers
                server_header=False,
                timeout_keep_alive=round(CLIENT_LIMITS["idle"][0]),
            )
        )
        self._app = app
        self._sockets = sockets
        self._ready = asyncio.Event()
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to serve; returns once the server answers."""
        logging.getLogger("uvicorn").setLevel(logging.ERROR)  # the gateway logs start and stop itself
        self._task = asyncio.create_task(self.serve(self._sockets), name="http server")
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self, grace: float = 5.0) -> None:
        """End open streams at once; give other requests `grace` seconds to finish, then drop them."""
        self._app.state.stopping.set()
        if self._task is None:
            return
        self.config.timeout_graceful_shutdown = max(1, round(grace))
        self.should_exit = True
        self._ending.set()
        await self._task

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, which keeps a connection open for ever if its client does not read the rest of an answer."""
        await super().shutdown(sockets)
        if cut_off := list(self.server_state.tasks):
            await asyncio.wait(cut_off, timeout=LAST_ANSWER_S)
            await asyncio.sleep(0)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the transports close their sockets in the next turn of the loop

    async def main_loop(self) -> None:
        while not self._ending.is_set():
            await self.on_tick(0)  # refreshes the Date header
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._ending.wait()


class Server(_Server):
    """The application on a port. `url` is where to point a browser. End it with `stop`."""

    def __init__(self, app: Starlette, sockets: list[socket.socket], host: str):
        super().__init__(app, app, sockets, TimedConnection)
        self.port: int = sockets[0].getsockname()[1]
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)
        if ":" in name and not name.startswith("["):
            name = f"[{name}]"
        self.url = f"http://{name}:{self.port}"

    def __repr__(self) -> str:
        return f"<Server {self.url}, {len(self.server_state.connections)} connections>"

    async def start(self) -> None:
        can_identify_owner()  # fills its cache now, because the test takes a moment
        await super().start()


class UnixServer(_Server):
    """The same application on the gateway's unix socket, for the processes of its own user.

    Only they can connect (`unix_socket.py`), so nobody is asked for a token, and no slow client is cut off. The tool
    calls of agents come this way; the parser is httptools because h11 makes them slower
    (docs/decisions/one-local-protocol.md).
    """

    def __init__(self, app: Starlette, listener: UnixListener):
        async def local(scope: Scope, receive: Receive, send: Send) -> None:
            scope["state"][CAME_BY_UNIX_SOCKET] = True  # for `security.check_access`
            await app(scope, receive, send)

        super().__init__(app, local, [listener.socket], "httptools")
        self.path = listener.path
        self._listener = listener

    def __repr__(self) -> str:
        return f"<UnixServer {self.path}, {len(self.server_state.connections)} connections>"

    async def stop(self, grace: float = 2.0) -> None:
        await super().stop(grace)
        self._listener.close()


async def serve(app: Starlette, host: str, port: int) -> Server:
    """Return a server that listens and answers until its `stop`. Port 0 takes a free one. Raises CannotListen."""
    server = Server(app, await bind(host, port), host)
    await server.start()
    return server


async def serve_unix(app: Starlette, path: Path) -> UnixServer:
    """Return a server that listens at `path` and answers until its `stop`. Raises SocketRefused."""
    server = UnixServer(app, UnixListener(path))
    await server.start()
    return server


async def bind(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of `host`. Raises CannotListen."""
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host!r}: {error.strerror or error}. Name an address of this machine."
        ) from error
    sockets: list[socket.socket] = []
    for family, _, _, _, address in dict.fromkeys(addresses):
        bound_port = sockets[0].getsockname()[1] if sockets and port == 0 else port
        try:
            sockets.append(_listen(family, (address[0], bound_port, *address[2:])))
        except OSError as error:
            if sockets and error.errno == errno.EADDRNOTAVAIL:
                continue  # a name with an IPv6 address on a machine without IPv6
            for sock in sockets:
                sock.close()
            raise CannotListen(_explain_refusal(error, host, bound_port)) from error
    return sockets


def _listen(family: int, address: tuple[object, ...]) -> socket.socket:
    # asyncio sets TCP_NODELAY only if the socket names IPPROTO_TCP; without it, every answer takes 40 ms longer.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _explain_refusal(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            free = port + 1 if port < MAX_PORT else port - 1
            other = f"{f'[{host}]' if ':' in host else host or '127.0.0.1'}:{free}"
            return (
                f"port {port} on {host or 'this machine'} is in use, perhaps by another gateway. "
                f"Stop that one, or use another port: `semel up --listen {other}`, or `listen` in the [gateway] "
                "section of semel.toml."
            )
        case errno.EACCES:
            return f"port {port} may not be opened by this user. Use a port above 1023."
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine."
    return f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}"
