"""A small HTTP server for a platform of a test: one request a connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from semel.testing.http_requests import HttpRequest, read_request
from semel.testing.servers import serve_streams

Answers = Callable[[HttpRequest], Awaitable[tuple[int, Mapping[str, Any]]]]
"""A request -> the status and the JSON of its answer."""


@contextlib.asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[int]:
    """It listens at this port of 127.0.0.1 until the block ends; what still waits for an answer gets none then."""
    async with serve_streams(partial(_serve, answers)) as port:
        yield port


async def _serve(answers: Answers, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        status, body = await answers(await read_request(reader))
        content = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + content)
        await writer.drain()
    except (OSError, EOFError):
        pass
