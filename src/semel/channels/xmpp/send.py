"""Make one attempt to send a part, and confirm that the server or the room accepted it (Law 7).

In a chat, a ping follows the message. A server processes a stream in order (RFC 6120, 10.1), so it answers the ping
after it has accepted the message, or after it has sent its refusal. In a room, the confirmation is the room's
reflection of our message to all occupants, which also carries the room's id for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from semel.channels.xmpp import address, stanzas
from semel.channels.xmpp.archive import Archive, NotToTheEnd
from semel.channels.xmpp.files import Store
from semel.channels.xmpp.message_ids import OURS, MessageIds
from semel.channels.xmpp.message_lookup import Lookup
from semel.channels.xmpp.room_membership import RoomMembership
from semel.channels.xmpp.rooms import Room
from semel.channels.xmpp.session import Refused, Session, first
from semel.channels.xmpp.stanzas import Refs
from semel.channels.xmpp.xml import IDS, child, error_of, every
from semel.gateway.ports import NotSent, Offline, Op, Receipt, Rejected, Unknown

PASSING = frozenset({"resource-constraint", "remote-server-timeout", "internal-server-error"})
"""Error conditions of transient refusals: the message was not delivered, and a retry may succeed."""
ROOM_RETRY_DELAY_S = 60.0
"""Seconds before a retry if a room did not let us in."""
SLACK = 3600.0
"""Seconds by which the server's clock may be behind ours; the archive is searched from that much earlier."""


