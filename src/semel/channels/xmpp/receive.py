"""Receive over one connection. Messages are read from the archives; a live message signals that there is more (Law 1).

1. Join the rooms, so that from now on their messages arrive live, too.
2. Read each archive from its saved position to its end, oldest first. A page and the position after it are put in one
   transaction.
3. For each live message that an archive has, continue to read that archive. Messages that no archive has (for example a
   reaction without a storage hint) are put directly.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from semel.channels.connection_loss import run_until_lost
from semel.channels.recent_map import RecentMap
from semel.channels.xmpp import address as jids
from semel.channels.xmpp import ns
from semel.channels.xmpp.archive import OWN, Archive, ArchiveCursor, ArchivedMessage, ArchivePosition, parse_time
from semel.channels.xmpp.incoming import StanzaTranslator, unarchived_key
from semel.channels.xmpp.parse import ParsedStanza, bounce_reason, parse_message
from semel.channels.xmpp.rooms import Occupant, RoomMembership, XmppRoom
from semel.channels.xmpp.session import IqRefused, XmppSession
from semel.channels.xmpp.xml import add_child, child_attribute, children, find_child, make_element
from semel.gateway.ports import Denied, Inbox, Incoming, Offline, Person

log = logging.getLogger(__name__)

MAX_WAITING_MESSAGES = 1_000
"""Maximum number of waiting live messages. Above it, archived ones are dropped: the archive returns them later."""
MAX_RECENT_IDS = 5_000
"""Number of newest archive ids that are remembered, to recognize messages that are in the inbox already."""
MESSAGE_ERRORS = (ValueError, TypeError, LookupError, AttributeError, AssertionError)
"""Exceptions that indicate a bug in processing a message, and not a failed connection or store."""
ARCHIVE_RETRY_DELAYS_S = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Delays in seconds between reads of an archive that does not contain a live message yet."""


@dataclass(frozen=True)
class _LiveMessage:
    """A live message. `id` is its id in the archive, or "" if no archive has it."""

    archive: str
    id: str
    message: Element
    occupant: Occupant | None = None  # in a room: the one who had the sender's nick when it arrived


