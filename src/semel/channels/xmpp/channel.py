"""One XMPP account as a channel: its capabilities, and the methods of the channel port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from semel.channels.xmpp import send
from semel.channels.xmpp.files import TRANSFER_TIMEOUT_S
from semel.channels.xmpp.incoming import StanzaTranslator
from semel.channels.xmpp.receive import XmppReceiver
from semel.channels.xmpp.references import MessageIds
from semel.channels.xmpp.rooms import RoomMembership
from semel.channels.xmpp.send import XmppSender
from semel.channels.xmpp.session import LOGIN_TIMEOUT_FACTOR, XmppSession
from semel.channels.xmpp.settings import XmppSettings
from semel.gateway.ports import Caps, Denied, Inbox, NotSent, Offline, Op, Receipt, Safety, Unknown

SETTLE_S = 1.5
"""Seconds after sending within which an accepted message appears in the archive."""
MAX_EXTRA_CONNECTIONS = 3
"""Concurrent connections that `send` and `find` may open while `run` has none."""


class XmppChannel:
    """One configured account. `send` and `find` use the connection of `run`; while it has none, they open their own."""

    def __init__(self, name: str, settings: XmppSettings, *, now: Callable[[], float] = time.time) -> None:
        self.name = name
        self.settings = settings
        archived = settings.archive
        self.caps = Caps(
            safety=Safety.RECONCILABLE if archived else Safety.AT_MOST_ONCE,
            max_len=settings.max_len,
            unit="byte",
            settle=SETTLE_S if archived else 0.0,
            finds=archived,
            timeout=(LOGIN_TIMEOUT_FACTOR + 6) * settings.timeout + TRANSFER_TIMEOUT_S + 15,
            edits=True,
            edits_replace=False,  # a client without XEP-0308 shows a correction as another message
            deletes=True,
            reactions=True,
            typing=True,
            threads=True,
            button_reactions=True,
            files=True,
            dialect="xep-0393",
        )
        self._now = now
        self._message_ids = MessageIds()
        self._sender: XmppSender | None = None
        self._extra = asyncio.Semaphore(MAX_EXTRA_CONNECTIONS)

    def __repr__(self) -> str:
        return f"<XmppChannel {self.name} {self.settings.jid}, {'connected' if self._live() else 'not connected'}>"

    async def run(self, inbox: Inbox) -> None:
        """Receive over one connection until it is lost. Raises Offline or Denied, and the inbox's exceptions."""
        session = XmppSession(self.settings, self.settings.resource)
        membership = RoomMembership(session, self.settings.rooms)
        sender = XmppSender(session, membership, self._message_ids)
        await session.open()
        try:
            receiver = XmppReceiver(session, membership, inbox, StanzaTranslator(inbox, sender.lookup), self._now)
            self._sender = sender
            await receiver.run()
        finally:
            self._sender = None
            await session.close()

    async def send(self, op: Op) -> Receipt:
        """Make exactly one attempt to send. Raises NotSent, Rejected or Unknown."""
        try:
            async with self._usable_sender(op.address) as sender:
                return await sender.send(op)
        except (Offline, Denied) as no:
            raise NotSent(str(no)) from None

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Search all of the account's or room's archive for a part. Returns its receipt; None if it is not there.

        `since`: when the part was sent, in seconds since the epoch. Raises Unknown.
        """
        if not self.settings.archive:
            raise Unknown("there is no archive to look in")
        try:
            async with self._usable_sender(op.address) as sender:
                return await sender.find(op, since)
        except (Offline, Denied) as no:
            raise Unknown(str(no)) from None

    def can_press(self, address: str) -> bool:
        """Return whether a reaction there names its message beyond doubt.

        In a room it names the id that the room gave the message. Where a room gives none, whoever is in it could send
        another message with the id of ours.
        """
        if address not in self.settings.rooms:
            return True
        sender = self._live()
        return sender is not None and sender.membership.rooms[address].archived

    async def typing(self, address: str) -> None:
        """Show the typing state, if `run` is connected and, for a room, inside it."""
        sender = self._live()
        room = sender.membership.rooms.get(address) if sender is not None else None
        if sender is not None and (room is None or room.inside()):
            with suppress(Offline):
                sender.session.write(send.build_typing(address, room is not None))

    def _live(self) -> XmppSender | None:
        return self._sender if self._sender is not None and self._sender.session.alive else None

    @asynccontextmanager
    async def _usable_sender(self, address: str) -> AsyncIterator[XmppSender]:
        """Yield a sender over the connection of `run`, or else over a temporary one. Raises Offline or Denied."""
        sender = self._live()
        if sender is not None:
            yield sender
            return
        async with self._extra:
            session = XmppSession(self.settings)
            membership = RoomMembership(session, [address] if address in self.settings.rooms else [])
            session.on_presence = lambda presence: (membership.on_presence(presence), None)[1]
            await session.open()
            try:
                yield XmppSender(session, membership, self._message_ids)
            finally:
                await session.close()
