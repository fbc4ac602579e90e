"""Run uvicorn inside our own event loop: without signal handlers, with a slow tick, and with an explicit `stop`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette

from semel.faces.http import neighbours
from semel.faces.http.patience import PATIENCE, TimedConnection

BACKLOG = 512


class CannotListen(OSError):
    """The address cannot be bound. The message gives the reason and what to do."""


class Server:
    """A running HTTP server. `url` is where to point a browser. End it with `stop`."""

    def __init__(self, app: Starlette, sockets: list[socket.socket], host: str):
        self.port: int = sockets[0].getsockname()[1]
        self.host = host
        self._app = app
        self._sockets = sockets
        config = uvicorn.Config(
            app,
            http=TimedConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # access depends on tokens and hosts, never on forwarded headers
            server_header=False,
            timeout_keep_alive=round(PATIENCE["idle"][0]),
        )
        self._inner = _Uvicorn(config)
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Server {self.url}, {len(self._inner.server_state.connections)} connections>"

    @property
    def url(self) -> str:
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self.host, self.host)
        if ":" in name and not name.startswith("["):
            name = f"[{name}]"
        return f"http://{name}:{self.port}"

    async def start(self) -> None:
        """Start to serve; returns once the server answers."""
        neighbours.can_identify_owner()
        logging.getLogger("uvicorn").setLevel(logging.ERROR)  # the gateway logs start and stop itself
        self._task = asyncio.create_task(self._inner.serve(sockets=self._sockets), name="http server")
        ready = asyncio.create_task(self._inner.ready.wait())
        await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self, grace: float = 5.0) -> None:
        """End open streams at once; give other requests `grace` seconds to finish, then drop them."""
        if self._task is None:
            return
        self._app.state.stopping.set()
        self._inner.config.timeout_graceful_shutdown = max(1, round(grace))
        self._inner.stop()
        await self._task


class _Uvicorn(uvicorn.Server):
    """uvicorn's server without its signal handlers, and with one tick per second instead of ten."""

    def __init__(self, config: uvicorn.Config):
        super().__init__(config)
        self.ready = asyncio.Event()
        self._stop = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        while not self._stop.is_set():
            await self.on_tick(0)  # refreshes the Date header
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._stop.wait()

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()


async def serve(app: Starlette, host: str, port: int) -> Server:
    """Listen and answer until `Server.stop`. Port 0 takes a free one. Raises CannotListen."""
    server = Server(app, await bind(host, port), host)
    await server.start()
    return server


async def bind(host: str, port: int) -> list[socket.socket]:
    """One listening socket for each address of `host`."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        raise CannotListen(
            f"cannot listen on {host!r}: {exc.strerror or exc}. Name an address of this machine."
        ) from exc
    sockets: list[socket.socket] = []
    for family, _, _, _, address in dict.fromkeys(found):
        taken = sockets[0].getsockname()[1] if sockets and port == 0 else port
        try:
            sockets.append(_listen(family, (address[0], taken, *address[2:])))
        except OSError as exc:
            if sockets and exc.errno == errno.EADDRNOTAVAIL:
                continue  # a name with an IPv6 address on a machine without IPv6
            for sock in sockets:
                sock.close()
            raise CannotListen(_why(exc, host, taken)) from exc
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


def _why(exc: OSError, host: str, port: int) -> str:
    match exc.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} on {host or 'this machine'} is in use, perhaps by another gateway. "
                "Stop that one, or set another port: `listen` in the [gateway] section of semel.toml."
            )
        case errno.EACCES:
            return f"port {port} may not be opened by this user. Use a port above 1023."
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine."
    return f"cannot listen on {host}:{port}: {os.strerror(exc.errno or 0)}"
