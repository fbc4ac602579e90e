"""The platforms of the twenty channels, all in this process: they outlive every gateway, and keep what they took."""

from __future__ import annotations

import contextlib
import json
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from proof.soak.plan import Channel, Message, Session, token
from semel.ledger.delivery import placeholders
from semel.testing.http_requests import HttpRequest
from semel.testing.telegram import TelegramDouble
from semel.testing.telegram import serve as serve_telegram
from semel.testing.telegram.model import Chat, TelegramAccount

SAMPLE = Path(__file__).parents[2] / "tests" / "conformance"
"""The sample platform of the conformance suite, and in `plugin` its channel, as a package brings one."""
sys.path.append(str(SAMPLE))

from dovecote import Dovecote  # noqa: E402
from small_server import serving  # noqa: E402

FAULTS: Mapping[str, float] = {"drop": 0.04, "500": 0.02, "429": 0.02, "503": 0.01, "slow": 0.005}
"""How often what goes wrong with a request that says something. The first two strike after it was taken."""
SLOW = 8.0
"""Seconds: longer than any channel waits here."""


@dataclass(frozen=True)
class Post:
    """One message that a platform took. `id`: as its receipt names it; `key`: the idempotency key, where it has one."""

    id: str
    key: str | None
    address: str
    text: str


class Platform(Protocol):
    """One channel's other side."""

    def posts(self) -> list[Post]:
        """What it took from the channel, in its order; a repeat that it folded is there again."""

    def write(self, message: Message) -> None:
        """A person writes there."""

    def serve(self) -> contextlib.AbstractAsyncContextManager[str]:
        """Its URL, while the block runs."""


class Faults:
    """What goes wrong by chance, the same chance for the same seed."""

    def __init__(self, seed: str) -> None:
        self._dice = random.Random(seed)
        self.struck = 0

    def next(self) -> str | None:
        for fault, chance in FAULTS.items():
            if self._dice.random() < chance:
                self.struck += 1
                return fault
        return None


async def _answered(fault: str | None, right: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """What the caller gets of the right answer. The connection is closed with an OSError."""
    if fault == "drop":
        raise ConnectionResetError
    return (500, {}) if fault == "500" else (200, right)


class Webhook:
    """A receiver that folds repeats of a webhook-id."""

    def __init__(self, channel: Channel, seed: int) -> None:
        self.faults = Faults(f"{seed}.{channel.name}")
        self._posts: list[Post] = []

    def posts(self) -> list[Post]:
        return self._posts

    def write(self, message: Message) -> None:
        raise NotImplementedError("what people say by a webhook is POSTed to the gateway")

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        async with serving(self._answer) as port:
            yield f"http://127.0.0.1:{port}/in"

    async def _answer(self, request: HttpRequest) -> tuple[int, Mapping[str, Any]]:
        fault = self.faults.next()
        if fault in ("429", "503"):
            return int(fault), {}
        key, told = request.headers["webhook-id"], json.loads(request.body)["data"]
        self._posts.append(Post(key, key, told["to"], told["text"]))
        if fault == "slow":
            raise ConnectionResetError  # the sender waits for a whole answer, and gets none
        return await _answered(fault, {"id": key})


class Loft:
    """The sample platform, in the safety class of its channel."""

    def __init__(self, channel: Channel, seed: int) -> None:
        self.faults = Faults(f"{seed}.{channel.name}")
        self.dovecote = Dovecote(folds=channel.safety == "idempotent")

    def posts(self) -> list[Post]:
        return [Post(one["id"], one["key"], one["loft"], one["text"]) for one in self.dovecote.flights]

    def write(self, message: Message) -> None:
        self.dovecote.write("ann", message.session.address, message.text)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        async with serving(self._answer) as port:
            yield f"http://127.0.0.1:{port}"

    async def _answer(self, request: HttpRequest) -> tuple[int, Mapping[str, Any]]:
        if request.method != "POST":
            return await self.dovecote.answer(request)
        fault = self.faults.next()
        if fault in ("429", "503"):
            return int(fault), {}
        status, right = await self.dovecote.answer(request)
        return await _answered(fault, right) if status == 200 else (status, right)


class Telegram:
    """A bot of its own, and its private chats."""

    def __init__(self, channel: Channel, seed: int) -> None:
        self.double = TelegramDouble(token(channel), f"{channel.name}_bot", seed=seed)
        for fault, chance in FAULTS.items():
            how: Any = {"503": "502"}.get(fault, fault)
            after = fault in ("drop", "500")
            for method in ("sendMessage", "editMessageText"):
                self.double.fail(method, how, after=after, times=None, chance=chance, seconds=SLOW)
        self.double.fail("getUpdates", "drop", times=None, chance=0.02)

    def meet(self, person: int) -> None:
        """Somebody opens a chat with the bot, which cannot do that itself."""
        self.double.humans[person] = human = TelegramAccount(person, "Ann", "ann")
        self.double.chats[person] = Chat(person, "private", human=human)

    def posts(self) -> list[Post]:
        """What says something: a placeholder whose answer was lost may be left."""
        return [
            Post(f"{chat.id}/{id}", None, str(chat.id), str(kept.body["text"]))
            for chat in self.double.chats.values()
            for id, kept in chat.messages.items()
            if kept.from_bot and kept.body["text"] != placeholders.TEXT
        ]

    def write(self, message: Message) -> None:
        self.double.write(int(message.session.address), message.text)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        async with serve_telegram(self.double) as url:
            yield url


_KINDS: Mapping[str, type[Any]] = {"webhook": Webhook, "telegram": Telegram, "pigeon": Loft}


def platforms(channels: Sequence[Channel], sessions: Sequence[Session], seed: int) -> dict[str, Platform]:
    """One for each channel."""
    made: dict[str, Platform] = {one.name: _KINDS[one.kind](one, seed) for one in channels}
    for session in sessions:
        if session.channel is not None and session.channel.kind == "telegram":
            bot = made[session.channel.name]
            assert isinstance(bot, Telegram)
            bot.meet(int(session.address))
    return made
