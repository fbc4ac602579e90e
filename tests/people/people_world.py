"""A gateway with one chat platform and people on it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway_world import World, until

from semel.gateway.inbound.admission import Verdict
from semel.gateway.ports import Incoming, Person, Safety
from semel.gateway.settings import ChannelSettings, PersonSettings
from semel.testing.channels import FakeChannel

Json = dict[str, Any]
ADA, BOB, EVE = Person("@ada", "Ada"), Person("@bob", "Bob"), Person("@eve", "Eve")
LISTED = (
    PersonSettings(name="ada", role="owner", accounts=("chat:@ada",)),
    PersonSettings(name="bob", role="member", accounts=("chat:@bob",)),
)
_numbers = itertools.count(1)


def said(text: str, who: Person = ADA, room: str = "dm", key: str | None = None, **more: Any) -> Incoming:
    """A message, as the platform tells of it."""
    return Incoming("message", key or f"k{next(_numbers)}", room, who, text, **more)


class Chat(World):
    """`async with Chat(path) as w`: Ada is the owner, Bob a member, whoever else a stranger."""

    def __init__(
        self, path: Path, *, listed: Sequence[PersonSettings] = LISTED, own: Json | None = None,
        facts: Json | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        self.chat = FakeChannel("chat", Safety.AT_MOST_ONCE, **(facts or {}))
        super().__init__(
            path, channels={"chat": self.chat}, people={one.name: one for one in listed},
            channel_settings={"chat": ChannelSettings(name="chat", kind="fake", **(own or {}))}, **settings,
        )  # fmt: skip

    @property
    def people(self) -> Any:
        return self.gateway.people

    async def judge(self, what: Incoming) -> Verdict:
        verdict: Verdict = await self.people.judge("chat", what)
        return verdict

    async def tell(self, text: str, who: Person = ADA, room: str = "dm", **more: Any) -> None:
        """Somebody writes, and the platform was told that it is taken."""
        await self.chat.tell(said(text, who, room, **more))

    def shown(self, room: str = "dm") -> list[str]:
        """What people see there of ours."""
        return self.chat.platform.shown(room)

    async def until_shown(self, words: str, room: str = "dm") -> str:
        """The message of ours with these words, once it is there."""
        found: list[str] = []

        async def there() -> bool:
            found[:] = [text for text in self.shown(room) if words in text]
            return bool(found)

        await until(there)
        return found[0]

    def refused(self) -> dict[str, int]:
        """How often, by reason."""
        return {one["reason"]: one["times"] for one in self.people.refused()["refused"] if one["channel"] == "chat"}

    async def rows(self) -> int:
        """Everything in the ledger that grows with what is heard."""
        counts = (await self.gateway.doctor())["ledger"]
        return sum(value for value in counts.values() if isinstance(value, int))
