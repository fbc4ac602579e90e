"""A bot and two people of one test's own on a real Prosody, and the channel that runs for the bot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from prosody import Prosody, XmppUser
from server_process import CERTIFICATE

from semel.channels.xmpp.channel import XmppChannel
from semel.channels.xmpp.settings import XmppSettings
from semel.gateway.ports import Incoming, Op
from semel.testing.inbox import KeptInbox

SID = "{urn:xmpp:sid:0}"


class House:
    """`bot` speaks to `alice` and `bob`; `room` is theirs."""

    def __init__(self, server: Prosody, number: int, tmp_path: Path) -> None:
        self.server, self.tmp_path = server, tmp_path
        self.names = {who: f"{who}{number}" for who in ("bot", "alice", "bob")}
        for name in self.names.values():
            server.register(name)
        self.room = f"lobby{number}@muc.localhost"
        self.inbox = KeptInbox(tmp_path / "files")
        self.ops = 0

    @property
    def bot(self) -> str:
        return f"{self.names['bot']}@localhost"

    def jid(self, who: str) -> str:
        return f"{self.names[who]}@localhost"

    def user(self, who: str) -> XmppUser:
        return self.server.user(self.names[who])

    def channel(self, **settings: Any) -> XmppChannel:
        usual: dict[str, Any] = {
            "jid": self.bot,
            "password": "pw",
            "server": "127.0.0.1",
            "port": self.server.port,
            "tls": "none",
            "allow_private": True,
        }
        return XmppChannel("jabber", XmppSettings(**(usual | settings)))

    def in_room(self, **settings: Any) -> XmppChannel:
        return self.channel(rooms=[self.room], **settings)

    def secure(self, **settings: Any) -> XmppChannel:
        """With TLS; the certificate is for localhost."""
        return self.channel(**({"tls": "required", "server": "localhost", "ca_file": str(CERTIFICATE)} | settings))

    @asynccontextmanager
    async def running(self, channel: XmppChannel) -> AsyncIterator[asyncio.Task[None]]:
        """The channel hears, and has heard what was missed."""
        run = asyncio.create_task(channel.run(self.inbox))
        online = asyncio.create_task(self.inbox.wait_online(self.inbox.onlines + 1, 60.0))
        try:
            await asyncio.wait({run, online}, return_when=asyncio.FIRST_COMPLETED)
            if run.done():
                run.result()
            await online
            yield run
        finally:
            online.cancel()
            run.cancel()
            await asyncio.gather(run, online, return_exceptions=True)

    def op(self, kind: Any, address: str, text: str = "", **more: Any) -> Op:
        self.ops += 1
        return Op(f"{self.names['bot']}-{self.ops}", kind, address, text, **more)

    async def heard(self, kind: str, count: int = 1) -> list[Incoming]:
        """What people did of one kind, once there is so much of it."""
        async with asyncio.timeout(60):
            while len(found := [each for each in self.inbox.events if each.kind == kind]) < count:
                await self.inbox.wait(len(self.inbox.events) + 1, 60.0)
        return found


def element(space: str, tag: str, **attributes: str) -> Element:
    return Element(f"{{{space}}}{tag}", attributes)


def reactions(id: str, *emojis: str) -> Element:
    whole = element("urn:xmpp:reactions:0", "reactions", id=id)
    for emoji in emojis:
        SubElement(whole, "{urn:xmpp:reactions:0}reaction").text = emoji
    return whole


def oob(url: str) -> Element:
    x = element("jabber:x:oob", "x")
    SubElement(x, "{jabber:x:oob}url").text = url
    return x


def room_id(stanza: Any, room: str) -> str:
    """The room's id of a live message."""
    return next(each.get("id") for each in stanza.xml.findall(f"{SID}stanza-id") if each.get("by") == room)


async def shown(user: XmppUser, text: str) -> Any:
    """The live message with that body, once it came."""
    await user.wait(lambda: text in user.texts, 60.0)
    return next(each for each in user.messages if each["body"] == text)
