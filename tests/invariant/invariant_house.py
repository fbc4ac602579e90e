"""Worlds in which a path is walked: an agent of each kind, a chat that gets closing texts, and one that gets all."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway_world import World, script, until
from invariant_judge import Record
from model_server import Answer, ModelServer, Request
from model_world import ModelWorld
from system_house import SECRET, Receiver, receiver

from semel.channels.webhook import WebhookChannel, WebhookSettings
from semel.faces.view import SessionView
from semel.gateway.settings import ChannelSettings
from semel.testing.scripted_agent import read_prompts

Json = dict[str, Any]
SUMMARY = "They spoke of many words."
MARK = re.compile(r"<<(\w+)>>")


class Router:
    """A model API that answers each conversation with its own answers, whichever asks first.

    A request for a summary is answered with SUMMARY.
    """

    def __init__(self) -> None:
        self.answers: dict[str, deque[Answer]] = {}
        self.asked: dict[str, list[Request]] = {}
        self.summaries = 0
        self.times: list[float] = []  # time.monotonic() of each request

    def __call__(self, request: Request) -> Answer:
        self.times.append(time.monotonic())
        if request.system.startswith("You summarise"):
            self.summaries += 1
            return Answer([SUMMARY])
        marks = MARK.findall("\n".join(text for role, text in request.talk if role == "user"))
        self.asked.setdefault(marks[-1], []).append(request)
        waiting = self.answers[marks[-1]]
        return waiting.popleft() if waiting else Answer(status=400, body={"error": {"message": "no more answers"}})


def in_room(rx: Receiver, room: str) -> list[str]:
    """What a room shows: each delivery once, in the order of its first arrival."""
    first = {post.id: post for post in reversed(rx.posts) if post.data["to"] == room}
    return [post.text for post in sorted(first.values(), key=lambda post: post.at)]


@dataclass
class Chat:
    """One conversation in a chat room, watched from its beginning. `name` is its mark in what is said."""

    world: World
    name: str
    narration: str
    rx: Receiver
    view: SessionView = field(default_factory=SessionView)
    watching: asyncio.Task[None] | None = None

    @property
    def key(self) -> str:
        return f"main:{self.narration}:{self.name}"

    @property
    def received(self) -> list[str]:
        """What the room shows: each delivery once."""
        return [
            post.text for post in {p.id: p for p in reversed(self.rx.posts)}.values() if post.data["to"] == self.name
        ][::-1]

    async def watch(self) -> None:
        async def look() -> None:
            async for frame in self.world.gateway.watch(self.key, None):
                self.view.apply(frame)

        self.watching = asyncio.create_task(look())

    async def leave(self) -> None:
        if self.watching is not None:
            self.watching.cancel()
            await asyncio.gather(self.watching, return_exceptions=True)

    async def sees(self, what: str, patience: float = 60) -> None:
        """Wait until the watcher sees it: `text` that streams, a `tool` that runs, an open `permission`, a `retry`."""

        async def there() -> bool:
            return any(_is(what, row) for row in self.view.ordered())

        await until(there, patience)

    async def rest(self) -> None:
        """Nothing runs, nothing waits, everything left, and the watcher knows."""
        await self.world.idle(self.key)

        async def settled() -> bool:
            parts = await self.world.gateway.parts(None, 1000, None)
            mine = [p for p in parts if p["dest"] == f"{self.narration}:{self.name}"]
            shown = next(s for s in await self.world.gateway.sessions() if s["key"] == self.key)
            return (
                all(p["state"] in ("sent", "held", "rejected") for p in mine) and (self.view.rev or 0) >= shown["rev"]
            )

        await until(settled)

    def record(self) -> Record:
        return Record.of(self.world.settings.ledger, self.key)


def _is(what: str, row: Json) -> bool:
    match what:
        case "text":
            return row.get("role") == "agent" and bool(row.get("live"))
        case "tool":
            return row.get("kind") == "tool" and row.get("status") == "running"
        case "permission":
            return row.get("kind") == "permission" and row.get("state") == "open"
        case _:
            return row.get("role") == "notice" and row.get("kind") == what


@dataclass
class House:
    """A world with agents of one kind. `say` gives a person's words and, in the same breath, what they will cause."""

    kind: str
    world: World
    chats: list[Chat]
    router: Router
    people: dict[str, list[str]] = field(default_factory=dict)

    async def say(self, chat: Chat, deed: Sequence[Any], resume: Sequence[Any] = (), **more: Any) -> None:
        """`deed`: answers for a model, steps for the scripted agent; a list of lists of steps is its attempts.

        `resume`: what the scripted agent does where its turn goes on.
        """
        n = len(self.people.setdefault(chat.name, [])) + 1
        if self.kind == "acp":
            name = f"<<{chat.name}>> {n}"
            tries = bool(deed) and all(isinstance(one, list) for one in deed)
            goes_on = {"resume": list(resume)} if resume else {}
            text = script(name=name, attempts=list(deed), **goes_on) if tries else script(*deed, name=name, **goes_on)
        else:
            text = f"Question {n} <<{chat.name}>>"
            self.router.answers.setdefault(chat.name, deque()).extend(deed)
        self.people[chat.name].append(text)
        await self.world.gateway.say(chat.key, text, **more)

    def said(self, chat: Chat) -> list[str]:
        return self.people[chat.name]

    def given(self, chat: Chat) -> list[str]:
        """The prompts that the scripted agent was given for this conversation."""
        return [one.text for one in read_prompts(self.world.path / "prompts") if f"<<{chat.name}>>" in one.text]

    async def forget(self, chat: Chat) -> None:
        """The scripted agent's process ends, and so does its memory."""
        spawns = self.world.gateway.spawns
        live = next(one for one in spawns.live.values() if one.key == chat.key)
        await spawns.end(live.session, "it is to forget")
        (self.world.path / "agent" / f"{live.conversation.memory}.jsonl").unlink()

    def asked(self, chat: Chat) -> list[Request]:
        return self.router.asked.get(chat.name, [])


@asynccontextmanager
async def house(
    kind: str, path: Path, *, attempts: int = 1, permissions: str = "allow", **more: Any
) -> AsyncIterator[House]:
    """`kind`: "acp" (the scripted agent, real processes), or a provider of the scripted model API."""
    router = Router()
    with receiver() as last, receiver() as all_:
        rooms = {"last": last, "all": all_}
        channels = {name: WebhookChannel(name, _hook(rx)) for name, rx in rooms.items()}
        settings = {
            "last": ChannelSettings(name="last", kind="webhook"),
            "all": ChannelSettings(name="all", kind="webhook", narration="all"),
        }
        told: dict[str, Any] = {"channels": channels, "channel_settings": settings, "permissions": permissions, **more}
        async with ModelServer(*[router] * 200) as api:
            if kind == "acp":
                world = World(path, log=path / "prompts", agent={"attempts": attempts}, **told)
            else:
                world = ModelWorld(path, api, kind, attempts=attempts, **told)
            async with world:
                chats = [Chat(world, f"{name}1", name, rx) for name, rx in rooms.items()]
                try:
                    yield House(kind, world, chats, router)
                finally:
                    for chat in chats:
                        await chat.leave()


def _hook(rx: Receiver) -> WebhookSettings:
    return WebhookSettings(url=rx.url, secret=SECRET, allow_private=True)
