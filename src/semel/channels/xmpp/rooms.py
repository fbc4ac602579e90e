"""Rooms (XEP-0045): joining them and staying in them, their occupants, and the real addresses behind nicks.

The author of a message in a room is identified by its real address, taken from the best of these sources:
1. the occupant-id (XEP-0421), which the room guarantees: the address in the presence with the same occupant-id;
2. the presence under the sender's nick at the moment a live message arrived;
3. for an archived message of a room where everybody sees real addresses, the address that the archive adds.
If the real address is hidden from us, the author is `room/occupant-id`, else `room/nick`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from semel.channels.xmpp import address, ns
from semel.channels.xmpp.session import IqRefused, XmppSession
from semel.channels.xmpp.xml import add_child, child_attribute, children, error_of, find_child, make_element
from semel.gateway.ports import Person

log = logging.getLogger(__name__)

STILL_INSIDE_CONDITIONS = frozenset({"service-unavailable", "feature-not-implemented"})
"""Error conditions that our own client sends in answer to a self-ping: we are still in the room (XEP-0410, 3.2)."""
UNANSWERED_CONDITIONS = frozenset({"remote-server-not-found", "remote-server-timeout"})
"""Error conditions that say nothing about our membership, because the room's server did not answer."""
PERMANENT_CONDITIONS = frozenset(
    {"forbidden", "not-authorized", "registration-required", "not-allowed", "jid-malformed"}
)
"""Error conditions after which a retry is useless until somebody changes something."""
REFUSALS = {
    "not-authorized": "it wants a password: check room_password",
    "forbidden": "the account is banned there",
    "registration-required": "it is for members, and the account is none",
    "conflict": "somebody there has our nick: choose another one in nick",
    "item-not-found": "there is no such room, and we may not make it",
    "not-allowed": "rooms may not be made there by us",
    "service-unavailable": "it is full",
}


@dataclass(frozen=True)
class Occupant:
    """An occupant of a room. `jid`: the bare real address, "" if it is hidden. `id`: the occupant-id, or ""."""

    nick: str
    jid: str = ""
    id: str = ""


@dataclass
class XmppRoom:
    """One room and its present occupants. `own` is our own occupant, None while we are not in the room."""

    jid: str
    wanted_nick: str
    password: str | None = field(default=None, repr=False)
    own: Occupant | None = None
    present: dict[str, Occupant] = field(default_factory=dict)
    by_id: dict[str, Occupant] = field(default_factory=dict)  # everybody seen since we joined, by occupant-id
    archived: bool = False
    non_anonymous: bool = False  # everybody sees real addresses
    has_occupant_ids: bool = False  # the room adds occupant-ids
    title: str = ""
    refusal: str = ""  # why it does not let us in
    refused_for_good: bool = False  # the refusal is permanent

    def __repr__(self) -> str:
        return f"<XmppRoom {self.jid}, {len(self.present)} present, {'in' if self.own else self.refusal or 'out'}>"

    def inside(self) -> bool:
        """Whether we are in the room."""
        return self.own is not None

    @property
    def nick(self) -> str:
        return self.own.nick if self.own else self.wanted_nick

    def leave(self) -> None:
        """Reset the state after we left the room, were removed, or lost the connection."""
        self.own = None
        self.present.clear()
        self.by_id.clear()

    def build_join(self) -> Element:
        """Build the presence that joins the room. It requests no history, because the archive has that."""
        presence = make_element("presence", ns.CLIENT, to=f"{self.jid}/{self.wanted_nick}")
        x = add_child(presence, "x", ns.MUC)
        add_child(x, "history", ns.MUC, maxstanzas="0")
        if self.password:
            add_child(x, "password", ns.MUC, self.password)
        return presence

    def apply_presence(self, presence: Element) -> frozenset[str]:
        """Apply a presence from this room. Returns its status codes ("110" marks our own presence)."""
        nick = address.resource(presence.get("from", ""))
        x = find_child(presence, "x", ns.MUC_USER)
        codes = frozenset(status.get("code", "") for status in children(x, "status", ns.MUC_USER))
        jid = address.bare_jid(child_attribute(x, "item", ns.MUC_USER, "jid"))
        occupant = Occupant(nick, jid, self._occupant_id(presence))
        if presence.get("type") == "unavailable":
            self._remove(nick, codes, child_attribute(x, "item", ns.MUC_USER, "nick"))
        elif presence.get("type") is None and nick:
            self.present[nick] = occupant
            if occupant.id:
                self.by_id[occupant.id] = occupant
            if "110" in codes:
                self.own, self.refusal = occupant, ""
        return codes

    def _remove(self, nick: str, codes: frozenset[str], new_nick: str) -> None:
        occupant = self.present.pop(nick, None)
        if "110" not in codes and (self.own is None or nick != self.own.nick):
            return
        if "303" in codes and new_nick and occupant is not None:  # renamed: still there
            self.own = Occupant(new_nick, occupant.jid, occupant.id)
            return
        self.leave()

    def _occupant_id(self, stanza: Element) -> str:
        """Return the occupant-id of the stanza's author; "" if the room does not guarantee it."""
        return child_attribute(stanza, "occupant-id", ns.OCCUPANT, "id") if self.has_occupant_ids else ""

    def author(self, message: Element, live: Occupant | None) -> Occupant:
        """Return the author of a message.

        `live`: the occupant who had the sender's nick when the message arrived; None for an archived message.
        """
        nick = address.resource(message.get("from", ""))
        id = self._occupant_id(message)
        jid = self.by_id[id].jid if id in self.by_id else ""
        if not jid and live is not None and live.id == id:
            jid = live.jid
        return Occupant(nick, jid or self._archived_address(message, live), id)

    def _archived_address(self, message: Element, live: Occupant | None) -> str:
        """Return the address that the archive of a non-anonymous room adds at the end of a message; "" if it adds none.

        In a live message (`live` is not None) such an element is ignored: it was written by the sender.
        """
        if not self.non_anonymous or live is not None:
            return ""
        elements = children(message, "x", ns.MUC_USER)
        return address.bare_jid(child_attribute(elements[-1], "item", ns.MUC_USER, "jid")) if elements else ""

    def is_own(self, occupant: Occupant) -> bool:
        """Whether the occupant is us: by occupant-id or real address if both sides have one, else by nick."""
        if self.own is None:
            return False
        if occupant.id and self.own.id:
            return occupant.id == self.own.id
        if occupant.jid and self.own.jid:
            return occupant.jid == self.own.jid
        return occupant.nick == self.own.nick

    def person(self, occupant: Occupant) -> Person:
        """Convert an occupant to a `Person` for the inbox."""
        return Person(occupant.jid or f"{self.jid}/{occupant.id or occupant.nick}", occupant.nick)


