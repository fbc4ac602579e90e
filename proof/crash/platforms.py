"""The platforms: they live beside the gateway, remember what they took, and tell what was not acknowledged again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Taken:
    """One message that a platform has, as people see it."""

    key: str
    address: str
    text: str


@dataclass
class Platform:
    """What is common: a log, and what goes wrong the first time that a text comes. `folds`: a repeated key is one
    message. `on_take` is called before the answer to each message that is taken."""

    dropped: Sequence[str] = ()
    refused: Sequence[str] = ()
    folds: bool = False
    log: list[Taken] = field(default_factory=list)
    attempts: list[tuple[str, str]] = field(default_factory=list)  # (key, text)
    faults: list[str] = field(default_factory=list)
    on_take: Callable[[Taken], None] = lambda taken: None
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, the platform takes messages and tells nobody so."""
    _met: set[str] = field(default_factory=set)
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.answers.set()

    async def start(self) -> int:
        """The port where it listens."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def has(self, text: str) -> bool:
        """Whether people see it."""
        return any(one.text == text for one in self.log)

    def meet(self, key: str, address: str, text: str) -> str:
        """What becomes of an attempt: "taken", "refused", or "dropped" (taken, and nobody is told)."""
        self.attempts.append((key, text))
        first = text not in self._met
        self._met.add(text)
        if first and text in self.refused:
            return "refused"
        before = [one for one in self.log if one.key == key]
        if not self.folds or not before:
            self.log.append(Taken(key, address, text))
        elif before[0].text != text:
            self.faults.append(f"the key {key} came with {before[0].text!r}, and then with {text!r}")
        self.on_take(self.log[-1])
        return "dropped" if first and text in self.dropped else "taken"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(OSError, EOFError, ValueError, asyncio.CancelledError):
                await self.serve(reader, writer)
        finally:
            self._open.discard(task)
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        raise NotImplementedError


@dataclass
class Post(Platform):
    """A chat platform (`post.py`): people's messages are told from the cursor on that the caller acknowledges."""

    events: list[Json] = field(default_factory=list)
    acknowledged: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    polled: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, *texts: str, room: str = "room") -> None:
        """Ann writes these, at once."""
        for text in texts:
            n = len(self.events) + 1
            self.events.append({"n": n, "id": f"m{n}", "from": "ann", "room": room, "text": text})
        self.news.set()

    async def heard(self) -> None:
        """Until all of it was acknowledged."""
        while self.acknowledged < len(self.events):
            self.polled.clear()
            await self.polled.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            answer = await self._answer(json.loads(line))
            if answer is None:
                return
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()

    async def _answer(self, asked: Mapping[str, Any]) -> Json | None:
        match asked["do"]:
            case "poll":
                return {"events": await self._events(int(asked["after"]))}
            case "find":
                return {"id": next((one.key for one in self.log if one.key == asked["key"]), None)}
        what = self.meet(asked["key"], asked["address"], asked["text"])
        if what == "refused":
            return {"not": "not now"}
        await self.answers.wait()
        return None if what == "dropped" else {"id": asked["key"]}

    async def _events(self, after: int) -> list[Json]:
        self.acknowledged = max(self.acknowledged, after)
        self.polled.set()
        while not (left := [one for one in self.events if one["n"] > self.acknowledged]):
            self.news.clear()
            await self.news.wait()
        return left


@dataclass
class Hook(Platform):
    """Where the webhook channel POSTs to: an HTTP server that folds repeats of a webhook-id."""

    folds: bool = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        data = json.loads(await reader.readexactly(int(headers["content-length"])))["data"]
        what = self.meet(headers["webhook-id"], data["to"], data["text"])
        if what == "taken":
            await self.answers.wait()
        if what == "dropped":
            return
        body = json.dumps({"id": headers["webhook-id"]}).encode()
        status = b"429 Too Many Requests" if what == "refused" else b"200 OK"
        writer.write(b"HTTP/1.1 %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
