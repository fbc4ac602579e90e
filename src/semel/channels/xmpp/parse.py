"""Parse a message stanza into a note: a message, edit, deletion, reaction and so on. Pure: no clock, no connection.

The caller knows whether the stanza is live or archived, and its time. References to other messages stay unresolved;
`semel.channels.xmpp.incoming` looks them up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element

from semel.channels.xmpp import address
from semel.channels.xmpp.rooms import Occupant, Room
from semel.channels.xmpp.xml import (
    CLIENT,
    CORRECT,
    FALLBACK,
    FASTEN,
    IDS,
    MUC_USER,
    OOB,
    REACTIONS,
    REFERENCE,
    REPLY,
    RETRACT,
    RETRACT_0,
    child,
    error_of,
    every,
    said,
)
from semel.gateway.ports import Person

ENCRYPTED = {
    "eu.siacs.conversations.axolotl": "OMEMO",
    "urn:xmpp:omemo:1": "OMEMO",
    "urn:xmpp:omemo:2": "OMEMO",
    "jabber:x:encrypted": "OpenPGP",
    "urn:xmpp:openpgp:0": "OpenPGP",
}


@dataclass(frozen=True)
class Note:
    """A parsed message stanza. `ref` is the id of the message it refers to, as given by its sender."""

    kind: Literal["message", "edit", "delete", "reactions", "own", "bounce", "unreadable"]
    address: str
    source: str = ""  # full address of the sender
    sender: Person | None = None
    ids: tuple[str, ...] = ()  # ids given by the sender: origin-id, then the stanza's id
    text: str = ""
    ref: str = ""
    emojis: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    thread: str = ""
    group: bool = False
    mentioned: bool = False
    answers_us: bool = False
    why: str = ""


def read(message: Element, me: str, room: Room | None = None, live: Occupant | None = None) -> Note | None:
    """Parse a message to our account `me` (a bare address) or in a room; None if it has no content (a typing state).

    `live`: for a live message in a room, the occupant who has the sender's nick.
    """
    kind, source = message.get("type", "normal"), message.get("from", "")
    if kind == "headline":
        return None
    if kind == "error":
        return Note("bounce", address.bare(source), source, ids=_ids(message), why=_came_back(message))
    if (kind == "groupchat") != (room is not None):
        return None
    if room is not None:
        return _in_room(message, room, source, live)
    if address.bare(source) in (me, ""):
        return Note("own", address.bare(message.get("to", "")), source, ids=_ids(message))
    x = child(message, "x", MUC_USER)
    if x is not None:
        return _private(message, source) if child(x, "invite", MUC_USER) is None else None
    return _meaning(message, Note("message", address.bare(source), source, Person(address.bare(source)), _ids(message)))


def _came_back(message: Element) -> str:
    """Why a message bounced, for people."""
    _, condition, text = error_of(message)
    return f"{condition} ({text[:200]})" if text else condition


def _in_room(message: Element, room: Room, source: str, live: Occupant | None) -> Note | None:
    if not address.resource(source):
        return None  # the room itself: its subject, a notice
    who = room.author(message, live)
    if room.is_own(who):
        return Note("own", room.jid, source, ids=_ids(message), group=True)
    note = Note("message", room.jid, source, room.person(who), _ids(message), group=True)
    found = _meaning(message, note)
    if found is None or found.kind not in ("message", "edit"):
        return found
    text, named = _for_us(found.text, room.nick)
    named = named or _refers(message, room) or found.answers_us
    return _with(found, text=text, mentioned=named)


def _private(message: Element, source: str) -> Note | None:
    if not said(message, "body"):
        return None
    who = Person(source, address.resource(source))
    why = "a private message through a room: who wrote it has no lasting address; write to the account itself"
    return Note("unreadable", address.bare(source), source, who, _ids(message), why=why)


def _meaning(message: Element, note: Note) -> Note | None:
    """Classify an ordinary message. The order matters: retractions and reactions may carry a text for old clients."""
    hidden = _encryption(message)
    if hidden is not None:
        return _with(note, kind="unreadable", why=_unread(hidden)) if hidden else None
    retracted = _retracted(message)
    if retracted:
        return _with(note, kind="delete", ref=retracted)
    reactions = child(message, "reactions", REACTIONS)
    if reactions is not None:
        emojis = dict.fromkeys(filter(None, (each.text for each in every(reactions, "reaction", REACTIONS))))
        return _with(note, kind="reactions", ref=reactions.get("id", ""), emojis=tuple(emojis)[:20])
    return _written(message, note)


def _written(message: Element, note: Note) -> Note | None:
    replaced, reply = child(message, "replace", CORRECT), child(message, "reply", REPLY)
    links = tuple(dict.fromkeys(filter(None, (said(x, "url", OOB).strip() for x in every(message, "x", OOB)))))
    text = _without_quote(message) if reply is not None else said(message, "body")
    text = "" if text.strip() in links else text
    if not text.strip() and not links:
        return None
    note = _with(note, text=text, links=links, thread=said(message, "thread")[:200])
    if replaced is not None and replaced.get("id"):
        return _with(note, kind="edit", ref=replaced.get("id", ""))
    if reply is not None:
        return _with(note, ref=reply.get("id", ""))
    return note


def _with(note: Note, **changed: object) -> Note:
    return Note(**{**note.__dict__, **changed})


def _ids(message: Element) -> tuple[str, ...]:
    origin = child(message, "origin-id", IDS)
    both = (origin.get("id", "") if origin is not None else "", message.get("id", ""))
    return tuple(dict.fromkeys(filter(None, both)))


def _encryption(message: Element) -> str | None:
    """The encryption of a message; "" if it only carries keys, None if it is not encrypted."""
    for each in message:
        space, _, name = each.tag.removeprefix("{").partition("}")
        if space in ENCRYPTED and name in ("encrypted", "x", "openpgp"):
            keys_only = name == "encrypted" and child(each, "payload", space) is None
            return "" if keys_only and not said(message, "body") else ENCRYPTED[space]
    return None


def _unread(hidden: str) -> str:
    return f"it is encrypted with {hidden}, which this channel cannot read: switch that off for this conversation"


def _retracted(message: Element) -> str:
    """The id of the message that is retracted (XEP-0424, also in its form before version 0.4); "" if none is."""
    retract = child(message, "retract", RETRACT)
    if retract is not None:
        return retract.get("id", "")
    apply = child(message, "apply-to", FASTEN)
    return apply.get("id", "") if apply is not None and child(apply, "retract", RETRACT_0) is not None else ""


def _without_quote(message: Element) -> str:
    """The body of a reply without the quotation for clients that do not support replies (XEP-0461, 3)."""
    text = said(message, "body")
    for fallback in every(message, "fallback", FALLBACK):
        if fallback.get("for") != REPLY:
            continue
        part = child(fallback, "body", FALLBACK)
        start, end = (_number(part.get(name)) for name in ("start", "end")) if part is not None else (-1, -1)
        if 0 <= start <= end <= len(text) and (text[:start] + text[end:]).strip():
            return text[:start] + text[end:]
    return text


def _number(value: str | None) -> int:
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else -1


def _for_us(text: str, nick: str) -> tuple[str, bool]:
    """(the text without our name at its beginning or after a command, whether it mentions our name anywhere)."""
    name = re.escape(nick)
    command = re.match(rf"\s*(/\w+)@{name}(?!\w)", text, re.IGNORECASE)
    if command:
        return command[1] + text[command.end() :], True
    called = re.match(rf"\s*(?:@{name}[:,]?|{name}\s?[:,])(?=\s)\s*", text, re.IGNORECASE)
    if called and text[called.end() :].strip():
        return text[called.end() :], True
    return text, re.search(rf"(?<!\w){name}(?!\w)", text, re.IGNORECASE) is not None


def _refers(message: Element, room: Room) -> bool:
    """Whether it mentions us (XEP-0372), or replies to us (XEP-0461)."""
    own = {f"{room.jid}/{room.nick}"} | ({room.own.jid} if room.own and room.own.jid else set())
    uris = {each.get("uri", "").removeprefix("xmpp:") for each in _mentions(message)}
    reply = child(message, "reply", REPLY)
    return bool(uris & own) or (reply is not None and reply.get("to") == f"{room.jid}/{room.nick}")


def _mentions(message: Element) -> Iterator[Element]:
    return (each for each in every(message, "reference", REFERENCE) if each.get("type") == "mention")


__all__ = ["CLIENT", "ENCRYPTED", "Note", "read"]
