"""Find the reply to a message, for programs that ask a question and wait for the answer (`ledger/turns/replies.py`)."""

from __future__ import annotations

from semel.gateway.api.composition import Components
from semel.gateway.errors import NotFound
from semel.ledger.inbound.hear import KnownEvent
from semel.ledger.storage.rows import ItemRow
from semel.ledger.turns import permission_requests, replies
from semel.ledger.turns.replies import KnownMessage, LastReport, Reply


class ReplyApi(Components):
    """The part of the gateway's API that finds a message and the reply to it."""

    async def reply(self, event: int) -> Reply:
        """Return the reply to an event as it stands now. Raises NotFound."""
        reply = await self.record.read(replies.read_reply, event)
        if reply is None:
            raise NotFound(f"event {event} was answered, and its session is deleted; send the message with a new key")
        return reply

    async def reply_after_request(self, session: str, item: int) -> Reply:
        """Return what a turn has added to the view since its permission request `item`.

        Raises NoSuchSession, NotFound.
        """
        reply = await self.record.read(replies.read_reply_after_request, await self.record.find_session(session), item)
        if reply is None:
            raise NotFound(f"there is no request {item} in this session")
        return reply

    async def reply_of_turn(self, session: str, turn: int) -> Reply:
        """Return everything that a turn has added to the view. Raises NoSuchSession, NotFound."""
        reply = await self.record.read(replies.read_reply_of_turn, await self.record.find_session(session), turn)
        if reply is None:
            raise NotFound(f"there is no turn {turn} in this session")
        return reply

    async def describe_request_ending(self, session: str, item: int) -> str:
        """Say how a permission request of a session ended, and who answered it; "" while it is open.

        Raises NoSuchSession, NotFound.
        """
        number = await self.record.find_session(session)
        row = await self.record.read(lambda tx: tx.one(ItemRow, "item_get", id=item))
        if row is None or row.session != number:
            raise NotFound(f"there is no request {item} in this session")
        return permission_requests.describe_ending(row)

    async def find_message(self, key: str) -> KnownMessage | None:
        """Return the newest message with this event key, whatever its source; None if there is none."""
        return await self.record.read(replies.find_message, key)

    async def is_known(self, source: str, key: str) -> bool:
        """Return whether this source has already reported an event with this key."""
        return await self.record.read(lambda tx: tx.one(KnownEvent, "event_known", source=source, key=key)) is not None

    async def last_said(self, session: str, limit: int = 50) -> list[str]:
        """Return the texts that people wrote among the newest `limit` entries, newest first.

        Return [] if there is no such session.
        """
        return await self.record.read(replies.list_last_said, session, limit)

    async def last_report(self, session: str, kind: str) -> LastReport:
        """Return the newest report of this kind by the session's API callers, in its chapter (`find_last_report`)."""
        return await self.record.read(replies.find_last_report, session, f"api:{session}", kind)
