"""A channel with an HTTP client of its own and one mistake in it: the kinds that people make when they write one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from rig_pigeon import PigeonRig

from semel.gateway.ports import (
    Channel,
    Denied,
    Inbox,
    Incoming,
    NotSent,
    Offline,
    Op,
    Person,
    Receipt,
    Rejected,
    Safety,
    Unknown,
)

JSON = Mapping[str, Any]
ANSWER = 0.5
"""Seconds for one."""


class CarelessPigeon:
    """It speaks with a client of its own, and hears as a pigeon does. `mistake`: what it gets wrong; "" for nothing."""

    def __init__(self, pigeon: Channel, dovecote: str, mistake: str) -> None:
        self.name, self.caps = pigeon.name, replace(pigeon.caps, edits=False)
        self.pigeon = pigeon
        self.dovecote = dovecote
        self.mistake = mistake
        self.said: dict[str, Op] = {}
        self.lookups: dict[str, float] = {}  # when each key was first looked up

    async def run(self, inbox: Inbox) -> None:
        if self.mistake in ("online before the backlog", "the backlog is lost"):
            inbox.online()
        if self.mistake == "run raises":
            raise KeyError("letters")
        if self.mistake == "a lost platform is denied":
            await self._run_denied(inbox)
        while self.mistake == "run reconnects":
            with contextlib.suppress(Offline):
                await self.pigeon.run(inbox)
            await asyncio.sleep(0.1)
        await self.pigeon.run(CarelessInbox(inbox, self))

    async def _run_denied(self, inbox: Inbox) -> None:
        try:
            await self.pigeon.run(inbox)
        except Offline as lost:
            raise Denied(str(lost)) from None

    async def find(self, op: Op, since: float) -> Receipt | None:
        now = time.monotonic()
        if self.mistake == "settle is too short" and now - self.lookups.setdefault(op.key, now) < 1.0:
            return None
        if self.mistake == "another key is looked up":
            op = replace(op, key=f"{op.key}-")
        try:
            return await self.pigeon.find(op, since)
        except Exception as error:
            if self.mistake == _name_lookup_mistake(error):
                return None
            raise

    async def send(self, op: Op) -> Receipt:
        self.said[op.key] = op
        return await self._post(self.dovecote + "/flights", {"loft": op.address, "text": op.text, "key": op.key}, op)

    async def _post(self, url: str, body: JSON, op: Op, method: str = "POST") -> Receipt:
        where = urlsplit(url)
        content = json.dumps(body).encode() if method == "POST" else b""
        target = where.path + (f"?{where.query}" if where.query else "")
        head = f"{method} {target} HTTP/1.1\r\nhost: {where.netloc}\r\nconnection: close\r\n"
        try:
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
        except OSError as refused:
            if self.mistake == "a refused connection is unknown":
                raise Unknown(str(refused)) from None
            raise NotSent(str(refused)) from None
        try:
            writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
            async with asyncio.timeout(ANSWER):
                answer = await reader.read()
        except TimeoutError:
            raise self._lost("a time-out is not sent", "no answer in time") from None
        except OSError as broken:
            raise self._lost("a broken connection is not sent", str(broken)) from None
        finally:
            writer.transport.abort()
        return await self._outcome(answer, body, op)

    async def _outcome(self, answer: bytes, body: JSON, op: Op) -> Receipt:
        if not answer:
            raise self._lost("a broken connection is not sent", "no answer")
        head, end, rest = answer.partition(b"\r\n\r\n")
        if not end:
            raise self._lost("half an answer is not sent", "half an answer")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split()[1])
        if status == 429:
            raise self._not_now(headers, rest)
        if status >= 500:
            raise self._server_error(status, headers)
        if 300 <= status < 400:
            return await self._redirected(status, headers["location"], body, op)
        if status >= 400:
            raise self._definite(status)
        return self._receipt(rest, op)

    def _lost(self, mistake: str, why: str) -> Exception:
        return NotSent(why) if self.mistake == mistake else Unknown(why)

    def _not_now(self, headers: Mapping[str, str], body: bytes) -> Exception:
        if self.mistake == "429 is unknown":
            return Unknown("HTTP 429")
        if self.mistake == "429 is no":
            return Rejected("HTTP 429")
        if self.mistake == "429 needs a Retry-After":
            return NotSent("HTTP 429", float(headers["retry-after"]))
        if self.mistake == "429 needs a body":
            json.loads(body)
        asked = headers.get("retry-after")
        wait = None if asked is None or self.mistake == "Retry-After is ignored" else float(asked)
        return NotSent("HTTP 429", wait)

    def _server_error(self, status: int, headers: Mapping[str, str]) -> Exception:
        why = f"HTTP {status}"
        if self.mistake == "5xx is not sent":
            return NotSent(why)
        if self.mistake == "5xx is no" or (self.mistake == "503 with Retry-After is no" and "retry-after" in headers):
            return Rejected(why)
        if self.mistake == f"{status} is not sent":
            return NotSent(why)
        return Unknown(why)

    async def _redirected(self, status: int, location: str, body: JSON, op: Op) -> Receipt:
        if self.mistake == "redirects are followed":
            return await self._post(location, body, op)
        if self.mistake == "redirects are followed by GET" and status < 307:
            return await self._post(location, body, op, "GET")
        if self.mistake == "redirects are receipts":
            return Receipt(op.key)
        raise Rejected(f"HTTP {status}")

    def _definite(self, status: int) -> Exception:
        if self.mistake == "a definite no is not sent":
            return NotSent(f"HTTP {status}")
        if self.mistake == "a definite no is unknown":
            return Unknown(f"HTTP {status}")
        return Rejected("" if self.mistake == "a definite no has no reason" else f"HTTP {status}")

    def _not_now_inside(self, told: JSON) -> Exception:
        if self.mistake == "a not now inside a 200 is no":
            return Rejected(told["error"])
        return NotSent(told["error"], None if self.mistake == "its wait is ignored" else told["wait_s"])

    def _receipt(self, body: bytes, op: Op) -> Receipt:
        if b"slow_down" in body:
            raise self._not_now_inside(json.loads(body))
        try:
            return Receipt(json.loads(body)["id"])
        except (ValueError, LookupError):
            if self.mistake == "every 200 is a receipt":
                return Receipt(op.key)
            if self.mistake == "an unreadable 200 is not sent":
                raise NotSent("no JSON") from None
            if self.mistake == "an unreadable 200 is no":
                raise Rejected("no JSON") from None
            raise Unknown("no JSON") from None


def _name_lookup_mistake(error: Exception) -> str:
    """The mistake of a channel that takes this error of a lookup for "not sent"."""
    if not isinstance(error, Offline):
        return "an unreadable lookup is not sent"
    return "a refused lookup is not sent" if "HTTP" in str(error) else "a lost lookup is not sent"


class CarelessInbox:
    """What stands between the pigeon and its inbox: the mistakes of those who hear."""

    def __init__(self, inbox: Inbox, careless: CarelessPigeon) -> None:
        self._inbox, self._careless = inbox, careless

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    def online(self) -> None:
        if self._careless.mistake != "online is never called":
            self._inbox.online()

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        match self._careless.mistake:
            case "its own posts are messages":
                await self._inbox.put([self._as_message(event) for event in events], cursor)
            case "the backlog is lost" if len(events) > 1:
                await self._inbox.put([], cursor)
            case "the cursor is never saved":
                await self._inbox.put(events, None if events else cursor)
            case "the cursor never advances":
                await self._inbox.put(events, None if events else cursor)
                if events:
                    raise Offline("it begins anew, at the old place")
            case "the cursor is saved before the messages":
                await self._inbox.put([], cursor)
                await self._inbox.put(events)
            case "a failed put is ignored":
                with contextlib.suppress(OSError):
                    await self._inbox.put(events, cursor)
            case _:
                await self._inbox.put(events, cursor)

    def _as_message(self, event: Incoming) -> Incoming:
        if event.kind != "echo" or event.of is None:
            return event
        return Incoming("message", event.of, event.address, Person("semel"), self._careless.said[event.key].text)


class CarelessRig(PigeonRig):
    mistake = ""

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        return {**super().settings(ports), "timeout": 0.5}

    def make(self, name: str, ports: Mapping[str, int]) -> Channel:
        return CarelessPigeon(super().make(name, ports), f"http://127.0.0.1:{ports['api']}", self.mistake)


class CarelessSlowRig(CarelessRig):
    """Its platform says "not now" inside a 200."""

    def not_now(self, seconds: int) -> bytes:
        return json.dumps({"error": "slow_down", "wait_s": seconds}).encode()


class CarelessFindingRig(CarelessRig):
    safety = Safety.RECONCILABLE
    finds: ClassVar[bool] = True


def rig_with(mistake: str, kind: type[CarelessRig] = CarelessRig) -> CarelessRig:
    """The rig of a channel that makes this mistake."""
    rig = kind()
    rig.mistake = mistake
    return rig
