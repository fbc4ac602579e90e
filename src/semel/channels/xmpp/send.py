"""Make one attempt to send a part, and confirm that the server or the room accepted it (Law 7).

In a chat, a ping follows the message. A server processes a stream in order (RFC 6120, 10.1), so it answers the ping
after it has accepted the message, or after it has sent its refusal. In a room, the confirmation is the room's
reflection of our message to all occupants, which also carries the room's id for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from semel.channels.xmpp import address, ns
from semel.channels.xmpp.archive import Archive, ArchiveIncomplete
from semel.channels.xmpp.files import UploadService
from semel.channels.xmpp.references import OURS, MessageIds, MessageLookup
from semel.channels.xmpp.render import render
from semel.channels.xmpp.rooms import RoomMembership, XmppRoom
from semel.channels.xmpp.session import IqRefused, XmppSession, wait_first
from semel.channels.xmpp.xml import add_child, child_attribute, children, clean, error_of, make_element
from semel.gateway.ports import REPEAT_PREFIX, NotSent, Offline, Op, Receipt, Rejected, Unknown

MAX_BODY_BYTES = 120_000
"""Maximum bytes of a body. The whole stanza stays below the smallest usual limit of servers, 256 KiB."""
TRANSIENT_CONDITIONS = frozenset({"resource-constraint", "remote-server-timeout", "internal-server-error"})
"""Error conditions of transient refusals: the message was not delivered, and a retry may succeed."""
ROOM_RETRY_DELAY_S = 60.0
"""Seconds before a retry if a room did not let us in."""
CLOCK_SLACK_S = 3600.0
"""Seconds by which the server's clock may be behind ours; the archive is searched from that much earlier."""
RETRACTED = "/me took a message back that your client still shows."


@dataclass(frozen=True)
class MessageReferences:
    """The messages that an op refers to, by the ids that XMPP clients use, and the URL of its file."""

    target: str = ""  # id of the message that is edited, reacted to or retracted
    emojis: tuple[str, ...] = ()  # all our reactions to it, the new one among them
    reply_id: str = ""
    reply_to: str = ""  # full address of that message's author
    thread: str = ""
    url: str = ""  # URL of the uploaded file


def build_message(op: Op, group: bool, references: MessageReferences) -> Element:
    """Build the stanza of an op. Its id and its origin-id are `op.key`, on every attempt.

    `group`: whether it is for a room.
    """
    stanza = make_element("message", ns.CLIENT, to=op.address, type_="groupchat" if group else "chat", id=op.key)
    match op.kind:
        case "post":
            _add_text(stanza, render(clean(op.text), MAX_BODY_BYTES), op, references)
        case "edit":
            _add_text(stanza, render(clean(op.text), MAX_BODY_BYTES), op, references)
            add_child(stanza, "replace", ns.CORRECT, id=references.target)
        case "file":
            caption = render(clean(op.text), MAX_BODY_BYTES) + "\n" if op.text.strip() else ""
            _add_text(stanza, caption + references.url, op, references)
            x = add_child(stanza, "x", ns.OOB)
            add_child(x, "url", ns.OOB, references.url)
        case "react":
            reactions = add_child(stanza, "reactions", ns.REACTIONS, id=references.target)
            for emoji in references.emojis:
                add_child(reactions, "reaction", ns.REACTIONS, emoji)
        case "delete":
            add_child(stanza, "retract", ns.RETRACT, id=references.target)
            add_child(stanza, "fallback", ns.FALLBACK, for_=ns.RETRACT)
            add_child(stanza, "body", ns.CLIENT, RETRACTED)
    add_child(stanza, "origin-id", ns.IDS, id=op.key)
    add_child(stanza, "store", ns.HINTS)
    return stanza


def _add_text(stanza: Element, body: str, op: Op, references: MessageReferences) -> None:
    add_child(stanza, "body", ns.CLIENT, (REPEAT_PREFIX if op.marked else "") + body)
    if references.thread:
        add_child(stanza, "thread", ns.CLIENT, references.thread)
    if references.reply_id:
        to = {"to": references.reply_to} if references.reply_to else {}
        add_child(stanza, "reply", ns.REPLY, id=references.reply_id, **to)
    add_child(stanza, "active", ns.STATES)


