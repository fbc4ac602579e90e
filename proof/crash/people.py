"""Who calls the gateway from outside: a client that repeats a request until it is answered, and one that watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

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
    """Holds what a session's stream tells, over every death. `faults`: what must never be seen."""

    http: httpx2.AsyncClient
    url: Callable[[], Awaitable[str]]
    session: str
    rev: int = 0
    entries: dict[int, Json] = field(default_factory=dict)
    final: dict[int, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
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
        headers = {"last-event-id": str(self.rev)} if self.rev else {}
        url = f"{await self.url()}/v1/sessions/{self.session}/stream"
        async with self.http.stream("GET", url, headers=headers, timeout=None) as stream:
            self.connections += stream.status_code == 200
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    self.take(json.loads(line[6:]))

    def take(self, message: Json) -> None:
        """One frame: a snapshot, or the changes since the last one."""
        if message["type"] == "snapshot" and not message["more"]:
            self.entries.clear()
        for entry in message.get("entries", ()):
            self._put(entry)
        for change in message.get("changes", ()):
            if change["rev"] <= self.rev:
                self.faults.append(f"rev {change['rev']} came behind {self.rev}")
            match change["op"]:
                case "entry":
                    self._put({name: value for name, value in change.items() if name != "op"})
                case "append" if change["seq"] in self.entries:
                    self.entries[change["seq"]]["text"] += change["text"]
                case "append":
                    self.faults.append(f"entry {change['seq']} grew and was never shown")
                case "gone":
                    self.entries.pop(change["seq"], None)
        if message["rev"] < self.rev:
            self.faults.append(f"rev {self.rev} was followed by {message['rev']}")
        self.rev = message["rev"]
        self.news.set()

    def _put(self, entry: Json) -> None:
        seq, text = entry["seq"], entry["text"]
        self.entries[seq] = dict(entry)
        if not entry.get("live") and self.final.setdefault(seq, text) != text:
            self.faults.append(f"entry {seq} was {self.final[seq]!r} and became {text!r}")

    async def reaches(self, rev: int) -> None:
        """Until it has seen all up to there."""
        while self.rev < rev:
            self.news.clear()
            await self.news.wait()