@dataclass
class Line:
    """Sends over one connection, to people and to the connection's rooms."""

    session: Session
    lobby: RoomMembership
    book: MessageIds
    store: Store = field(init=False)
    lookup: Lookup = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.session)
        self.lookup = Lookup(self.session, self.book, self.lobby.rooms)

    async def send(self, op: Op) -> Receipt:
        """Make one attempt to send. Raises NotSent, Rejected or Unknown."""
        room = self.lobby.rooms.get(op.address)
        try:
            if room is not None:
                await self._be_in(room)
            refs = await self._refs(op, room)
        except Offline as lost:
            raise NotSent(str(lost)) from None
        stanza = await asyncio.to_thread(stanzas.message, op, room is not None, refs)  # long texts take their time
        receipt = await (self._into(room, op, stanza) if room is not None else self._to(op, stanza))
        if op.kind in ("post", "file"):
            self.book.keep(op.address, OURS, (op.key,), receipt.id)
        if op.kind == "react":
            self.book.reacted(op.address, op.target or "", OURS, refs.emojis)
        return receipt

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Search the archive for a part; None if it is not there. Raises Unknown if the archive cannot be searched."""
        room = self.lobby.rooms.get(op.address)
        try:
            if room is not None and not room.archived:
                await self.lobby.learn(room)
            if room is not None and not room.archived:
                raise Unknown(f"{room.jid} keeps no archive")
            return await self._found(op, since, room)
        except (Refused, Offline, NotToTheEnd) as fault:
            raise Unknown(str(fault)) from None

    async def _found(self, op: Op, since: float, room: Room | None) -> Receipt | None:
        archive = Archive(self.session, room.jid if room is not None else None)
        async for item in archive.before(since - SLACK, with_=op.address):
            if not _is(item.message, op.key):
                continue
            if item.message.get("type") == "error":
                return None  # it bounced
            if room is not None:
                return Receipt(f"{room.jid}/{item.id}")
            if address.bare(item.message.get("from", "")) == self.session.jid:
                return Receipt(op.key)
        return None

    # ------------------------------------------------------------ before it leaves

    async def _be_in(self, room: Room) -> None:
        if not await self.lobby.enter(room):
            raise Rejected(room.refusal) if room.definite else NotSent(room.refusal, ROOM_RETRY_DELAY_S)

    async def _refs(self, op: Op, room: Room | None) -> Refs:
        """The references of an op to other messages, in the ids that clients use. Uploads the op's file."""
        if op.kind == "file":
            return Refs(url=await self.store.put(op), thread=_thread(op))
        if op.kind == "post":
            return self._reply(op) if room is not None and op.n == 0 else Refs(thread=_thread(op))
        target = await self._target(op, room)
        if op.kind != "react":
            return Refs(target)
        before = self.book.reactions(op.address, op.target or "", OURS)
        return Refs(target, tuple(dict.fromkeys((*before, op.text.strip()))))

    def _reply(self, op: Op) -> Refs:
        """The references of the first part in a room, which is a reply to the answered message."""
        answers = op.answers
        prefix = f"{op.address}/"
        if answers is None or not answers.id.startswith(prefix):
            return Refs(thread=_thread(op))
        return Refs(
            reply_id=answers.id.removeprefix(prefix), reply_to=str(answers.data.get("from", "")), thread=_thread(op)
        )

    async def _target(self, op: Op, room: Room | None) -> str:
        """The id that clients use for the message that an op changes. Raises Rejected if it cannot be changed."""
        key = op.target or ""
        if room is not None and op.kind != "edit":  # reactions and retractions name the room's id, corrections ours
            return key.removeprefix(f"{room.jid}/")
        written = await self.lookup.written(op.address, key)
        if written is None and room is None:
            return key  # one of ours is kept under its own id
        if written is None or not written.ids:
            raise Rejected("the message is not in the archive any more")
        if op.kind != "react" and written.author != OURS:
            raise Rejected("only one's own messages can be changed")
        return written.ids[-1] if op.kind == "edit" else written.ids[0]

    # ------------------------------------------------------------ the attempt

    async def _to(self, op: Op, stanza: Element) -> Receipt:
        came_back: list[Element] = []

        def heard(message: Element) -> None:
            if message.get("type") == "error" and message.get("id") == op.key:
                came_back.append(message)

        self.session.watchers.append(heard)
        self.session.awaited.add(op.key)
        try:
            self._say(stanza)
            try:
                await self.session.ping()
            except Offline as lost:
                raise Unknown(str(lost)) from None
        finally:
            self.session.watchers.remove(heard)
            self.session.awaited.discard(op.key)
        if came_back:
            raise _refusal(came_back[0])
        return Receipt(op.key)

    async def _into(self, room: Room, op: Op, stanza: Element) -> Receipt:
        seen: asyncio.Future[Element] = asyncio.get_running_loop().create_future()

        def heard(message: Element) -> None:
            mine = message.get("type") == "error" or message.get("from") == f"{room.jid}/{room.nick}"
            from_room = address.bare(message.get("from", "")) == room.jid
            if from_room and mine and _is(message, op.key) and not seen.done():
                seen.set_result(message)

        self.session.watchers.append(heard)
        lost = asyncio.create_task(self.session.lost())
        try:
            self._say(stanza)
            await first(self.session.settings.timeout, seen, lost)
        finally:
            self.session.watchers.remove(heard)
            lost.cancel()
            await asyncio.gather(lost, return_exceptions=True)
        if not seen.done():
            raise Unknown(f"{room.jid} did not show the message")
        if seen.result().get("type") == "error":
            if error_of(seen.result())[1] == "not-acceptable":
                room.leave()  # the room lost our membership
                raise NotSent(f"{room.jid} forgot us", 1.0)
            raise _refusal(seen.result())
        return Receipt(f"{room.jid}/{_room_id(seen.result(), room.jid) or op.key}")

    def _say(self, stanza: Element) -> None:
        try:
            self.session.say(stanza)
        except Offline as lost:
            raise NotSent(str(lost)) from None


def _refusal(message: Element) -> NotSent | Rejected:
    """The error for a bounced message, which was not accepted: NotSent if a retry may succeed, else Rejected."""
    type, condition, text = error_of(message)
    why = f"{address.bare(message.get('from', ''))}: {condition}" + (f" ({text[:200]})" if text else "")
    return NotSent(why, 5.0) if type == "wait" or condition in PASSING else Rejected(why)


def _is(message: Element, key: str) -> bool:
    origin = child(message, "origin-id", IDS)
    return message.get("id") == key or (origin is not None and origin.get("id") == key)


def _room_id(message: Element, room: str) -> str:
    return next((each.get("id", "") for each in every(message, "stanza-id", IDS) if each.get("by") == room), "")


def _thread(op: Op) -> str:
    return str(op.answers.data.get("thread", "")) if op.answers is not None else ""
