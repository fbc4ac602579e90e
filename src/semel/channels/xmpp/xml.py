"""XML namespaces, small helpers for ElementTree, and cleaning of text for XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

CLIENT = "jabber:client"
STANZAS = "urn:ietf:params:xml:ns:xmpp-stanzas"
ARCHIVE = "urn:xmpp:mam:2"  # XEP-0313
CARBONS = "urn:xmpp:carbons:2"  # XEP-0280
CORRECT = "urn:xmpp:message-correct:0"  # XEP-0308
DELAY = "urn:xmpp:delay"  # XEP-0203
DISCO_INFO = "http://jabber.org/protocol/disco#info"  # XEP-0030
DISCO_ITEMS = "http://jabber.org/protocol/disco#items"
FALLBACK = "urn:xmpp:fallback:0"  # XEP-0428
FASTEN = "urn:xmpp:fasten:0"  # XEP-0422, of XEP-0424 before version 0.4
FORM = "jabber:x:data"  # XEP-0004
FORWARD = "urn:xmpp:forward:0"  # XEP-0297
HINTS = "urn:xmpp:hints"  # XEP-0334
IDS = "urn:xmpp:sid:0"  # XEP-0359
MUC = "http://jabber.org/protocol/muc"  # XEP-0045
MUC_OWNER = MUC + "#owner"
MUC_USER = MUC + "#user"
OCCUPANT = "urn:xmpp:occupant-id:0"  # XEP-0421
OOB = "jabber:x:oob"  # XEP-0066
PING = "urn:xmpp:ping"  # XEP-0199
REACTIONS = "urn:xmpp:reactions:0"  # XEP-0444
RECEIPTS = "urn:xmpp:receipts"  # XEP-0184
REFERENCE = "urn:xmpp:reference:0"  # XEP-0372
REPLY = "urn:xmpp:reply:0"  # XEP-0461
RETRACT = "urn:xmpp:message-retract:1"  # XEP-0424
RETRACT_0 = "urn:xmpp:message-retract:0"
ROSTER = "jabber:iq:roster"  # RFC 6121, 2
RSM = "http://jabber.org/protocol/rsm"  # XEP-0059
STATES = "http://jabber.org/protocol/chatstates"  # XEP-0085
UPLOAD = "urn:xmpp:http:upload:0"  # XEP-0363

MESSAGE = f"{{{CLIENT}}}message"
PRESENCE = f"{{{CLIENT}}}presence"
IQ = f"{{{CLIENT}}}iq"

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: str) -> str:
    """Replace characters that XML 1.0 does not allow (control characters, surrogates) with U+FFFD.

    Line endings become line feeds, as an XML parser would make them anyway.
    """
    return _NOT_XML.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def make(tag: str, space: str, text: str | None = None, **attributes: str) -> Element:
    """Make `<tag xmlns=space ...>text</tag>`. A trailing underscore of an attribute name is dropped (`type_`)."""
    element = Element(f"{{{space}}}{tag}", {name.rstrip("_"): clean(value) for name, value in attributes.items()})
    element.text = clean(text) if text is not None else None
    return element


def add(parent: Element, tag: str, space: str, text: str | None = None, **attributes: str) -> Element:
    """Make an element like `make`, and append it to `parent`."""
    element = make(tag, space, text, **attributes)
    parent.append(element)
    return element


def child(parent: Element, tag: str, space: str) -> Element | None:
    return parent.find(f"{{{space}}}{tag}")


def every(parent: Element, tag: str, space: str) -> Iterator[Element]:
    return iter(parent.findall(f"{{{space}}}{tag}"))


def said(parent: Element, tag: str, space: str = CLIENT) -> str:
    """The text of a child element; "" if there is none."""
    return parent.findtext(f"{{{space}}}{tag}") or ""


def form(kind: str, fields: dict[str, str]) -> Element:
    """A submitted data form (XEP-0004) with FORM_TYPE `kind`."""
    x = make("x", FORM, type_="submit")
    for name, value in {"FORM_TYPE": kind, **fields}.items():
        field = add(x, "field", FORM, var=name, **({"type_": "hidden"} if name == "FORM_TYPE" else {}))
        add(field, "value", FORM, value)
    return x


def error_of(stanza: Element) -> tuple[str, str, str]:
    """(type, condition, text) of an error stanza: ("cancel", "item-not-found", "...")."""
    error = child(stanza, "error", CLIENT)
    if error is None:
        return "cancel", "undefined-condition", ""
    found = (each.tag.partition("}")[2] for each in error if each.tag.startswith(f"{{{STANZAS}}}"))
    condition = next((name for name in found if name != "text"), "undefined-condition")
    return error.get("type", "cancel"), condition, said(error, "text", STANZAS)
