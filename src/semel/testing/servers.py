"""Helpers for servers of tests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


async def close_server(server: asyncio.Server) -> None:
    """Stop accepting connections, and close the server once the protocols of accepted connections have started.

    If a server closes between acceptance and start, Python 3.11 leaves the connection's socket open.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(3):  # the accepting callback, its task, the protocol's callback
        await asyncio.sleep(0)
    server.close()


@asynccontextmanager
async def serve_streams(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    port: int = 0, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:  # fmt: skip
    """Let `talk` serve each connection until the block ends, and close it. Port 0: any free one. Yields the port.

    At the end, the tasks that still serve a connection are cancelled.
    """
    tasks: set[asyncio.Task[None]] = set()
    is_closing = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await talk(reader, writer)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_closing:
            writer.transport.abort()
            return
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # also where it never began

    server = await asyncio.start_server(accept, host, port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        is_closing = True
        await close_server(server)
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # let `accept` close connections that were just being accepted
