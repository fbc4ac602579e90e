"""A gateway with a channel that people write on, for tests of what comes in."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from gateway_world import World, _reap, until

from semel.agents.acp import AcpAgent
from semel.gateway import Gateway
from semel.gateway.ports import Incoming, Person, Safety
from semel.gateway.settings import ChannelSettings, PersonSettings
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.store import LedgerStore
from semel.testing.channels import FakeChannel

ANN = Person("ann@x", "Ann")
BOB = Person("bob@x", "Bob")
EVE = Person("eve@x", "Eve")  # a stranger
KEY = "demo:chat:room"

Json = dict[str, Any]


class Chat(World):
    """`async with Chat(path) as w`: `w.chat` is the channel, `w.tell(...)` puts one batch."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.chat = FakeChannel("chat", Safety.IDEMPOTENT)
        own = {"groups": "mention", **settings.pop("chat", {})}
        settings.setdefault("channels", {"chat": self.chat})
        settings.setdefault("channel_settings", {"chat": ChannelSettings(name="chat", kind="fake", **own)})
        settings.setdefault(
            "people",
            {
                "ann": PersonSettings(name="ann", role="owner", accounts=("chat:ann@x",)),
                "bob": PersonSettings(name="bob", role="member", accounts=("chat:bob@x",)),
                "robot": PersonSettings(name="robot", role="guest", accounts=("chat:robot@x",)),
            },
        )
        super().__init__(path, **settings)

    async def start(self) -> Chat:
        """As a world starts, with a trace of what its agent is asked."""
        return await self.start_on(await asyncio.to_thread(Store.open, self.settings.ledger))

    async def start_on(self, store: LedgerStore) -> Chat:
        trace = self.path / "trace"
        agents = {n: AcpAgent(n, a.command, a.cwd, a.env, trace=trace) for n, a in self.settings.agents.items()}
        self.gateway = Gateway(self.settings, store, agents, self.channels, reap=_reap)
        return await self.begin()

    async def __aenter__(self) -> Chat:
        return await self.start()

    def prompts(self) -> list[list[Json]]:
        """The content blocks of every prompt that an agent was given, in order."""
        lines = [line for path in sorted((self.path / "trace").glob("*")) for line in path.read_text().splitlines()]
        sent = [json.loads(line)["msg"] for line in lines if '"dir": "c2a"' in line]
        return [one["params"]["prompt"] for one in sent if one.get("method") == "session/prompt"]

    def asked(self) -> str:
        """The text of the newest prompt, a blank line between its blocks."""
        return "\n\n".join(block.get("text") or json.dumps(block) for block in self.prompts()[-1])

    async def tell(self, *events: Incoming, cursor: str | None = None, copies: int = 1) -> None:
        await self.chat.tell(*events, cursor=cursor, copies=copies)

    async def told(self, *events: Incoming, session: str = KEY, **more: Any) -> list[Json]:
        """The entries of a session, once these were put and everything rests."""
        await self.tell(*events, **more)
        await self.idle(session)
        return await self.entries(session)

    async def heard(self, session: str = KEY) -> list[Json]:
        """Its entries of people."""
        return [entry for entry in await self.entries(session) if entry["role"] == "user"]


def message(key: str, text: str, sender: Person = ANN, address: str = "room", **more: Any) -> Incoming:
    return Incoming("message", key, address, sender, text, **more)


__all__ = ["ANN", "BOB", "EVE", "KEY", "Chat", "Json", "message", "until"]
