"""Parse a message stanza into a note: a message, edit, deletion, reaction and so on. Pure: no clock, no connection.

References to other messages stay unresolved: `semel.channels.xmpp.incoming` looks them up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal
from xml.etree.ElementTree import Element

from semel.channels.xmpp import address, ns
from semel.channels.xmpp.rooms import Occupant, XmppRoom
from semel.channels.xmpp.xml import child_attribute, child_text, children, error_of, find_child
from semel.gateway.ports import Person

ENCRYPTED = {
    "eu.siacs.conversations.axolotl": "OMEMO",
    "urn:xmpp:omemo:1": "OMEMO",
    "urn:xmpp:omemo:2": "OMEMO",
    "jabber:x:encrypted": "OpenPGP",
    "urn:xmpp:openpgp:0": "OpenPGP",
}


@dataclass(frozen=True)
class ParsedStanza:
    """A parsed message stanza. Variables call it a *note*.

    - `kind`: "own" is a message that we sent, perhaps with another client; "bounce" is an error about one of ours.
    - `address`: the bare address of the conversation: the other account, or the room.
    - `ref`: the id, as the stanza gives it, of the message that it edits, deletes, reacts or replies to; "" if none.
    - `links`: the addresses of files that it links to.
    - `why`: the reason of a bounce, or why the stanza is unreadable.
    """

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
    why: str = ""


def parse_message(
    message: Element, me: str, room: XmppRoom | None = None, live: Occupant | None = None
) -> ParsedStanza | None:
    """Parse a message to our account `me` (a bare address) or in a room; None if it is to be ignored.

    `live`: for a live message in a room, the occupant who has the sender's nick.
    """
    kind, source = message.get("type", "normal"), message.get("from", "")
    if kind == "headline":
        return None
    if kind == "error":
        return ParsedStanza("bounce", address.bare_jid(source), source, ids=_ids(message), why=bounce_reason(message))
    if (kind == "groupchat") != (room is not None):
        return None
    if room is not None:
        return _parse_in_room(message, room, source, live)
    if address.bare_jid(source) in (me, ""):
        return ParsedStanza("own", address.bare_jid(message.get("to", "")), source, ids=_ids(message))
    x = find_child(message, "x", ns.MUC_USER)
    if x is not None:
        return _private_message(message, source) if find_child(x, "invite", ns.MUC_USER) is None else None
    return _classify(
        message,
        ParsedStanza("message", address.bare_jid(source), source, Person(address.bare_jid(source)), _ids(message)),
    )


def bounce_reason(message: Element) -> str:
    """Describe why a message bounced, for people."""
    _, condition, text = error_of(message)
    return f"{condition} ({text[:200]})" if text else condition


def _parse_in_room(message: Element, room: XmppRoom, source: str, live: Occupant | None) -> ParsedStanza | None:
    if not address.resource(source):
        return None  # the room itself: its subject, a notice
    author = room.author(message, live)
    if room.is_own(author):
        return ParsedStanza("own", room.jid, source, ids=_ids(message), group=True)
    note = ParsedStanza("message", room.jid, source, room.person(author), _ids(message), group=True)
    parsed = _classify(message, note)
    if parsed is None or parsed.kind not in ("message", "edit"):
        return parsed
    text, named = _without_name(parsed.text, room.nick)
    return replace(parsed, text=text, mentioned=named or _refers_to_us(message, room))


def _private_message(message: Element, source: str) -> ParsedStanza | None:
    if not child_text(message, "body"):
        return None
    sender = Person(source, address.resource(source))
    why = "a private message through a room: who wrote it has no lasting address; write to the account itself"
    return ParsedStanza("unreadable", address.bare_jid(source), source, sender, _ids(message), why=why)


def _classify(message: Element, note: ParsedStanza) -> ParsedStanza | None:
    """Classify an ordinary message. The order matters: retractions and reactions may carry a text for old clients."""
    encryption = _encryption(message)
    if encryption is not None:
        why = (
            f"it is encrypted with {encryption}, which this channel cannot read: switch that off for this conversation"
        )
        return replace(note, kind="unreadable", why=why) if encryption else None
    retracted = _retracted(message)
    if retracted:
        return replace(note, kind="delete", ref=retracted)
    reactions = find_child(message, "reactions", ns.REACTIONS)
    if reactions is not None:
        emojis = dict.fromkeys(filter(None, (each.text for each in children(reactions, "reaction", ns.REACTIONS))))
        return replace(note, kind="reactions", ref=reactions.get("id", ""), emojis=tuple(emojis)[:20])
    return _classify_text(message, note)


def _classify_text(message: Element, note: ParsedStanza) -> ParsedStanza | None:
    reply = find_child(message, "reply", ns.REPLY)
    links = tuple(
        dict.fromkeys(filter(None, (child_text(x, "url", ns.OOB).strip() for x in children(message, "x", ns.OOB))))
    )
    text = _without_quote(message) if reply is not None else child_text(message, "body")
    text = "" if text.strip() in links else text
    if not text.strip() and not links:
        return None
    note = replace(note, text=text, links=links, thread=child_text(message, "thread")[:200])
    if corrected := child_attribute(message, "replace", ns.CORRECT, "id"):
        return replace(note, kind="edit", ref=corrected)
    return replace(note, ref=reply.get("id", "")) if reply is not None else note


def _ids(message: Element) -> tuple[str, ...]:
    """Return the ids that the sender gave to a message, without repeats."""
    ids = (child_attribute(message, "origin-id", ns.IDS, "id"), message.get("id", ""))
    return tuple(dict.fromkeys(filter(None, ids)))


def _encryption(message: Element) -> str | None:
    """Return the name of a message's encryption; "" if it only carries keys, None if it is not encrypted."""
    for each in message:
        space, _, name = each.tag.removeprefix("{").partition("}")
        if space in ENCRYPTED and name in ("encrypted", "x", "openpgp"):
            keys_only = name == "encrypted" and find_child(each, "payload", space) is None
            return "" if keys_only and not child_text(message, "body") else ENCRYPTED[space]
    return None