class RoomMembership:
    """Joins the configured rooms over one connection and keeps track of who is in them."""

    def __init__(self, session: XmppSession, rooms: list[str]) -> None:
        settings = session.settings
        self.session = session
        self.rooms = {room: XmppRoom(room, settings.name, settings.room_password) for room in rooms}
        session.friends |= set(rooms)
        self._entering: dict[str, asyncio.Future[None]] = {}
        self._one_at_a_time = {room: asyncio.Lock() for room in rooms}

    def __repr__(self) -> str:
        return f"<RoomMembership of {list(self.rooms.values())}>"

    def on_presence(self, presence: Element) -> bool:
        """Handle a presence if it is from one of our rooms. Returns whether it is."""
        room = self.rooms.get(address.bare_jid(presence.get("from", "")))
        if room is None:
            return False
        waiting = self._entering.get(room.jid)
        if presence.get("type") == "error":
            self._refused(room, presence, waiting)
            return True
        codes = room.apply_presence(presence)
        if "201" in codes and "110" in codes:
            self._unlock(room)
        if room.inside() and waiting is not None and not waiting.done():
            waiting.set_result(None)
        if not room.inside() and "110" in codes:
            log.warning("sent out of %s (%s)", room.jid, ", ".join(sorted(codes - {"110"})) or "left")
        return True

    def _refused(self, room: XmppRoom, presence: Element, waiting: asyncio.Future[None] | None) -> None:
        if find_child(presence, "x", ns.MUC_USER) is None and waiting is None:
            return
        _, condition, text = error_of(presence)
        room.refusal = f"{room.jid} does not let us in: {REFUSALS.get(condition, text or condition)}"
        room.refused_for_good = condition in PERMANENT_CONDITIONS
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _unlock(self, room: XmppRoom) -> None:
        """Unlock a room that we created by accepting its default configuration (XEP-0045, 10.1.2)."""
        iq = make_element("iq", ns.CLIENT, type_="set", to=room.jid, id="unlock")
        query = add_child(iq, "query", ns.MUC_OWNER)
        query.append(make_element("x", ns.FORM, type_="submit"))
        self.session.write(iq)

    async def enter_all(self) -> None:
        """Join all rooms; refusals are recorded in `XmppRoom.refusal`. Raises Offline."""
        await asyncio.gather(*(self.enter(room) for room in self.rooms.values()))

    async def enter(self, room: XmppRoom) -> bool:
        """Join a room. Returns whether we are in; if not, `room.refusal` says why. Raises Offline."""
        async with self._one_at_a_time[room.jid]:
            if room.inside():
                return True
            await self.discover(room)
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._entering[room.jid] = done
            try:
                self.session.write(room.build_join())
                await asyncio.wait({done}, timeout=self.session.settings.timeout)
            finally:
                del self._entering[room.jid]
            if not room.inside():
                room.refusal = room.refusal if done.done() else f"{room.jid} did not answer in time"
                log.warning("%s", room.refusal)
                return False
            if not room.archived:
                await self.discover(room)  # a room that was just created has features only now
                if self.session.settings.archive and not room.archived:
                    log.warning("%s keeps no archive: what is said there while we are away is not heard", room.jid)
            return True

    async def discover(self, room: XmppRoom) -> None:
        """Query the features and the title of a room (XEP-0045, 6.4). Raises Offline."""
        try:
            features, query = await self.session.discover_features(room.jid)
        except IqRefused:
            return
        room.archived = {ns.ARCHIVE, ns.IDS} <= features
        room.non_anonymous = "muc_nonanonymous" in features
        room.has_occupant_ids = ns.OCCUPANT in features
        room.title = child_attribute(query, "identity", ns.DISCO_INFO, "name")[:200]

    async def check(self) -> list[str]:
        """Check our membership of every room, and rejoin where it was lost. Returns the rooms that answered.

        Raises Offline.
        """
        rooms = list(self.rooms.values())
        answered = await asyncio.gather(*(self._check(room) for room in rooms))
        return [room.jid for room, there in zip(rooms, answered, strict=True) if there]

    async def _check(self, room: XmppRoom) -> bool:
        if room.inside():
            still = await self._is_still_inside(room)
            if still is not False:
                return bool(still)
            log.warning("%s forgot us: joining it again", room.jid)
            room.leave()
        return await self.enter(room)

    async def _is_still_inside(self, room: XmppRoom) -> bool | None:
        """Whether we are still in the room (XEP-0410); None if the room's server does not answer."""
        try:
            await self.session.request("get", make_element("ping", ns.PING), f"{room.jid}/{room.nick}")
        except IqRefused as no:
            return None if no.condition in UNANSWERED_CONDITIONS else no.condition in STILL_INSIDE_CONDITIONS
        return True
