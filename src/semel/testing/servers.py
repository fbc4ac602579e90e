"""Helpers for servers of tests."""

from __future__ import annotations

import asyncio


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
