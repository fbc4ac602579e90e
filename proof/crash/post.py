"""A channel as somebody would write it, of any safety class: a line of JSON for each request, over TCP.

    {"do": "send", "key", "kind", "address", "text"}  ->  {"id"} | {"not": why}; no answer: nobody knows
    {"do": "find", "key"}                             ->  {"id": id or null}
    {"do": "poll", "after": n}  -> {"events": [{"n", "id", "from", "room", "text"}]}, once some are

A poll after n acknowledges all up to n: the platform forgets them.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from semel.channels import Kind
from semel.gateway.ports import Caps, Inbox, Incoming, NotSent, Offline, Op, Person, Receipt, Safety, Unknown

Json = dict[str, Any]
SETTLE = 0.05  # seconds


@dataclass(frozen=True)
class PostSettings:
    """`[channels.NAME]` with `kind = "post"`."""

    port: int
    safety: str


class PostChannel:
    def __init__(self, name: str, settings: PostSettings) -> None:
        self.name = name
        self.settings = settings
        finds = settings.safety == Safety.RECONCILABLE
        self.caps = Caps(Safety(settings.safety), settle=SETTLE if finds else 0.0, finds=finds, timeout=60.0)

    def __repr__(self) -> str:
        return f"<PostChannel {self.name} at {self.settings.port}>"

    async def run(self, inbox: Inbox) -> None:
        at = await inbox.cursor() or "0"
        reader, writer = await self._connect(Offline)
        inbox.online()
        try:
            while True:
                told = await _ask(reader, writer, {"do": "poll", "after": int(at)})
                if told is None:
                    raise Offline("the platform hung up")
                at = str(told["events"][-1]["n"])
                await inbox.put([_incoming(one) for one in told["events"]], at)
        finally:
            writer.close()

    async def send(self, op: Op) -> Receipt:
        request = {"do": "send", "key": op.key, "kind": op.kind, "address": op.address, "text": op.text}
        told = await self._once(request)
        if told is None:
            raise Unknown("the connection broke before the answer came")
        if "not" in told:
            raise NotSent(told["not"])
        return Receipt(told["id"])

    async def find(self, op: Op, since: float) -> Receipt | None:
        told = await self._once({"do": "find", "key": op.key})
        if told is None:
            raise Unknown("the connection broke before the answer came")
        return Receipt(told["id"]) if told["id"] is not None else None

    async def _once(self, request: Json) -> Json | None:
        reader, writer = await self._connect(NotSent)
        try:
            return await _ask(reader, writer, request)
        finally:
            writer.close()

    async def _connect(self, fault: type[Exception]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection("127.0.0.1", self.settings.port)
        except OSError as error:
            raise fault(f"the platform cannot be reached: {error}") from None


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Json) -> Json | None:
    """The answer, or None where the connection broke."""
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    except OSError:
        return None
    return dict(json.loads(line)) if line.endswith(b"\n") else None


def _incoming(one: Json) -> Incoming:
    return Incoming("message", one["id"], one["room"], Person(one["from"], one["from"]), one["text"])


KIND = Kind(PostSettings, PostChannel)
