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
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from semel.channels.xmpp import address as jids
from semel.channels.xmpp.archive import Archive, Item, when
from semel.channels.xmpp.cursor import OWN, Cursor, Mark
from semel.channels.xmpp.incoming import NoteTranslator, unkept_key
from semel.channels.xmpp.parse import Note, read
from semel.channels.xmpp.room_membership import RoomMembership
from semel.channels.xmpp.rooms import Occupant, Room
from semel.channels.xmpp.session import Refused, Session
from semel.channels.xmpp.xml import (
    ARCHIVE,
    CARBONS,
    CLIENT,
    DELAY,
    FORWARD,
    HINTS,
    IDS,
    MESSAGE,
    RECEIPTS,
    ROSTER,
    add,
    child,
    error_of,
    every,
    make,
)
from semel.gateway.ports import Denied, Inbox, Incoming, Offline, Person

log = logging.getLogger(__name__)

WAITING = 1_000
"""Maximum number of waiting live messages. Above it, archived ones are dropped: the archive returns them later."""
RECENT = 5_000
"""Number of newest archive ids that are remembered as put."""
MESSAGE_ERRORS = (ValueError, TypeError, LookupError, AttributeError, AssertionError)
"""Exceptions that indicate a bug in processing a message, and not a failed connection or store."""
ARCHIVE_RETRY_DELAYS_S = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Delays in seconds between reads of an archive that does not contain a live message yet."""


@dataclass(frozen=True)
class _Live:
    """A live message. `id` is its id in the archive, or "" if no archive has it."""

    archive: str
    id: str
    message: Element
    who: Occupant | None = None  # in a room: who had the sender's nick when it arrived


class XmppReceiver:
    """Receives over one connection, until it is lost."""

    def __init__(
        self,
        session: Session,
        lobby: RoomMembership,
        inbox: Inbox,
        teller: NoteTranslator,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.session, self.lobby, self.inbox, self.teller = session, lobby, inbox, teller
        self.settings = session.settings
        self._now = now
        self._cursor = Cursor()
        self._waiting: deque[_Live] = deque()
        self._asking: deque[str] = deque(maxlen=100)  # people who asked to see our presence
        self._more = asyncio.Event()
        self._recent: OrderedDict[tuple[str, str], None] = OrderedDict()
        session.on_message, session.on_presence = self._on_message, self._on_presence

    def __repr__(self) -> str:
        return f"<Hearing on {self.session!r}, {len(self._waiting)} waiting, at {self._cursor}>"

    async def run(self) -> None:
        """Receive until the connection is lost. Raises Offline or Denied, or an exception of the inbox."""
        work = asyncio.create_task(self._work())
        lost = asyncio.create_task(self.session.lost())
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and (self.session.alive or not isinstance(work.exception(), Offline)):
                work.result()
            raise await lost
        finally:
            work.cancel()
            lost.cancel()
            await asyncio.gather(work, lost, return_exceptions=True)

    async def _work(self) -> None:
        text = await self.inbox.cursor()
        self._cursor = Cursor.of(text)
        if text is not None and not self._cursor.marks:
            log.warning("the cursor %.200r cannot be read: reading begins at the present", text)
        self._cursor.keep({OWN, *self.lobby.rooms})
        await self._begin()
        self.session.say(make("presence", CLIENT))
        await self.lobby.enter_all()
        self.teller.titles = {room.jid: room.title for room in self.lobby.rooms.values()}
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
            await self._accept()
            batch = list(self._waiting)
            self._waiting.clear()
            await self._deal(batch)

    async def _begin(self) -> None:
        """Enable carbons, load the roster, and check that the account has an archive. Raises Denied if it has none."""
        carbons = make("iq", CLIENT, type_="set")
        add(carbons, "enable", CARBONS)
        try:
            await self.session.ask(carbons)
        except Refused:
            pass  # messages of the account's other devices then come only from the archive
        await self._learn_friends()
        if not self.settings.archive:
            return
        try:
            features, _ = await self.session.features(self.session.jid)
        except Refused:
            features = frozenset()
        if ARCHIVE not in features:
            raise Denied(
                f"{self.settings.domain} keeps no archive (XEP-0313) for this account: switch it on there, or set "
                "archive = false, and read in docs/xmpp.md what is then not promised"
            )

    async def _learn_friends(self) -> None:
        """Load the contacts that already see our presence (RFC 6121, 2.1)."""
        roster = make("iq", CLIENT, type_="get")
        add(roster, "query", ROSTER)
        try:
            query = child(await self.session.ask(roster), "query", ROSTER)
        except Refused:
            return
        items = every(query, "item", ROSTER) if query is not None else ()
        self.session.friends |= {each.get("jid", "") for each in items if each.get("subscription") in ("both", "from")}

    async def _check(self) -> None:
        """Periodic check: whether server and rooms still answer and know us, and whether messages were missed."""
        answered = await self.lobby.check()
        await self._read_all([archive for archive in self._archives() if archive == OWN or archive in answered])
        if not self.settings.archive:
            await self.session.ping()

    # ------------------------------------------------------------ archives

    def _archives(self) -> list[str]:
        rooms = [room.jid for room in self.lobby.rooms.values() if room.archived and room.inside()]
        return [OWN, *rooms] if self.settings.archive else []

    async def _read_all(self, archives: list[str]) -> None:
        for archive in archives:
            await self._read_on(archive, {})

    async def _read_on(self, name: str, live: dict[str, _Live]) -> None:
        """Put the messages after an archive's saved position. In a first run, only save the position of its end."""
        archive = Archive(self.session, name or None)
        mark = self._cursor.marks.get(name)
        try:
            if mark is None:
                newest = await archive.newest()
                self._cursor.marks[name] = Mark(newest.id, newest.at) if newest else Mark("", 0.0)
                await self.inbox.put([], str(self._cursor))
                return
            async for page in archive.after(mark.id, since=mark.at):
                await self._put_page(name, page.items, live)
        except Refused as no:
            if name == OWN:
                raise Offline(f"the archive cannot be read: {no}", 60.0) from None
            log.warning("the archive of %s cannot be read: %s", name, no)

    async def _put_page(self, name: str, items: tuple[Item, ...], live: dict[str, _Live]) -> None:
        if not items:
            return
        self.teller.hurry()
        events: list[Incoming] = []
        for item in items:
            came = live.get(item.id)
            events += await self._told(name, item.id, item.at, item.message, came.who if came else None)
            self._recent[name, item.id] = None
        self._cursor.marks[name] = Mark(items[-1].id, items[-1].at)
        await self.inbox.put(events, str(self._cursor))
        await self._confirm(items)
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    async def _told(self, name: str, id: str, at: float, message: Element, who: Occupant | None) -> list[Incoming]:
        key = f"{name}/{id}" if name in self.lobby.rooms else id
        note = self._read(name, message, who)
        if note is None:
            return []
        try:
            return await self.teller.tell(note, key, at, message)
        except MESSAGE_ERRORS as fault:  # what nobody foresaw must not stop the line (Law 1)
            log.warning("a message from %s is not understood", note.source, exc_info=True)
            why = f"{type(fault).__name__}: {fault}"
            return await self.teller.tell(replace(note, kind="unreadable", why=why), key, at, message)

    def _read(self, name: str, message: Element, who: Occupant | None) -> Note | None:
        try:
            return read(message, self.session.jid, self.lobby.rooms.get(name), who)
        except Exception as fault:  # what nobody foresaw must not stop the line (Law 1)
            return Note("unreadable", name, message.get("from", ""), why=f"{type(fault).__name__}: {fault}")

    async def _confirm(self, items: tuple[Item, ...]) -> None:
        """Send the requested delivery receipts for committed messages, to people who may speak here (XEP-0184)."""
        for item in items:
            message, source = item.message, item.message.get("from", "")
            asked = message.get("type") != "groupchat" and child(message, "request", RECEIPTS) is not None
            if not asked or not message.get("id") or jids.bare(source) == self.session.jid:
                continue
            if await self.inbox.known(Person(jids.bare(source))):
                receipt = make("message", CLIENT, to=source, type_="chat")
                add(receipt, "received", RECEIPTS, id=message.get("id", ""))
                add(receipt, "store", HINTS)
                self.session.say(receipt)

    # ------------------------------------------------------------ live

    def _on_message(self, message: Element) -> None:
        if child(message, "result", ARCHIVE) is not None:
            return
        carbon = _carbon(message, self.session.jid)
        if message.get("type") == "error" or (carbon is not None and carbon.get("type") == "error"):
            self._came_back(message)
            return
        message = carbon if carbon is not None else message
        place = jids.bare(message.get("from", ""))
        room = self.lobby.rooms.get(place) if message.get("type") == "groupchat" else None
        if room is None and message.get("type") == "groupchat":
            return
        self._wait_for(self._live(message, room))

    def _came_back(self, message: Element) -> None:
        """Handle a bounced message.

        Ignored are bounces that `send` is waiting for, those of the account's other devices (XEP-0280), and those from
        rooms, where the room's reflection of the message decides.
        """
        place = jids.bare(message.get("from", ""))
        log.warning("a message to %s came back: %s", place, _why(message))
        if message.get("type") != "error" or message.get("id", "") in self.session.awaited:
            return
        if place not in self.lobby.rooms:
            self._wait_for(self._live(message, None))

    def _live(self, message: Element, room: Room | None) -> _Live:
        name = room.jid if room is not None else OWN
        who = room.present.get(jids.resource(message.get("from", ""))) if room is not None else None
        kept = self.settings.archive and (room is None or room.archived)
        by = name or self.session.jid
        ids = [each.get("id", "") for each in every(message, "stanza-id", IDS) if each.get("by") == by]
        # The archive's own is the last one: Prosody 0.12 leaves those in front of it that the sender made up.
        return _Live(name, ids[-1] if ids and kept else "", message, who)

    def _wait_for(self, live: _Live) -> None:
        if live.id and len(self._waiting) >= WAITING:
            self._more.set()
            return
        if not live.id and len(self._waiting) >= 10 * WAITING:
            self.session.lose("more is said than can be kept")
            return
        self._waiting.append(live)
        self._more.set()

    async def _deal(self, batch: list[_Live]) -> None:
        self.teller.hurry()
        for name in dict.fromkeys(live.archive for live in batch if live.id):
            await self._heed(name, {live.id: live for live in batch if live.archive == name and live.id})
        for live in batch:
            if not live.id:
                await self._put_unkept(live)

    async def _heed(self, name: str, live: dict[str, _Live]) -> None:
        """Read an archive until it contains these live messages; put those directly that it does not show in time."""
        for wait in (0.0, *ARCHIVE_RETRY_DELAYS_S):
            new = {id: each for id, each in live.items() if (name, id) not in self._recent}
            if not new:
                return
            await asyncio.sleep(wait)
            await self._read_on(name, new)
            mark = self._cursor.marks.get(name)
            new = {id: each for id, each in new.items() if (name, id) not in self._recent}
            if all(self._is_old(each, mark) for each in new.values()):
                break
        for id, each in new.items():  # delivered late, or not yet archived; a later repeat is recognized by its key
            events = await self._told(name, id, _sent(each.message) or self._now(), each.message, each.who)
            await self.inbox.put(events)
            self._recent[name, id] = None

    def _is_old(self, live: _Live, mark: Mark | None) -> bool:
        """Whether a delayed message was sent before the archive position that was already read."""
        sent = _sent(live.message)
        return sent is not None and mark is not None and sent <= mark.at

    async def _put_unkept(self, live: _Live) -> None:
        """Put a message that no archive has. Its key is made of the id that its sender gave it (Law 1)."""
        note = self._read(live.archive, live.message, live.who)
        if note is None:
            return
        if note.kind == "message" and note.sender is not None and self._was_put(note.address, note.sender.id, note.ids):
            return  # offline message that the server delivers without its archive id
        key = unkept_key(note, secrets.token_hex(12))
        await self.inbox.put(await self.teller.tell(note, key, _sent(live.message) or self._now(), live.message))

    def _was_put(self, address: str, author: str, ids: tuple[str, ...]) -> bool:
        book = self.teller.lookup.book
        return self.settings.archive and any(book.key(address, author, id) is not None for id in ids)

    # ------------------------------------------------------------ presences

    def _on_presence(self, presence: Element) -> None:
        if self.lobby.on_presence(presence):
            return
        if presence.get("type") == "subscribe" and presence.get("from"):
            self._asking.append(jids.bare(presence.get("from", "")))
            self._more.set()

    async def _accept(self) -> None:
        """Accept presence subscriptions of people who may speak here; others get no answer."""
        while self._asking:
            who = self._asking.popleft()
            if await self.inbox.known(Person(who)):
                self.session.friends.add(who)
                self.session.say(make("presence", CLIENT, to=who, type_="subscribed"))
                self.session.say(make("presence", CLIENT, to=who, type_="subscribe"))


def _carbon(message: Element, me: str) -> Element | None:
    """The message inside a carbon copy (XEP-0280) of another device of this account, or None.

    Copies from other addresses are forged and ignored (XEP-0280, 11).
    """
    if message.get("from", "") != me:
        return None
    for each in (child(message, "received", CARBONS), child(message, "sent", CARBONS)):
        forwarded = child(each, "forwarded", FORWARD) if each is not None else None
        if forwarded is not None:
            return forwarded.find(MESSAGE)
    return None


def _sent(message: Element) -> float | None:
    """When a delayed message was sent, in seconds since the epoch; None if it was not delayed."""
    delay = child(message, "delay", DELAY)
    return when(delay.get("stamp", "")) or None if delay is not None else None


def _why(message: Element) -> str:
    _, condition, text = error_of(message)
    return f"{condition} ({text})" if text else condition
