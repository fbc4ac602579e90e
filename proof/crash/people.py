"""Who calls the gateway from outside: a client that repeats a request until it is answered, and one that watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

from proof.stream_view import View

Json = dict[str, Any]
AGAIN = 0.02  # seconds before a request is repeated


@dataclass
class Caller:
    """Repeats a request, with its key, until the gateway has it. `answers`: what came back, by key."""

    http: httpx2.AsyncClient
    url: Callable[[], Awaitable[str]]
    answers: dict[str, list[tuple[int, Json]]] = field(default_factory=dict)

    async def post(self, path: str, body: Json, key: str, token: str | None = None) -> None:
        headers = {"idempotency-key": key, **({"authorization": f"Bearer {token}"} if token else {})}
        got = self.answers.setdefault(key, [])
        while not got or got[-1][0] not in (202, 409):
            try:
                answer = await self.http.post(await self.url() + path, json=body, headers=headers)
                got.append((answer.status_code, dict(answer.json())))
            except (httpx2.HTTPError, ValueError):
                pass  # it died, or is about to
            if not got or got[-1][0] not in (202, 409):
                await asyncio.sleep(AGAIN)


@dataclass
class Watcher:
    """Follows a session's stream over every death; `view` holds what it tells."""

    http: httpx2.AsyncClient
    url: Callable[[], Awaitable[str]]
    session: str
    view: View = field(default_factory=View)
    connections: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        while True:
            try:
                await self._follow()
            except (httpx2.HTTPError, ValueError):
                pass  # it died in the middle
            await asyncio.sleep(AGAIN)

    async def _follow(self) -> None:
        headers = {"last-event-id": str(self.view.rev)} if self.view.rev else {}
        url = f"{await self.url()}/v1/sessions/{self.session}/stream"
        async with self.http.stream("GET", url, headers=headers, timeout=None) as stream:
            self.connections += stream.status_code == 200
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    self.view.take(json.loads(line[6:]))
                    self.news.set()

    async def reaches(self, rev: int) -> None:
        """Until it has seen all up to there."""
        while self.view.rev < rev:
            self.news.clear()
            await self.news.wait()
