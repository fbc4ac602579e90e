"""The port: one XMPP account as a channel."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from semel.channels.xmpp import stanzas
from semel.channels.xmpp.files import TRANSFER
from semel.channels.xmpp.incoming import Teller
from semel.channels.xmpp.message_ids import Book
from semel.channels.xmpp.receive import Hearing
from semel.channels.xmpp.room_membership import Lobby
from semel.channels.xmpp.send import Line
from semel.channels.xmpp.session import LOGIN, Session
from semel.channels.xmpp.settings import XmppSettings
from semel.gateway.ports import Caps, Denied, Inbox, NotSent, Offline, Op, Receipt, Safety, Unknown

SETTLE = 1.5
"""Seconds after which a message that is not in the archive was not taken."""
EXTRA = 3
"""Connections that `send` may open at once while `run` has none."""


class XmppChannel:
    """One configured account. It speaks on the connection it hears on, and opens one of its own while there is none."""

    def __init__(self, name: str, settings: XmppSettings, *, now: Callable[[], float] = time.time) -> None:
        if importlib.util.find_spec("slixmpp") is None:
            raise ValueError("XMPP needs slixmpp: pip install 'semel[xmpp]'")
        self.name = name
        self.settings = settings
        kept = settings.archive
        self.caps = Caps(
            safety=Safety.RECONCILABLE if kept else Safety.AT_MOST_ONCE,
            max_len=settings.max_len,
            unit="byte",
            settle=SETTLE if kept else 0.0,
            finds=kept,
            timeout=(LOGIN + 6) * settings.timeout + TRANSFER + 15,
            edits=True,
            deletes=True,
            reactions=True,
            typing=True,
            threads=True,
            files=True,
            dialect="xep-0393",
        )
        self._now = now
        self._book = Book()
        self._line: Line | None = None
        self._extra = asyncio.Semaphore(EXTRA)

    def __repr__(self) -> str:
        return f"<XmppChannel {self.name} {self.settings.jid}, {'connected' if self._live() else 'not connected'}>"

    async def run(self, inbox: Inbox) -> None:
        """One connection, until it is lost. Raises Offline, Denied, and what the inbox raises."""
        session = Session(self.settings, self.settings.resource)
        lobby = Lobby(session, self.settings.rooms)
        line = Line(session, lobby, self._book)
        await session.open()
        try:
            hearing = Hearing(session, lobby, inbox, Teller(inbox, line.lookup), self._now)
            self._line = line
            await hearing.run()
        finally:
            self._line = None
            await session.close()

    async def send(self, op: Op) -> Receipt:
        """Exactly one attempt. Raises NotSent, Rejected, Unknown."""
        try:
            async with self._some_line(op.address) as line:
                return await line.send(op)
        except (Offline, Denied) as no:
            raise NotSent(str(no)) from None

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Looks in the account's archive, or the room's, to the last page. None: it is not there."""
        if not self.settings.archive:
            raise Unknown("there is no archive to look in")
        try:
            async with self._some_line(op.address) as line:
                return await line.find(op, since)
        except (Offline, Denied) as no:
            raise Unknown(str(no)) from None

    async def typing(self, address: str) -> None:
        """That an answer is being written: only on the connection that is there."""
        line = self._live()
        room = line.lobby.rooms.get(address) if line is not None else None
        if line is not None and (room is None or room.inside()):
            with suppress(Offline):
                line.session.say(stanzas.typing(address, room is not None))

    def _live(self) -> Line | None:
        return self._line if self._line is not None and self._line.session.alive else None

    @asynccontextmanager
    async def _some_line(self, address: str) -> AsyncIterator[Line]:
        """The connection there is, or one for this once. Raises Offline, Denied."""
        line = self._live()
        if line is not None:
            yield line
            return
        async with self._extra:
            session = Session(self.settings)
            lobby = Lobby(session, [address] if address in self.settings.rooms else [])
            session.on_presence = lambda presence: (lobby.on_presence(presence), None)[1]
            await session.open()
            try:
                yield Line(session, lobby, self._book)
            finally:
                await session.close()
