"""Helpers for servers of tests."""

from __future__ import annotations

import asyncio


async def close_server(server: asyncio.Server) -> None:
    """Stop accepting connections, and close the server once those that were accepted have begun.

    Python 3.11 leaves the socket of a connection open whose server closes between the two.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(3):  # the accepting callback, its task, the protocol's callback
        await asyncio.sleep(0)
    server.close()
