"""Small helpers for ElementTree, and cleaning of text for XML."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from semel.channels.xmpp import ns

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: str) -> str:
    """Replace characters that XML 1.0 does not allow (control characters, surrogates) with U+FFFD.

    Line endings become line feeds, as an XML parser would make them anyway.
    """
    return _NOT_XML.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def make_element(tag: str, space: str, text: str | None = None, **attributes: str) -> Element:
    """Make `<tag xmlns=space ...>text</tag>`. A trailing underscore of an attribute name is dropped (`type_`)."""
    element = Element(f"{{{space}}}{tag}", {name.rstrip("_"): clean(value) for name, value in attributes.items()})
    element.text = clean(text) if text is not None else None
    return element


def add_child(parent: Element, tag: str, space: str, text: str | None = None, **attributes: str) -> Element:
    """Make an element like `make_element`, and append it to `parent`."""
    element = make_element(tag, space, text, **attributes)
    parent.append(element)
    return element


def find_child(parent: Element | None, tag: str, space: str) -> Element | None:
    """Return the first child with this tag and namespace; None if there is none, or no parent."""
    return parent.find(f"{{{space}}}{tag}") if parent is not None else None


def children(parent: Element | None, tag: str, space: str) -> list[Element]:
    return parent.findall(f"{{{space}}}{tag}") if parent is not None else []


def child_text(parent: Element | None, tag: str, space: str = ns.CLIENT) -> str:
    """Return the text of the first child with this tag and namespace; "" if there is none."""
    return (parent.findtext(f"{{{space}}}{tag}") or "") if parent is not None else ""


def child_attribute(parent: Element | None, tag: str, space: str, name: str) -> str:
    """Return an attribute of the first child with this tag and namespace; "" if there is none."""
    child = find_child(parent, tag, space)
    return child.get(name, "") if child is not None else ""


def submit_form(kind: str, fields: dict[str, str]) -> Element:
    """Make a submitted data form (XEP-0004) with FORM_TYPE `kind`."""
    x = make_element("x", ns.FORM, type_="submit")
    for name, value in {"FORM_TYPE": kind, **fields}.items():
        field = add_child(x, "field", ns.FORM, var=name, **({"type_": "hidden"} if name == "FORM_TYPE" else {}))
        add_child(field, "value", ns.FORM, value)
    return x


def error_of(stanza: Element) -> tuple[str, str, str]:
    """Return (type, condition, text) of an error stanza, such as ("cancel", "item-not-found", "...")."""
    error = find_child(stanza, "error", ns.CLIENT)
    if error is None:
        return "cancel", "undefined-condition", ""
    names = (each.tag.partition("}")[2] for each in error if each.tag.startswith(f"{{{ns.STANZA_ERRORS}}}"))
    condition = next((name for name in names if name != "text"), "undefined-condition")
    return error.get("type", "cancel"), condition, child_text(error, "text", ns.STANZA_ERRORS)
