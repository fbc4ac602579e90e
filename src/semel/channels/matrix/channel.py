"""The Matrix account as a channel: its capabilities, and the methods of the channel port."""

from __future__ import annotations

import logging

from semel.channels.http import CONNECT_TIMEOUT_S
from semel.channels.matrix.account import MatrixAccount, MatrixReader, MatrixWriter
from semel.channels.matrix.downloads import MatrixFetcher
from semel.channels.matrix.event_content import MAX_TEXT_BYTES
from semel.channels.matrix.invitations import Invitations
from semel.channels.matrix.receive import Sync, SyncCursor
from semel.channels.matrix.resolve_events import EventResolver
from semel.channels.matrix.rooms import Rooms
from semel.channels.matrix.send import UPLOAD_TIMEOUT_S, MatrixSender, no_room_state
from semel.channels.matrix.settings import MatrixSettings
from semel.channels.matrix.transport import MatrixReadConnection
from semel.gateway.ports import Caps, Inbox, Op, Receipt, Safety

_log = logging.getLogger("semel.channels.matrix")


class MatrixChannel:
    """One account on a homeserver."""

    def __init__(self, name: str, settings: MatrixSettings) -> None:
        self.name = name
        self.settings = settings
        self.account = MatrixAccount(name, settings)
        self._sender = MatrixSender(MatrixWriter(self.account))
        self.caps = Caps(
            safety=Safety.IDEMPOTENT,
            max_len=MAX_TEXT_BYTES,
            unit="byte",
            key_life=settings.key_life,
            settle=5.0,
            finds=True,
            pace=settings.pace,
            timeout=4 * (CONNECT_TIMEOUT_S + settings.timeout) + UPLOAD_TIMEOUT_S,
            edits=True,
            deletes=True,
            reactions=True,
            typing=True,
            threads=True,
            button_edits=True,
            button_reactions=True,
            files=True,
            file_limit=settings.file_limit,
            dialect="matrix",
        )

    def __repr__(self) -> str:
        return f"<MatrixChannel {self.name} at {self.settings.homeserver}, {self.account!r}>"

    async def run(self, inbox: Inbox) -> None:
        """Receive until cancelled. Raises Offline or Denied, and passes on the inbox's exceptions."""
        async with MatrixReadConnection.open(self.settings.base, self.settings.timeout) as link:
            reader = MatrixReader(link, self.account)
            me = await reader.begin()
            stored_cursor = await inbox.cursor()
            cursor = None if stored_cursor is None else SyncCursor.load(stored_cursor, me.id)
            if stored_cursor is not None and cursor is None:
                _log.warning("%s was read as another account before: %s begins at the present", self.name, me.id)
            rooms = Rooms(reader)
            resolver = EventResolver(reader, rooms, inbox, MatrixFetcher(reader, self.settings.file_limit))
            invites = cursor.invites if cursor is not None else {}
            invitations = Invitations(self.account, inbox, self.settings.join, invites)
            self._sender.get_room = rooms.get_current
            try:
                await Sync(reader, resolver, invitations, inbox).run(cursor)
            finally:
                self._sender.get_room = no_room_state

    async def send(self, op: Op) -> Receipt:
        """Make one attempt, with at most one visible request. Raises NotSent, Rejected or Unknown."""
        return await self._sender.send(op)

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Find a part and return its receipt; None if it was certainly not sent after `since`.

        `since`: in seconds since the epoch. Raises NotSent, Rejected or Unknown.
        """
        return await self._sender.find(op, since)

    async def typing(self, address: str) -> None:
        """Show the typing indicator for some seconds. May raise; the indicator is best effort."""
        await self._sender.typing(address)
