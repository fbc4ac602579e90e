"""Read HTTP/1.1 requests from a stream.

Test doubles and proxies use this instead of an HTTP server library, because they must be able to close the connection
in the middle of an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import h11


@dataclass(frozen=True)
class HttpRequest:
    """One HTTP request. `target`: path and query. `headers`: their names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader, connection: h11.Connection | None = None) -> HttpRequest:
    """Read the next request and its body. Raises EOFError if none comes, h11.RemoteProtocolError if it is malformed.

    `connection`: the protocol state, needed if more than one request is read from the stream.
    """
    connection = connection or h11.Connection(h11.SERVER)
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
            return HttpRequest(head.method.decode("ascii"), head.target.decode("ascii"), headers, bytes(body))
        else:  # the connection was closed
            raise EOFError
