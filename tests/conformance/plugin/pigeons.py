"""A channel as somebody else would write it, after docs/write-a-channel.md: a dovecote that speaks HTTP.

GET  /letters?after=N&wait=S        {"letters": [{"n", "id", "from", "loft", "text", "key"?}]}: 20 at most, oldest
                                                                     first; our own flights, too, with their key
POST /flights {"loft", "text", "key"}           {"id"}
GET  /flights?loft=L&after=N        {"flights": [{"n", "id", "key", "text"}], "more": bool}: 20 at most
PUT  /flights/ID {"text"}           {"id"}
"""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass
from typing import Any

from semel.channels import Kind
from semel.channels.http import HttpAnswer, request
from semel.gateway.ports import Caps, Inbox, Incoming, NotSent, Offline, Op, Person, Receipt, Rejected, Safety, Unknown


@dataclass(frozen=True)
class PigeonSettings:
    """`[channels.NAME]` with `kind = "pigeon"`. `timeout` and `settle` are seconds."""

    dovecote: str
    carrier: str = "at-most-once"
    timeout: float = 10.0
    settle: float = 1.0

    def __post_init__(self) -> None:
        if self.carrier not in set(Safety):
            raise ValueError(f"carrier is {self.carrier!r}; there is {', '.join(Safety)}")


class PigeonChannel:
    def __init__(self, name: str, settings: PigeonSettings) -> None:
        self.name = name
        self.settings = settings
        safety = Safety(settings.carrier)
        finds = safety is Safety.RECONCILABLE
        self.caps = Caps(
            safety=safety,
            key_life=3600.0 if safety is Safety.IDEMPOTENT else 0.0,
            settle=settings.settle if finds else 0.0,
            finds=finds,
            timeout=settings.timeout + 30.0,
            edits=True,
        )

    async def run(self, inbox: Inbox) -> None:
        at = await inbox.cursor()
        if at is None:
            newest = await self._get("/letters?newest=1")
            at = str(newest["n"])
            await inbox.put([], at)
        inbox_told = False
        while True:
            told = await self._get(f"/letters?after={at}&wait={5 if inbox_told else 0}")
            letters = told["letters"]
            if letters:
                at = str(letters[-1]["n"])
                await inbox.put([_incoming(letter) for letter in letters], at)
            elif not inbox_told:
                inbox.online()
                inbox_told = True

    async def send(self, op: Op) -> Receipt:
        if op.kind == "edit":
            answer = await self._ask("PUT", f"/flights/{op.target}", {"text": op.text})
        else:
            answer = await self._ask("POST", "/flights", {"loft": op.address, "text": op.text, "key": op.key})
        if answer.status == 429:
            raise NotSent("too many pigeons", float(answer.headers.get("retry-after", 1)))
        if answer.status >= 500:
            raise Unknown(f"HTTP {answer.status}")
        if answer.status != 200:
            raise Rejected(f"HTTP {answer.status}")
        return Receipt(json.loads(answer.body)["id"])

    async def find(self, op: Op, since: float) -> Receipt | None:
        at, more = 0, True
        while more:
            loft = urllib.parse.quote(op.address)
            page = await self._get(f"/flights?loft={loft}&after={at}")
            for flight in page["flights"]:
                if flight["key"] == op.key:
                    return Receipt(flight["id"])
                at = flight["n"]
            more = page["more"]
        return None

    async def _get(self, path: str) -> dict[str, Any]:
        try:
            answer = await self._ask("GET", path, None)
        except (NotSent, Unknown) as lost:
            raise Offline(str(lost)) from None
        if answer.status != 200:
            raise Offline(f"HTTP {answer.status}")
        return dict(json.loads(answer.body))

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> HttpAnswer:
        content = None if body is None else json.dumps(body).encode()
        url = self.settings.dovecote + path
        most, patience = 2**20, self.settings.timeout + (10.0 if "wait=" in path else 0.0)
        return await request(method, url, content, {}, timeout=patience, allow_private=True, most=most)


def _incoming(letter: dict[str, Any]) -> Incoming:
    if "key" in letter:  # a flight of our own
        return Incoming("echo", letter["key"], letter["loft"], of=letter["id"])
    return Incoming(
        "message", letter["id"], letter["loft"], Person(letter["from"], letter["from"]), letter["text"]
    )  # fmt: skip


KIND = Kind(PigeonSettings, PigeonChannel)
