"""Build outgoing stanzas. Pure: the caller provides all ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from semel.channels.words import REPEAT_PREFIX
from semel.channels.xmpp.render import styled
from semel.channels.xmpp.xml import (
    CLIENT,
    CORRECT,
    FALLBACK,
    HINTS,
    IDS,
    OOB,
    REACTIONS,
    REPLY,
    RETRACT,
    STATES,
    add,
    clean,
    make,
)
from semel.gateway.ports import Op

MOST = 120_000
"""Maximum bytes of a body. The whole stanza stays below the smallest usual limit of servers, 256 KiB."""
RETRACTED = "/me took a message back that your client still shows."


@dataclass(frozen=True)
class Refs:
    """The references of an op to other messages, in the ids that clients use."""

    target: str = ""  # id of the message that is edited, reacted to or retracted
    emojis: tuple[str, ...] = ()  # all our reactions to it, the new one among them
    reply_id: str = ""
    reply_to: str = ""  # full address of that message's author
    thread: str = ""
    url: str = field(default="")  # URL of the uploaded file


def message(op: Op, group: bool, refs: Refs) -> Element:
    """The stanza of an op. Its id and its origin-id are `op.key`, on every attempt."""
    stanza = make("message", CLIENT, to=op.address, type_="groupchat" if group else "chat", id=op.key)
    match op.kind:
        case "post":
            _text(stanza, styled(clean(op.text), MOST), op, refs)
        case "edit":
            _text(stanza, styled(clean(op.text), MOST), op, refs)
            add(stanza, "replace", CORRECT, id=refs.target)
        case "file":
            body = "\n".join(filter(None, (styled(clean(op.text), MOST) if op.text.strip() else "", refs.url)))
            _text(stanza, body, op, refs)
            x = add(stanza, "x", OOB)
            add(x, "url", OOB, refs.url)
        case "react":
            reactions = add(stanza, "reactions", REACTIONS, id=refs.target)
            for emoji in refs.emojis:
                add(reactions, "reaction", REACTIONS, emoji)
        case "delete":
            add(stanza, "retract", RETRACT, id=refs.target)
            add(stanza, "fallback", FALLBACK, for_=RETRACT)
            add(stanza, "body", CLIENT, RETRACTED)
    add(stanza, "origin-id", IDS, id=op.key)
    add(stanza, "store", HINTS)
    return stanza


def _text(stanza: Element, body: str, op: Op, refs: Refs) -> None:
    add(stanza, "body", CLIENT, (REPEAT_PREFIX if op.marked else "") + body)
    if refs.thread:
        add(stanza, "thread", CLIENT, refs.thread)
    if refs.reply_id:
        add(stanza, "reply", REPLY, id=refs.reply_id, **({"to": refs.reply_to} if refs.reply_to else {}))
    add(stanza, "active", STATES)


def typing(address: str, group: bool) -> Element:
    """The stanza for the typing state (XEP-0085), which is not stored anywhere."""
    stanza = make("message", CLIENT, to=address, type_="groupchat" if group else "chat")
    add(stanza, "composing", STATES)
    add(stanza, "no-store", HINTS)
    return stanza
