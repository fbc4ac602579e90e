"""XMPP: XML of a stream -> stanzas -> notes -> rows.

Whatever a stanza holds, the line does not stop at it: it says nothing, or it is a row; what cannot be read is kept as
it came; presences and answers are taken however odd; only who was asked may answer.
"""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser, fromstring, tostring

from proof.fuzz.house import House
from proof.fuzz.source import WORDS, Source
from semel.channels.xmpp import ns
from semel.channels.xmpp.archive import ArchiveCursor, _parse_page, parse_time
from semel.channels.xmpp.incoming import StanzaTranslator
from semel.channels.xmpp.receive import XmppReceiver
from semel.channels.xmpp.references import MessageIds, MessageLookup
from semel.channels.xmpp.rooms import Occupant, XmppRoom
from semel.channels.xmpp.session import XmppSession
from semel.channels.xmpp.settings import XmppSettings

ROOM = "garden@conference.x.y"
TAGS = [
    "message", "body", "subject", "thread", "delay", "x", "item", "status", "occupant-id", "stanza-id", "origin-id",
    "replace", "reply", "fallback", "retract", "apply-to", "reactions", "reaction", "reference", "url", "encrypted",
    "payload", "error", "text", "item-not-found", "result", "forwarded", "received", "sent", "request", "no-store",
    "invite", "presence", "iq", "fin", "set", "first", "last", "query",
]  # fmt: skip
SPACES = [
    "jabber:client", "jabber:x:oob", "urn:xmpp:sid:0", "urn:xmpp:message-correct:0", "urn:xmpp:reply:0",
    "urn:xmpp:fallback:0", "urn:xmpp:message-retract:1", "urn:xmpp:message-retract:0", "urn:xmpp:fasten:0",
    "urn:xmpp:reactions:0", "urn:xmpp:reference:0", "http://jabber.org/protocol/muc#user", "urn:xmpp:occupant-id:0",
    "urn:xmpp:delay", "urn:xmpp:mam:2", "urn:xmpp:forward:0", "urn:xmpp:carbons:2", "urn:xmpp:receipts",
    "eu.siacs.conversations.axolotl", "urn:ietf:params:xml:ns:xmpp-stanzas", "http://jabber.org/protocol/rsm",
    "urn:xmpp:hints", "",
]  # fmt: skip
NAMES = [
    "from", "to", "id", "type", "by", "for", "start", "end", "uri", "stamp", "jid", "nick", "code", "queryid",
    "complete", "affiliation",
]  # fmt: skip
VALUES = [
    "", "chat", "groupchat", "error", "headline", "unavailable", "bot@x.y", "bot@x.y/semel", "ann@x.y/phone", ROOM,
    f"{ROOM}/ann", f"{ROOM}/bot", "x.y", "m1", "m2", "urn:xmpp:reply:0", "0", "5", "9" * 20, "-1", "110", "303",
    "mention", "xmpp:" + ROOM + "/bot", "2026-11-22T10:00:00Z", "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00", "true", "none", "👍", "x" * 700, "\u0085",
]  # fmt: skip
STANZAS = [
    b"<message xmlns='jabber:client' from='ann@x.y/phone' to='bot@x.y' type='chat' id='m1'><body>hello</body>"
    b"<origin-id xmlns='urn:xmpp:sid:0' id='o1'/><stanza-id xmlns='urn:xmpp:sid:0' by='bot@x.y' id='s1'/></message>",
    b"<message xmlns='jabber:client' from='garden@conference.x.y/ann' type='groupchat' id='m2'><body>bot: go</body>"
    b"<reply xmlns='urn:xmpp:reply:0' to='garden@conference.x.y/bot' id='r'/><fallback xmlns='urn:xmpp:fallback:0' "
    b"for='urn:xmpp:reply:0'><body start='0' end='4'/></fallback></message>",
    b"<message xmlns='jabber:client' from='ann@x.y/phone' type='chat' id='m3'><reactions "
    b"xmlns='urn:xmpp:reactions:0' id='m1'><reaction>x</reaction></reactions>"
    b"<replace xmlns='urn:xmpp:message-correct:0' id='m1'/></message>",
    b"<message xmlns='jabber:client' from='bot@x.y' to='bot@x.y/semel'><received xmlns='urn:xmpp:carbons:2'><forwarded "
    b"xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' from='bot@x.y/other' to='ann@x.y' id='q'>"
    b"<body>mine</body></message></forwarded></received></message>",
    b"<message xmlns='jabber:client' from='ann@x.y' type='error' id='k1'><error type='cancel'><item-not-found "
    b"xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
    b"<presence xmlns='jabber:client' from='garden@conference.x.y/bot'><x xmlns='http://jabber.org/protocol/muc#user'>"
    b"<item jid='bot@x.y/semel'/><status code='110'/></x></presence>",
    b"<message xmlns='jabber:client' from='ann@x.y' id='e'><encrypted xmlns='eu.siacs.conversations.axolotl'><payload/>"
    b"</encrypted><body>sealed</body></message>",
    b"<message xmlns='jabber:client' from='ann@x.y' id='u'><x xmlns='jabber:x:oob'><url>https://x.y/a.png</url></x>"
    b"<body>https://x.y/a.png</body><delay xmlns='urn:xmpp:delay' stamp='2026-11-22T10:00:00Z'/></message>",
]  # fmt: skip
_house = House()
_settings = XmppSettings("bot@x.y", "secret", rooms=[ROOM], archive=False)


