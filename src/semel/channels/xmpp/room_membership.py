"""Join rooms and stay in them: refusals, kicks, and rooms that lost our membership (XEP-0045, XEP-0410)."""

from __future__ import annotations

import asyncio
import logging
from xml.etree.ElementTree import Element

from semel.channels.xmpp import address
from semel.channels.xmpp.rooms import Room
from semel.channels.xmpp.session import Refused, Session
from semel.channels.xmpp.xml import (
    ARCHIVE,
    CLIENT,
    DISCO_INFO,
    IDS,
    MUC_OWNER,
    MUC_USER,
    OCCUPANT,
    PING,
    add,
    child,
    error_of,
    make,
)

log = logging.getLogger(__name__)

STILL_IN = frozenset({"service-unavailable", "feature-not-implemented"})
"""Error conditions of a self-ping that were sent by our own client, so we are in the room (XEP-0410, 3.2)."""
NOT_TOLD = frozenset({"remote-server-not-found", "remote-server-timeout"})
DEFINITE = frozenset({"forbidden", "not-authorized", "registration-required", "not-allowed", "jid-malformed"})
WHY = {
    "not-authorized": "it wants a password: check room_password",
    "forbidden": "the account is banned there",
    "registration-required": "it is for members, and the account is none",
    "conflict": "somebody there has our nick: choose another one in nick",
    "item-not-found": "there is no such room, and we may not make it",
    "not-allowed": "rooms may not be made there by us",
    "service-unavailable": "it is full",
}


class RoomMembership:
    """The rooms of one connection."""

    def __init__(self, session: Session, rooms: list[str]) -> None:
        settings = session.settings
        self.session = session
        self.rooms = {room: Room(room, settings.name, settings.room_password) for room in rooms}
        session.friends |= set(rooms)
        self._entering: dict[str, asyncio.Future[None]] = {}
        self._one_at_a_time = {room: asyncio.Lock() for room in rooms}

    def __repr__(self) -> str:
        return f"<Lobby of {list(self.rooms.values())}>"

    def on_presence(self, presence: Element) -> bool:
        """Handle a presence from one of our rooms. Returns whether it was one."""
        room = self.rooms.get(address.bare(presence.get("from", "")))
        if room is None:
            return False
        waiting = self._entering.get(room.jid)
        if presence.get("type") == "error":
            self._refused(room, presence, waiting)
            return True
        codes = room.hear(presence)
        if "201" in codes and "110" in codes:
            self._unlock(room)
        if room.inside() and waiting is not None and not waiting.done():
            waiting.set_result(None)
        if not room.inside() and "110" in codes:
            log.warning("sent out of %s (%s)", room.jid, ", ".join(sorted(codes - {"110"})) or "left")
        return True

    def _refused(self, room: Room, presence: Element, waiting: asyncio.Future[None] | None) -> None:
        if child(presence, "x", MUC_USER) is None and waiting is None:
            return
        _, condition, text = error_of(presence)
        room.refusal = f"{room.jid} does not let us in: {WHY.get(condition, text or condition)}"
        room.definite = condition in DEFINITE
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _unlock(self, room: Room) -> None:
        """Unlock a room that we created by accepting its default configuration (XEP-0045, 10.1.2)."""
        iq = make("iq", CLIENT, type_="set", to=room.jid, id="unlock")
        query = add(iq, "query", MUC_OWNER)
        query.append(make("x", "jabber:x:data", type_="submit"))
        self.session.say(iq)

    async def enter_all(self) -> None:
        """Join all rooms; refusals are recorded in `Room.refusal`. Raises Offline."""
        await asyncio.gather(*(self.enter(room) for room in self.rooms.values()))

    async def enter(self, room: Room) -> bool:
        """Join a room. Returns whether we are in; if not, `room.refusal` says why. Raises Offline."""
        async with self._one_at_a_time[room.jid]:
            if room.inside():
                return True
            await self.learn(room)
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._entering[room.jid] = done
            try:
                self.session.say(room.joining())
                await asyncio.wait({done}, timeout=self.session.settings.timeout)
            finally:
                del self._entering[room.jid]
            if not room.inside():
                room.refusal = room.refusal if done.done() else f"{room.jid} did not answer in time"
                log.warning("%s", room.refusal)
                return False
            if not room.archived:
                await self.learn(room)  # a room that was just created has features only now
                if self.session.settings.archive and not room.archived:
                    log.warning("%s keeps no archive: what is said there while we are away is not heard", room.jid)
            return True

    async def learn(self, room: Room) -> None:
        """Query the features and the title of a room (XEP-0045, 6.4). Raises Offline."""
        try:
            features, query = await self.session.features(room.jid)
        except Refused:
            return
        room.archived = {ARCHIVE, IDS} <= features
        room.open = "muc_nonanonymous" in features
        room.vouches = OCCUPANT in features
        identity = child(query, "identity", DISCO_INFO) if query is not None else None
        room.title = (identity.get("name", "") if identity is not None else "")[:200]

    async def check(self) -> list[str]:
        """Check our membership of every room, and rejoin where it was lost. Returns the rooms that answered.

        Raises Offline.
        """
        rooms = list(self.rooms.values())
        answered = await asyncio.gather(*(self._check(room) for room in rooms))
        return [room.jid for room, there in zip(rooms, answered, strict=True) if there]

    async def _check(self, room: Room) -> bool:
        if room.inside():
            still = await self._still_in(room)
            if still is not False:
                return bool(still)
            log.warning("%s forgot us: joining it again", room.jid)
            room.leave()
        return await self.enter(room)

    async def _still_in(self, room: Room) -> bool | None:
        """Whether we are still in the room (XEP-0410); None if the room's server does not answer."""
        iq = make("iq", CLIENT, type_="get", to=f"{room.jid}/{room.nick}")
        add(iq, "ping", PING)
        try:
            await self.session.ask(iq)
        except Refused as no:
            return None if no.condition in NOT_TOLD else no.condition in STILL_IN
        return True
