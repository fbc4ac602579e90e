"""The state of a room (XEP-0045): its occupants, our own place among them, and the real addresses behind nicks.

The author of a message in a room is identified by its real address, taken from the best of these sources:
1. the occupant-id (XEP-0421), which the room guarantees: the address in the presence with the same occupant-id;
2. the presence under the sender's nick at the moment a live message arrived;
3. for an archived message of a room where everybody sees real addresses, the address that the archive adds.
If the real address is hidden from us, the author is `room/occupant-id`, else `room/nick`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from semel.channels.xmpp import address
from semel.channels.xmpp.xml import MUC, MUC_USER, OCCUPANT, add, child, every, make
from semel.gateway.ports import Person


@dataclass(frozen=True)
class Occupant:
    """An occupant of a room. `jid`: the bare real address, "" if it is hidden. `id`: the occupant-id, or ""."""

    nick: str
    jid: str = ""
    id: str = ""


@dataclass
class Room:
    """One room and its present occupants. `own` is our own occupant, None while we are not in the room."""

    jid: str
    wanted: str  # the nick we want
    password: str | None = field(default=None, repr=False)
    own: Occupant | None = None
    present: dict[str, Occupant] = field(default_factory=dict)
    by_id: dict[str, Occupant] = field(default_factory=dict)  # everybody seen since we joined, by occupant-id
    archived: bool = False
    open: bool = False  # non-anonymous: everybody sees real addresses
    vouches: bool = False  # the room adds occupant-ids
    title: str = ""
    refusal: str = ""  # why it does not let us in
    definite: bool = False  # the refusal is permanent

    def __repr__(self) -> str:
        return f"<Room {self.jid}, {len(self.present)} present, {'in' if self.own else self.refusal or 'out'}>"

    def inside(self) -> bool:
        """Whether we are in it."""
        return self.own is not None

    @property
    def nick(self) -> str:
        return self.own.nick if self.own else self.wanted

    def leave(self) -> None:
        """Reset the state after we left the room, were removed, or lost the connection."""
        self.own = None
        self.present.clear()
        self.by_id.clear()

    def joining(self) -> Element:
        """The presence that joins the room. It requests no history, because the archive has it."""
        presence = make("presence", "jabber:client", to=f"{self.jid}/{self.wanted}")
        x = add(presence, "x", MUC)
        add(x, "history", MUC, maxstanzas="0")
        if self.password:
            add(x, "password", MUC, self.password)
        return presence

    def hear(self, presence: Element) -> frozenset[str]:
        """Apply a presence from this room. Returns its status codes ("110" marks our own presence)."""
        nick = address.resource(presence.get("from", ""))
        x = child(presence, "x", MUC_USER)
        item = child(x, "item", MUC_USER) if x is not None else None
        codes = (
            frozenset(each.get("code", "") for each in every(x, "status", MUC_USER)) if x is not None else frozenset()
        )
        given = child(presence, "occupant-id", OCCUPANT)
        who = Occupant(
            nick,
            address.bare(item.get("jid", "")) if item is not None else "",
            given.get("id", "") if given is not None and self.vouches else "",
        )
        if presence.get("type") == "unavailable":
            self._gone(nick, codes, item.get("nick", "") if item is not None else "")
        elif presence.get("type") is None and nick:
            self.present[nick] = who
            if who.id:
                self.by_id[who.id] = who
            if "110" in codes:
                self.own, self.refusal = who, ""
        return codes

    def _gone(self, nick: str, codes: frozenset[str], new: str) -> None:
        who = self.present.pop(nick, None)
        if "110" not in codes and (self.own is None or nick != self.own.nick):
            return
        if "303" in codes and new and who is not None:  # renamed: still there
            self.own = Occupant(new, who.jid, who.id)
            return
        self.leave()

    def author(self, message: Element, live: Occupant | None) -> Occupant:
        """The author of a message. `live`: the occupant with the sender's nick when it arrived; None if archived."""
        nick = address.resource(message.get("from", ""))
        given = child(message, "occupant-id", OCCUPANT)
        id = given.get("id", "") if given is not None and self.vouches else ""
        jid = self.by_id[id].jid if id in self.by_id else ""
        if not jid and live is not None and live.id == id:
            jid = live.jid
        return Occupant(nick, jid or self._kept(message, live), id)

    def _kept(self, message: Element, live: Occupant | None) -> str:
        """The address that the archive of a non-anonymous room adds at the end of a message; "" if there is none.

        In a live message such an element is ignored: it was written by the sender.
        """
        if not self.open or live is not None:
            return ""
        items = [child(x, "item", MUC_USER) for x in every(message, "x", MUC_USER)]
        return address.bare(items[-1].get("jid", "")) if items and items[-1] is not None else ""

    def is_own(self, who: Occupant) -> bool:
        """Whether the occupant is us: by occupant-id or real address if both have one, else by nick."""
        if self.own is None:
            return False
        if who.id and self.own.id:
            return who.id == self.own.id
        if who.jid and self.own.jid:
            return who.jid == self.own.jid
        return who.nick == self.own.nick

    def person(self, who: Occupant) -> Person:
        """An occupant as a `Person` for the inbox."""
        return Person(who.jid or f"{self.jid}/{who.id or who.nick}", who.nick)