def build_typing(address: str, group: bool) -> Element:
    """Build the stanza for the typing state (XEP-0085), which is not stored anywhere."""
    stanza = make_element("message", ns.CLIENT, to=address, type_="groupchat" if group else "chat")
    add_child(stanza, "composing", ns.STATES)
    add_child(stanza, "no-store", ns.HINTS)
    return stanza


@dataclass
class XmppSender:
    """Sends over one connection, to people and to the connection's rooms."""

    session: XmppSession
    membership: RoomMembership
    message_ids: MessageIds
    uploads: UploadService = field(init=False)
    lookup: MessageLookup = field(init=False)

    def __post_init__(self) -> None:
        self.uploads = UploadService(self.session)
        self.lookup = MessageLookup(self.session, self.message_ids, self.membership.rooms)

    async def send(self, op: Op) -> Receipt:
        """Make one attempt to send. Raises NotSent, Rejected or Unknown."""
        room = self.membership.rooms.get(op.address)
        try:
            if room is not None:
                await self._enter_room(room)
            references = await self._resolve_references(op, room)
        except Offline as lost:
            raise NotSent(str(lost)) from None
        stanza = await asyncio.to_thread(build_message, op, room is not None, references)  # long texts are slow
        receipt = await (self._send_to_room(room, op, stanza) if room is not None else self._send_to_person(op, stanza))
        if op.kind in ("post", "file"):
            self.message_ids.remember(op.address, OURS, (op.key,), receipt.id)
        if op.kind == "react":
            self.message_ids.replace_reactions(op.address, op.target or "", OURS, references.emojis)
        return receipt

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Search the archive for a part and return its receipt; None if the part is not there.

        `since`: when the part was sent, in seconds since the epoch. Raises Unknown if the archive cannot be searched.
        """
        room = self.membership.rooms.get(op.address)
        try:
            if room is not None and not room.archived:
                await self.membership.discover(room)
            if room is not None and not room.archived:
                raise Unknown(f"{room.jid} keeps no archive")
            return await self._find_in_archive(op, since, room)
        except (IqRefused, Offline, ArchiveIncomplete) as fault:
            raise Unknown(str(fault)) from None

    async def _find_in_archive(self, op: Op, since: float, room: XmppRoom | None) -> Receipt | None:
        archive = Archive(self.session, room.jid if room is not None else None)
        async for item in archive.before(since - CLOCK_SLACK_S, with_=op.address):
            if not _has_key(item.message, op.key):
                continue
            if item.message.get("type") == "error":
                return None  # the message bounced
            if room is not None:
                return Receipt(f"{room.jid}/{item.id}")
            if address.bare_jid(item.message.get("from", "")) == self.session.jid:
                return Receipt(op.key)
        return None

    # ------------------------------------------------------------ preparation

    async def _enter_room(self, room: XmppRoom) -> None:
        if not await self.membership.enter(room):
            raise Rejected(room.refusal) if room.refused_for_good else NotSent(room.refusal, ROOM_RETRY_DELAY_S)

    async def _resolve_references(self, op: Op, room: XmppRoom | None) -> MessageReferences:
        """Return the references of an op to other messages, in the ids that clients use. Also uploads the op's file."""
        if op.kind == "file":
            return MessageReferences(url=await self.uploads.put(op), thread=_thread(op))
        if op.kind == "post":
            return (
                self._reply_references(op) if room is not None and op.n == 0 else MessageReferences(thread=_thread(op))
            )
        target = await self._target(op, room)
        if op.kind != "react":
            return MessageReferences(target)
        before = self.message_ids.reactions(op.address, op.target or "", OURS)
        return MessageReferences(target, tuple(dict.fromkeys((*before, op.text.strip()))))

    def _reply_references(self, op: Op) -> MessageReferences:
        """Return the references of the first part of an answer in a room: a reply to the answered message."""
        answers = op.answers
        prefix = f"{op.address}/"
        if answers is None or not answers.id.startswith(prefix):
            return MessageReferences(thread=_thread(op))
        return MessageReferences(
            reply_id=answers.id.removeprefix(prefix), reply_to=str(answers.data.get("from", "")), thread=_thread(op)
        )

    async def _target(self, op: Op, room: XmppRoom | None) -> str:
        """Return the id that clients use for the message that an op changes. Raises Rejected if it cannot change it."""
        key = op.target or ""
        if room is not None and op.kind != "edit":  # reactions and retractions name the room's id, corrections our own
            return key.removeprefix(f"{room.jid}/")
        origin = await self.lookup.origin(op.address, key)
        if origin is None and room is None:
            return key  # our own messages are stored under the id that we gave them
        if origin is None or not origin.ids:
            raise Rejected("the message is not in the archive any more")
        if op.kind != "react" and origin.author != OURS:
            raise Rejected("only one's own messages can be changed")
        return origin.ids[-1] if op.kind == "edit" else origin.ids[0]

    # ------------------------------------------------------------ the attempt

    async def _send_to_person(self, op: Op, stanza: Element) -> Receipt:
        bounces: list[Element] = []

        def collect(message: Element) -> None:
            if message.get("type") == "error" and message.get("id") == op.key:
                bounces.append(message)

        self.session.watchers.append(collect)
        self.session.awaited_ids.add(op.key)
        try:
            self._write(stanza)
            try:
                await self.session.ping()
            except Offline as lost:
                raise Unknown(str(lost)) from None
        finally:
            self.session.watchers.remove(collect)
            self.session.awaited_ids.discard(op.key)
        if bounces:
            raise _refusal(bounces[0])
        return Receipt(op.key)

    async def _send_to_room(self, room: XmppRoom, op: Op, stanza: Element) -> Receipt:
        reflection: asyncio.Future[Element] = asyncio.get_running_loop().create_future()

        def watch(message: Element) -> None:
            source = message.get("from", "")
            is_answer = message.get("type") == "error" or source == f"{room.jid}/{room.nick}"
            if (
                address.bare_jid(source) == room.jid
                and is_answer
                and _has_key(message, op.key)
                and not reflection.done()
            ):
                reflection.set_result(message)

        self.session.watchers.append(watch)
        lost = asyncio.create_task(self.session.wait_until_lost())
        try:
            self._write(stanza)
            await wait_first(self.session.settings.timeout, reflection, lost)
        finally:
            self.session.watchers.remove(watch)
            lost.cancel()
            await asyncio.gather(lost, return_exceptions=True)
        if not reflection.done():
            raise Unknown(f"{room.jid} did not show the message")
        if reflection.result().get("type") == "error":
            if error_of(reflection.result())[1] == "not-acceptable":
                room.leave()  # the room lost our membership
                raise NotSent(f"{room.jid} forgot us", 1.0)
            raise _refusal(reflection.result())
        return Receipt(f"{room.jid}/{_room_id(reflection.result(), room.jid) or op.key}")

    def _write(self, stanza: Element) -> None:
        try:
            self.session.write(stanza)
        except Offline as lost:
            raise NotSent(str(lost)) from None


def _refusal(message: Element) -> NotSent | Rejected:
    """Return the error for a bounced message, which was not accepted: NotSent if a retry may succeed, else Rejected."""
    type, condition, text = error_of(message)
    why = f"{address.bare_jid(message.get('from', ''))}: {condition}" + (f" ({text[:200]})" if text else "")
    return NotSent(why, 5.0) if type == "wait" or condition in TRANSIENT_CONDITIONS else Rejected(why)


def _has_key(message: Element, key: str) -> bool:
    return key in (message.get("id"), child_attribute(message, "origin-id", ns.IDS, "id"))


def _room_id(message: Element, room: str) -> str:
    return next((each.get("id", "") for each in children(message, "stanza-id", ns.IDS) if each.get("by") == room), "")


def _thread(op: Op) -> str:
    return str(op.answers.data.get("thread", "")) if op.answers is not None else ""
