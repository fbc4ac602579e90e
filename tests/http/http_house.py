"""What tests of the HTTP face share: a client in process, and a house with a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec

from semel.faces.http import Server, Settings, make_app
from semel.gateway import Gateway

TOKEN = "a-token-that-only-the-owner-knows"


def client_of(gateway: Gateway, settings: Settings, **headers: str) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=make_app(gateway, settings))
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8420", headers=headers)


@dataclass
class House:
    """A server on a real port, and a client of it."""

    server: Server
    client: httpx2.AsyncClient

    async def frames(self, path: str, **headers: str) -> AsyncIterator[dict[str, Any]]:
        """Events of a stream as {"id", "event", "data"}, until it ends."""
        async with (
            self.client.stream("GET", path, headers=headers) as response,
            aclosing(response.aiter_lines()) as lines,
        ):
            assert response.status_code == 200, await response.aread()
            frame: dict[str, Any] = {}
            async for line in lines:
                name, _, value = line.partition(": ")
                if not line and "data" in frame:
                    yield frame
                    frame = {}
                elif name == "data":
                    frame["data"] = msgspec.json.decode(value)
                elif name in ("id", "event"):
                    frame[name] = value
