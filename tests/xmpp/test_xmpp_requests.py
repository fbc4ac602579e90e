"""A permission request where there are no buttons: it is answered once, in words, and the chat reads by whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from gateway_world import World, script
from wire_server import Connection, WireServer, body, entry

from semel.gateway.settings import ChannelSettings, PersonSettings

REACTIONS = "{urn:xmpp:reactions:0}"
ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}


class Chat:
    """Alice's conversation with the bot."""

    def __init__(self, server: WireServer) -> None:
        self._server = server
        self._n = 0

    def write(self, text: str) -> None:
        self._say(f"<body>{escape(text)}</body>")

    def react(self, message: Element, emoji: str) -> None:
        id = message.get("id")
        self._say(f"<reactions xmlns='urn:xmpp:reactions:0' id='{id}'><reaction>{emoji}</reaction></reactions>")

    def _say(self, content: str) -> None:
        self._n += 1
        written = entry(
            f"a{self._n}",
            f"<message from='alice@localhost/phone' to='bot@localhost' type='chat' id='m{self._n}'>{content}</message>",
            datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        )
        self._server.archive.append(written)
        self._server.live(written)

    def offered(self, message: Element) -> list[str | None]:
        """The bot's last reactions to a message."""
        sent = [each.find(f"{REACTIONS}reactions") for each in self._server.messages]
        last = [each for each in sent if each is not None and each.get("id") == message.get("id")][-1:]
        return [each.text for each in last[0]] if last else []

    async def until_offered(self, message: Element, *emoji: str) -> None:
        await self._server.until(lambda: self.offered(message) == list(emoji))

    async def asked(self, words: str) -> Element:
        await self.shown(words)
        return next(each for each in self._server.messages if words in body(each))

    async def shown(self, words: str) -> str:
        """The bot's message with these words, once it is there."""
        await self._server.until(lambda: any(words in text for text in self.texts()))
        return next(text for text in self.texts() if words in text)

    def lose_the_answer_about(self, words: str) -> None:
        """The connection breaks once the server has taken the message with these words."""

        async def lose(connection: Connection, message: Element) -> None:
            if words in body(message):
                connection.cut()

        self._server.on_message = lose

    async def until_connected(self, times: int) -> None:
        await self._server.until(lambda: len(self._server.presences) >= times)

    def texts(self) -> list[str]:
        return [body(message) for message in self._server.messages]


@asynccontextmanager
async def conversation(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[World, Chat]]:
    """A gateway whose owner is Alice. `settings`: of the channel."""
    alice = PersonSettings(name="alice", role="owner", accounts=("jabber:alice@localhost",))
    async with WireServer() as server:
        world = World(
            tmp_path, channels={"jabber": server.channel(**settings)}, people={"alice": alice},
            channel_settings={"jabber": ChannelSettings(name="jabber", kind="xmpp")}, agent={"approvals": ("owner",)},
        )  # fmt: skip
        async with world:
            await server.until(lambda: bool(server.presences))
            yield world, Chat(server)


async def test_a_reaction_answers_a_request_and_a_question(tmp_path: Path) -> None:
    async with conversation(tmp_path) as (world, chat):
        chat.write(script(ASK))
        request = await chat.asked("1. ✅ Allow once")
        await chat.until_offered(request, "✅", "🔵", "❌")
        chat.react(request, "✅")
        await chat.shown("tidy")
        chat.react(request, "❌")
        await chat.shown("gone: Allow once, by alice")
        chat.write(script({"call": "ask", "arguments": {"question": "Which?", "options": ["red", "deep blue"]}}))
        question = await chat.asked("Which?")
        assert "react to it with an option's number (1️⃣ 2️⃣)" in body(question)
        await world.sent()  # a server's archive shows our message before; this one's does not have it
        chat.react(question, "2️⃣")
        await chat.shown("You said: deep blue")


async def test_a_reaction_answers_a_request_that_the_server_took_without_an_answer(tmp_path: Path) -> None:
    async with conversation(tmp_path, archive=False) as (_, chat):
        chat.lose_the_answer_about("Allow once")
        chat.write(script(ASK))
        request = await chat.asked("Allow once")
        await chat.until_connected(2)
        chat.react(request, "✅")
        await chat.shown("tidy")


async def test_a_request_is_answered_once_in_words(tmp_path: Path) -> None:
    async with conversation(tmp_path) as (world, chat):
        chat.write(script(ASK))
        assert "/approve" in await chat.shown("The agent asks for permission: rm -r build")
        await world.sent()  # else the answer comes before the request is known to have arrived (Law 13)
        chat.write("/approve")
        await chat.shown("tidy")
        await chat.shown("Allow once")
        chat.write("/approve 1")
        assert "by alice" in await chat.shown("That request is gone")
        assert chat.texts().count("tidy") == 1
