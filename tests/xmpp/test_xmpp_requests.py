"""A permission request where there are no buttons: it is answered once, in words, and the chat reads by whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

from gateway_world import World, script
from wire_server import WireServer, body, entry

from semel.gateway.settings import ChannelSettings, PersonSettings

ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}


class Chat:
    """Alice's conversation with the bot."""

    def __init__(self, server: WireServer) -> None:
        self._server = server
        self._n = 0

    def write(self, text: str) -> None:
        self._n += 1
        written = entry(
            f"a{self._n}",
            f"<message from='alice@localhost/phone' to='bot@localhost' type='chat' id='m{self._n}'>"
            f"<body>{escape(text)}</body></message>",
            datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        )
        self._server.archive.append(written)
        self._server.live(written)

    async def shown(self, words: str) -> str:
        """The bot's message with these words, once it is there."""
        await self._server.until(lambda: any(words in text for text in self.texts()))
        return next(text for text in self.texts() if words in text)

    def texts(self) -> list[str]:
        return [body(message) for message in self._server.messages]


@asynccontextmanager
async def conversation(tmp_path: Path) -> AsyncIterator[tuple[World, Chat]]:
    """A gateway whose owner is Alice."""
    alice = PersonSettings(name="alice", role="owner", accounts=("jabber:alice@localhost",))
    async with WireServer() as server:
        world = World(
            tmp_path, channels={"jabber": server.channel()}, people={"alice": alice},
            channel_settings={"jabber": ChannelSettings(name="jabber", kind="xmpp")}, agent={"approvals": ("owner",)},
        )  # fmt: skip
        async with world:
            await server.until(lambda: server.queries > 0)
            yield world, Chat(server)


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