def one(data: bytes) -> None:
    source = Source(data)
    stanzas = _stanzas(source)
    if not stanzas:
        return
    inbox = _house.fresh()
    _house.run(_hear(stanzas, source, inbox))
    for what in _house.check():
        assert what.kind != "unreadable" or (what.why and what.raw)
    text = str(ArchiveCursor())
    assert str(ArchiveCursor.of(text)) == text
    assert parse_time(source.pick(VALUES)) >= -1e12


def _stanzas(source: Source) -> list[Element]:
    """Out of bytes as a server sends them, or put together."""
    how = source.number(4)
    if how == 3:
        parser = XMLPullParser(("end",))
        try:
            parser.feed(b"<stream:stream xmlns='jabber:client' xmlns:stream='s'>" + source.rest())
            return [
                each
                for _, each in parser.read_events()
                if each.tag in (f"{{{ns.CLIENT}}}message", f"{{{ns.CLIENT}}}presence")
            ][:20]  # type: ignore[union-attr]
        except ParseError:
            return []
    made = []
    for _ in range(1 + source.number(4)):
        stanza = fromstring(source.pick(STANZAS))
        for _ in range(source.number(6)):
            _change(stanza, source)
        made.append(stanza)
    return made


def _change(stanza: Element, source: Source) -> None:
    places = list(stanza.iter())
    at = places[source.number(len(places))]
    how = source.number(5)
    if how == 0:
        at.set(source.pick(NAMES), source.pick(VALUES))
    elif how == 1:
        at.text = _xml(source.words(5))
    elif how == 2 and len(at):
        at.remove(at[source.number(len(at))])
    else:
        child = Element(f"{{{source.pick(SPACES)}}}{source.pick(TAGS)}")
        child.set(source.pick(NAMES), source.pick(VALUES))
        child.text = _xml(source.pick([*VALUES, *WORDS]))
        at.append(child)


def _xml(text: str) -> str:
    """What XML can carry."""
    return "".join(
        c for c in text if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")
    )


class _Stream:
    """Says nothing."""

    def say(self, stanza: Element) -> None:
        tostring(stanza)

    def lose(self, why: Any) -> None: ...


class _Membership:
    def __init__(self, room: XmppRoom) -> None:
        self.rooms = {room.jid: room}

    def on_presence(self, presence: Element) -> bool:
        room = self.rooms.get(presence.get("from", "").partition("/")[0])
        if room is not None:
            room.apply_presence(presence)
        return room is not None


async def _hear(stanzas: list[Element], source: Source, inbox: Any) -> None:
    session = XmppSession(_settings, "semel")
    stream: Any = _Stream()
    session._stream = stream
    room = XmppRoom(
        ROOM,
        "bot",
        own=Occupant("bot", "bot@x.y", "o1"),
        non_anonymous=bool(source.number(2)),
        has_occupant_ids=bool(source.number(2)),
    )
    translator = StanzaTranslator(inbox, MessageLookup(session, MessageIds(), {ROOM: room}))
    membership: Any = _Membership(room)
    receiver = XmppReceiver(session, membership, inbox, translator, lambda: 1_790_000_000.0)
    for stanza in stanzas:
        session._dispatch(stanza)
        _parse_page(stanza, ())
    while receiver._waiting:
        batch = list(receiver._waiting)
        receiver._waiting.clear()
        translator.deadline = 0.0  # no time for files
        for live in batch:
            await receiver._put_unarchived(live)


SEEDS = [
    *(bytes([0, 0, n, 0, 0, 0]) for n in range(len(STANZAS))),
    *(bytes([0, 2, n, 5, k, 0, 1, 2, k + 1, 1, 3, 4, 5, k + 2, 4, 6, 7, 8, 9, 1, 0, k])
      for n in range(8) for k in (0, 1, 2)),
    b"\x03" + b"".join(STANZAS), b"\x03<message><body>&#0;</body>",
    b"\x03<!DOCTYPE x [<!ENTITY a 'b'>]><message>&a;</message>",
]  # fmt: skip