class XmppReceiver:
    """Receives over one connection, until it is lost."""

    def __init__(
        self,
        session: XmppSession,
        membership: RoomMembership,
        inbox: Inbox,
        translator: StanzaTranslator,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.session, self.membership, self.inbox, self.translator = session, membership, inbox, translator
        self.settings = session.settings
        self._now = now
        self._cursor = ArchiveCursor()
        self._waiting: deque[_LiveMessage] = deque()
        self._subscribers: deque[str] = deque(maxlen=100)  # people who asked to see our presence
        self._more = asyncio.Event()
        self._recent = RecentMap[tuple[str, str], None](MAX_RECENT_IDS)
        session.on_message, session.on_presence = self._on_message, self._on_presence

    def __repr__(self) -> str:
        return f"<XmppReceiver on {self.session!r}, {len(self._waiting)} waiting, at {self._cursor}>"

    async def run(self) -> None:
        """Receive until the connection is lost. Raises Offline or Denied, or an exception of the inbox."""
        await run_until_lost(self._work(), self.session.wait_until_lost(), lambda: self.session.alive)

    async def _work(self) -> None:
        await self._prepare()
        text = await self.inbox.cursor()
        self._cursor = ArchiveCursor.of(text)
        if text is not None and not self._cursor.positions:
            log.warning("the cursor %.200r cannot be read: reading begins at the present", text)
        self._cursor.keep({OWN, *self.membership.rooms})
        self.session.write(make_element("presence", ns.CLIENT))
        await self.membership.enter_all()
        self.translator.titles = {room.jid: room.title for room in self.membership.rooms.values()}
        await self._read_all(self._archives())
        self.inbox.online()
        clock = asyncio.get_running_loop().time
        check = clock() + self.settings.keepalive
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(check):
                    await self._more.wait()
            if clock() >= check:  # also under constant traffic
                await self._check()
                check = clock() + self.settings.keepalive
            self._more.clear()
            await self._accept_subscriptions()
            batch = list(self._waiting)
            self._waiting.clear()
            await self._process(batch)

    async def _prepare(self) -> None:
        """Enable carbons, load the roster, and check that the account has an archive. Raises Denied if it has none."""
        try:
            await self.session.request("set", make_element("enable", ns.CARBONS))
        except IqRefused:
            pass  # messages of the account's other devices then come only from the archive
        await self._load_roster()
        if not self.settings.archive:
            return
        try:
            features, _ = await self.session.discover_features(self.session.jid)
        except IqRefused:
            features = frozenset()
        if ns.ARCHIVE not in features:
            raise Denied(
                f"{self.settings.domain} keeps no archive (XEP-0313) for this account: switch it on there, or set "
                "archive = false (`semel docs xmpp` says what is then not promised)"
            )

    async def _load_roster(self) -> None:
        """Load the contacts that already see our presence (RFC 6121, 2.1)."""
        try:
            answer = await self.session.request("get", make_element("query", ns.ROSTER))
        except IqRefused:
            return
        items = children(find_child(answer, "query", ns.ROSTER), "item", ns.ROSTER)
        self.session.friends |= {each.get("jid", "") for each in items if each.get("subscription") in ("both", "from")}

    async def _check(self) -> None:
        """Check whether server and rooms still answer and know us, and read the messages that were missed."""
        answered = await self.membership.check()
        await self._read_all([archive for archive in self._archives() if archive == OWN or archive in answered])
        if not self.settings.archive:
            await self.session.ping()

    # ------------------------------------------------------------ archives

    def _archives(self) -> list[str]:
        rooms = [room.jid for room in self.membership.rooms.values() if room.archived and room.inside()]
        return [OWN, *rooms] if self.settings.archive else []

    async def _read_all(self, archives: list[str]) -> None:
        for archive in archives:
            await self._read_on(archive, {})

    async def _read_on(self, name: str, live: dict[str, _LiveMessage]) -> None:
        """Put the messages after an archive's saved position into the inbox. Without a saved position (in a first run),
        only save the position of the archive's end.

        `live`: the live messages that are awaited in this archive, by archive id.
        """
        archive = Archive(self.session, name or None)
        position = self._cursor.positions.get(name)
        try:
            if position is None:
                newest = await archive.newest()
                self._cursor.positions[name] = (
                    ArchivePosition(newest.id, newest.at) if newest else ArchivePosition("", 0.0)
                )
                await self.inbox.put([], str(self._cursor))
                return
            async for page in archive.after(position.id, since=position.at):
                await self._put_page(name, page.items, live)
        except IqRefused as no:
            if name == OWN:
                raise Offline(f"the archive cannot be read: {no}", 60.0) from None
            log.warning("the archive of %s cannot be read: %s", name, no)

    async def _put_page(self, name: str, items: tuple[ArchivedMessage, ...], live: dict[str, _LiveMessage]) -> None:
        if not items:
            return
        self.translator.start_download_budget()
        events: list[Incoming] = []
        for item in items:
            live_message = live.get(item.id)
            events += await self._events_of(name, item, live_message.occupant if live_message else None)
            self._recent[name, item.id] = None
        self._cursor.positions[name] = ArchivePosition(items[-1].id, items[-1].at)
        await self.inbox.put(events, str(self._cursor))
        await self._send_receipts(items)

    async def _events_of(self, name: str, item: ArchivedMessage, occupant: Occupant | None) -> list[Incoming]:
        """Return the inbox events for one message from the archive `name`.

        `occupant`: the message's author, as seen in the room when the message also came live, else None.
        """
        key = f"{name}/{item.id}" if name in self.membership.rooms else item.id
        note = self._parse(name, item.message, occupant)
        if note is None:
            return []
        try:
            return await self.translator.translate(note, key, item.at, item.message)
        except MESSAGE_ERRORS as fault:  # one bad message must not block all later ones (Law 1)
            log.warning("a message from %s is not understood", note.source, exc_info=True)
            why = f"{type(fault).__name__}: {fault}"
            unreadable = replace(note, kind="unreadable", why=why)
            return await self.translator.translate(unreadable, key, item.at, item.message)

    def _parse(self, name: str, message: Element, occupant: Occupant | None) -> ParsedStanza | None:
        try:
            return parse_message(message, self.session.jid, self.membership.rooms.get(name), occupant)
        except Exception as fault:  # one bad message must not block all later ones (Law 1)
            return ParsedStanza("unreadable", name, message.get("from", ""), why=f"{type(fault).__name__}: {fault}")

    async def _send_receipts(self, items: tuple[ArchivedMessage, ...]) -> None:
        """Send the requested delivery receipts for committed messages, to people who may speak here (XEP-0184)."""
        for item in items:
            message, source = item.message, item.message.get("from", "")
            asked = message.get("type") != "groupchat" and find_child(message, "request", ns.RECEIPTS) is not None
            if not asked or not message.get("id") or jids.bare_jid(source) == self.session.jid:
                continue
            if await self.inbox.known(Person(jids.bare_jid(source))):
                receipt = make_element("message", ns.CLIENT, to=source, type_="chat")
                add_child(receipt, "received", ns.RECEIPTS, id=message.get("id", ""))
                add_child(receipt, "store", ns.HINTS)
                self.session.write(receipt)

    # ------------------------------------------------------------ live

    def _on_message(self, message: Element) -> None:
        if find_child(message, "result", ns.ARCHIVE) is not None:
            return
        carbon = _copied_message(message, self.session.jid)
        if message.get("type") == "error" or (carbon is not None and carbon.get("type") == "error"):
            self._on_bounce(message)
            return
        message = carbon if carbon is not None else message
        source = jids.bare_jid(message.get("from", ""))
        room = self.membership.rooms.get(source) if message.get("type") == "groupchat" else None
        if room is None and message.get("type") == "groupchat":
            return
        self._enqueue(self._make_live(message, room))

    def _on_bounce(self, message: Element) -> None:
        """Handle a bounced message.

        The bounce is ignored if `send` is waiting for it, if another device of the account sent the message (XEP-0280),
        or if it is from a room: there the reflection of the message decides.
        """
        source = jids.bare_jid(message.get("from", ""))
        log.warning("a message to %s came back: %s", source, bounce_reason(message))
        if message.get("type") != "error" or message.get("id", "") in self.session.awaited_ids:
            return
        if source not in self.membership.rooms:
            self._enqueue(self._make_live(message, None))

    def _make_live(self, message: Element, room: XmppRoom | None) -> _LiveMessage:
        name = room.jid if room is not None else OWN
        occupant = room.present.get(jids.resource(message.get("from", ""))) if room is not None else None
        has_archive = self.settings.archive and (room is None or room.archived)
        by = name or self.session.jid
        ids = [each.get("id", "") for each in children(message, "stanza-id", ns.IDS) if each.get("by") == by]
        # The archive's own stanza-id is the last one: Prosody 0.12 does not remove forged ones, which precede it.
        return _LiveMessage(name, ids[-1] if ids and has_archive else "", message, occupant)

    def _enqueue(self, live: _LiveMessage) -> None:
        if live.id and len(self._waiting) >= MAX_WAITING_MESSAGES:
            self._more.set()
            return
        if not live.id and len(self._waiting) >= 10 * MAX_WAITING_MESSAGES:
            self.session.give_up("more messages came than can wait")
            return
        self._waiting.append(live)
        self._more.set()

    async def _process(self, batch: list[_LiveMessage]) -> None:
        self.translator.start_download_budget()
        for name in dict.fromkeys(live.archive for live in batch if live.id):
            await self._read_until_shown(name, {live.id: live for live in batch if live.archive == name and live.id})
        for live in batch:
            if not live.id:
                await self._put_unarchived(live)

    async def _read_until_shown(self, name: str, live: dict[str, _LiveMessage]) -> None:
        """Read on in an archive until it has returned these live messages. Those that it does not return in time are
        put into the inbox as they arrived."""
        for wait in (0.0, *ARCHIVE_RETRY_DELAYS_S):
            new = {id: each for id, each in live.items() if (name, id) not in self._recent}
            if not new:
                return
            await asyncio.sleep(wait)
            await self._read_on(name, new)
            position = self._cursor.positions.get(name)
            new = {id: each for id, each in new.items() if (name, id) not in self._recent}
            if all(self._is_old(each, position) for each in new.values()):
                break
        for id, each in new.items():  # delivered late, or not yet archived; a later repeat is recognized by its key
            item = ArchivedMessage(id, _sending_time(each.message) or self._now(), each.message)
            await self.inbox.put(await self._events_of(name, item, each.occupant))
            self._recent[name, id] = None

    def _is_old(self, live: _LiveMessage, position: ArchivePosition | None) -> bool:
        """Whether a message was delayed, and sent before `position`, up to which its archive was read."""
        sent = _sending_time(live.message)
        return sent is not None and position is not None and sent <= position.at

    async def _put_unarchived(self, live: _LiveMessage) -> None:
        """Put a message that no archive has. Its key contains the id that its sender gave it (Law 1)."""
        note = self._parse(live.archive, live.message, live.occupant)
        if note is None:
            return
        if note.kind == "message" and note.sender is not None and self._was_put(note.address, note.sender.id, note.ids):
            return  # already put from the archive; offline delivery gives no archive id
        key = unarchived_key(note, secrets.token_hex(12))
        await self.inbox.put(
            await self.translator.translate(note, key, _sending_time(live.message) or self._now(), live.message)
        )

    def _was_put(self, address: str, author: str, ids: tuple[str, ...]) -> bool:
        message_ids = self.translator.lookup.message_ids
        return self.settings.archive and any(message_ids.key(address, author, id) is not None for id in ids)

    # ------------------------------------------------------------ presences

    def _on_presence(self, presence: Element) -> None:
        if self.membership.on_presence(presence):
            return
        if presence.get("type") == "subscribe" and presence.get("from"):
            self._subscribers.append(jids.bare_jid(presence.get("from", "")))
            self._more.set()

    async def _accept_subscriptions(self) -> None:
        """Accept presence subscriptions of people who may speak here; others get no answer."""
        while self._subscribers:
            person = self._subscribers.popleft()
            if await self.inbox.known(Person(person)):
                self.session.friends.add(person)
                self.session.write(make_element("presence", ns.CLIENT, to=person, type_="subscribed"))
                self.session.write(make_element("presence", ns.CLIENT, to=person, type_="subscribe"))


def _copied_message(message: Element, me: str) -> Element | None:
    """Return the message inside a carbon copy (XEP-0280) of another device of this account; None if it is no copy.

    `me`: the account's address. Copies from other addresses are forged and ignored (XEP-0280, 11).
    """
    if message.get("from", "") != me:
        return None
    for each in (find_child(message, "received", ns.CARBONS), find_child(message, "sent", ns.CARBONS)):
        forwarded = find_child(each, "forwarded", ns.FORWARD)
        if forwarded is not None:
            return find_child(forwarded, "message", ns.CLIENT)
    return None


def _sending_time(message: Element) -> float | None:
    """Return when a delayed message was sent, in seconds since the epoch; None if it was not delayed."""
    return parse_time(child_attribute(message, "delay", ns.DELAY, "stamp")) or None
