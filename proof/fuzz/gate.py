"""A gateway in this process, with a real ledger and an agent that never answers, and its HTTP face to be asked.

answer = gate().ask("POST", "/v1/sessions/s/messages", headers=[...], body=b"...")
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proof.fuzz.scratch import folder
from semel.channels.webhook import WebhookChannel, WebhookSettings
from semel.faces.http import Settings, make_app
from semel.gateway import Gateway
from semel.gateway.ports import AgentError, Conversation, Launch
from semel.gateway.settings import AgentSettings, ChannelSettings, GatewaySettings
from semel.ledger.sqlite.store import Store

TOKEN = "the-owners-token-of-a-fuzzed-gateway"
HOOK = "the-token-of-the-hook"
HOST = b"127.0.0.1:8420"
Headers = Sequence[tuple[bytes, bytes]]
PATIENCE = 20.0
REQUESTS = 20_000
STREAMED = 0.05
"""Seconds for which an answer that goes on is read."""


@dataclass(frozen=True)
class Answer:
    """What came back; `headers` in lower case. `whole`: it ended by itself."""

    status: int
    headers: Headers
    body: bytes
    whole: bool = True

    def header(self, name: bytes) -> bytes:
        return next((value for key, value in self.headers if key == name), b"")

    def json(self) -> Any:
        return json.loads(self.body)


class _Nobody:
    """An agent whose program is not there."""

    name = "demo"
    process = True

    async def open(self, launch: Launch) -> Conversation:
        raise AgentError("there is no agent here")


class Gate:
    """A started gateway and its ASGI application. Everything runs on `loop`, while it is asked."""

    def __init__(self, home: Path) -> None:
        self.asked = 0
        self.loop = asyncio.new_event_loop()
        agent = AgentSettings(name="demo", command=("false",), cwd=home, attempts=1)
        self.settings = GatewaySettings(
            data_dir=home, ledger=home / "ledger.db", agents={"demo": agent}, default_agent="demo",
            channels={"hook": ChannelSettings(name="hook", kind="webhook")},
        )  # fmt: skip
        self.loop.run_until_complete(self._start())

    def end(self) -> None:
        """Stop it, so that the process can end. Twice is fine."""
        if self.loop.is_running() or self.loop.is_closed():
            return
        self.loop.run_until_complete(self.gateway.stop(0.1))
        self.loop.run_until_complete(asyncio.to_thread(self.gateway.store.close))
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    async def _start(self) -> None:
        hook = WebhookChannel("hook", WebhookSettings(token=HOOK, session="s", sessions=["ci:*"]))
        nobody: Any = _Nobody()
        store = await asyncio.to_thread(Store.open, self.settings.ledger)
        self.gateway = Gateway(self.settings, store, {"demo": nobody}, {"hook": hook})
        await self.gateway.start()
        self.app = make_app(self.gateway, Settings(token=TOKEN))
        for n in range(3):
            await self.gateway.say("s", f"hello {n}, what is **new**?", key=f"k{n}")
        await self.gateway.report("s", "build.failed", "it broke", data={"n": 1})

    def ask(
        self, method: str, path: str, *, query: bytes = b"", headers: Headers = (), body: bytes = b"", pieces: int = 1,
        first: bytes = b"",
    ) -> Answer:  # fmt: skip
        """One request. What streams on is read until `first` was in it and for a moment, and left."""
        self.asked += 1
        return self.loop.run_until_complete(self._ask(method, path, query, headers, body, max(1, pieces), first))

    async def _ask(
        self, method: str, path: str, query: bytes, headers: Headers, body: bytes, pieces: int, first: bytes
    ) -> Answer:
        size = -(-len(body) // pieces) or 1
        chunks = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        said: list[Any] = []
        heard = asyncio.Event()
        leave = asyncio.Event()

        async def receive() -> Any:
            if chunks:
                return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}
            await leave.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            said.append(message)
            if message["type"] == "http.response.body" and first in message.get("body", b""):
                heard.set()

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode("utf-8", "replace"), "query_string": query, "root_path": "",
            "headers": [(name.lower(), value) for name, value in headers], "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 8420), "state": {},
        }  # fmt: skip
        asked = asyncio.ensure_future(self.app(scope, receive, send))  # type: ignore[arg-type]
        whole = await self._until(asked, said, heard)
        leave.set()
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(asyncio.CancelledError):
                await asked
        return _answer(said, whole)

    async def _until(self, asked: asyncio.Future[None], said: list[Any], heard: asyncio.Event) -> bool:
        """True: the answer ended; False: it is a stream."""
        done, _ = await asyncio.wait(
            {asked, asyncio.ensure_future(heard.wait())}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE
        )
        if asked not in done:
            streams = any(
                name == b"content-type" and b"event-stream" in value
                for m in said
                for name, value in m.get("headers", ())
            )
            await asyncio.wait({asked}, timeout=STREAMED if streams else PATIENCE)
        heard.set()
        return asked.done()


def _answer(said: list[Any], whole: bool) -> Answer:
    started = [message for message in said if message["type"] == "http.response.start"]
    assert len(started) == 1, f"{len(started)} beginnings of an answer"
    body = b"".join(message.get("body", b"") for message in said if message["type"] == "http.response.body")
    return Answer(started[0]["status"], [(bytes(n).lower(), bytes(v)) for n, v in started[0]["headers"]], body, whole)


def gate() -> Gate:
    """The one of this process; another one after many requests, so that no ledger grows large."""
    if _gates and _gates[-1].asked < REQUESTS:
        return _gates[-1]
    home = folder() / f"gateway-{len(_gates)}"
    if _gates:
        _gates[-1].end()
        shutil.rmtree(_gates[-1].settings.data_dir)
    home.mkdir()
    _gates.append(Gate(home))
    return _gates[-1]


_gates: list[Gate] = []


def end() -> None:
    """No gateway of this process runs on."""
    for each in _gates:
        each.end()
