"""One XMPP account as a channel: its capabilities, and the methods of the channel port."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from semel.channels.xmpp import stanzas
from semel.channels.xmpp.files import TRANSFER
from semel.channels.xmpp.incoming import NoteTranslator
from semel.channels.xmpp.message_ids import MessageIds
from semel.channels.xmpp.receive import XmppReceiver
from semel.channels.xmpp.room_membership import RoomMembership
from semel.channels.xmpp.send import Line
from semel.channels.xmpp.session import LOGIN, Session
from semel.channels.xmpp.settings import XmppSettings
from semel.gateway.ports import Caps, Denied, Inbox, NotSent, Offline, Op, Receipt, Safety, Unknown

SETTLE = 1.5
"""Seconds after sending within which an accepted message appears in the archive."""
EXTRA = 3
"""Concurrent connections that `send` and `find` may open while `run` has none."""


class XmppChannel:
    """One configured account. It sends over the connection of `run`, or over a temporary one while `run` has none."""

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
        self._book = MessageIds()
        self._line: Line | None = None
        self._extra = asyncio.Semaphore(EXTRA)

    def __repr__(self) -> str:
        return f"<XmppChannel {self.name} {self.settings.jid}, {'connected' if self._live() else 'not connected'}>"

    async def run(self, inbox: Inbox) -> None:
        """Receive over one connection until it is lost. Raises Offline or Denied, and the inbox's exceptions."""
        session = Session(self.settings, self.settings.resource)
        lobby = RoomMembership(session, self.settings.rooms)
        line = Line(session, lobby, self._book)
        await session.open()
        try:
            hearing = XmppReceiver(session, lobby, inbox, NoteTranslator(inbox, line.lookup), self._now)
            self._line = line
            await hearing.run()
        finally:
            self._line = None
            await session.close()

    async def send(self, op: Op) -> Receipt:
        """Make exactly one attempt to send. Raises NotSent, Rejected or Unknown."""
        try:
            async with self._some_line(op.address) as line:
                return await line.send(op)
        except (Offline, Denied) as no:
            raise NotSent(str(no)) from None

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Search the archive of the account or the room completely. `None` if the part is not in it. Raises Unknown."""
        if not self.settings.archive:
            raise Unknown("there is no archive to look in")
        try:
            async with self._some_line(op.address) as line:
                return await line.find(op, since)
        except (Offline, Denied) as no:
            raise Unknown(str(no)) from None

    async def typing(self, address: str) -> None:
        """Show the typing state, if `run` is connected and, for a room, inside it."""
        line = self._live()
        room = line.lobby.rooms.get(address) if line is not None else None
        if line is not None and (room is None or room.inside()):
            with suppress(Offline):
                line.session.say(stanzas.typing(address, room is not None))

    def _live(self) -> Line | None:
        return self._line if self._line is not None and self._line.session.alive else None

    @asynccontextmanager
    async def _some_line(self, address: str) -> AsyncIterator[Line]:
        """The connection of `run`, or else a temporary one. Raises Offline or Denied."""
        line = self._live()
        if line is not None:
            yield line
            return
        async with self._extra:
            session = Session(self.settings)
            lobby = RoomMembership(session, [address] if address in self.settings.rooms else [])
            session.on_presence = lambda presence: (lobby.on_presence(presence), None)[1]
            await session.open()
            try:
                yield Line(session, lobby, self._book)
            finally:
                await session.close()