def _retracted(message: Element) -> str:
    """Return the id of the message that is retracted (XEP-0424, also in its form before version 0.4); "" if none is."""
    retract = find_child(message, "retract", ns.RETRACT)
    if retract is not None:
        return retract.get("id", "")
    if find_child(find_child(message, "apply-to", ns.FASTEN), "retract", ns.RETRACT_0) is None:
        return ""
    return child_attribute(message, "apply-to", ns.FASTEN, "id")


def _without_quote(message: Element) -> str:
    """Return the body of a reply without the quotation for clients that do not support replies (XEP-0461, 3)."""
    text = child_text(message, "body")
    for fallback in children(message, "fallback", ns.FALLBACK):
        if fallback.get("for") != ns.REPLY:
            continue
        start, end = (_number(child_attribute(fallback, "body", ns.FALLBACK, name)) for name in ("start", "end"))
        if 0 <= start <= end <= len(text) and (text[:start] + text[end:]).strip():
            return text[:start] + text[end:]
    return text


def _number(value: str) -> int:
    """Parse a number of at most nine digits. Returns -1 for anything else."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1


def _without_name(text: str, nick: str) -> tuple[str, bool]:
    """Remove our name at the beginning of a text or after a command. Returns (text, whether it contains our name)."""
    name = re.escape(nick)
    command = re.match(rf"\s*(/\w+)@{name}(?!\w)", text, re.IGNORECASE)
    if command:
        return command[1] + text[command.end() :], True
    called = re.match(rf"\s*(?:@{name}[:,]?|{name}\s?[:,])(?=\s)\s*", text, re.IGNORECASE)
    if called and text[called.end() :].strip():
        return text[called.end() :], True
    return text, re.search(rf"(?<!\w){name}(?!\w)", text, re.IGNORECASE) is not None


def _refers_to_us(message: Element, room: XmppRoom) -> bool:
    """Whether a room's message mentions us (XEP-0372), or replies to us (XEP-0461)."""
    own_address = f"{room.jid}/{room.nick}"
    own = {own_address} | ({room.own.jid} if room.own and room.own.jid else set())
    references = children(message, "reference", ns.REFERENCE)
    mentioned = {each.get("uri", "").removeprefix("xmpp:") for each in references if each.get("type") == "mention"}
    return bool(mentioned & own) or child_attribute(message, "reply", ns.REPLY, "to") == own_address
