"""What a message holds besides its text: a file, and a description of anything else (a place, a contact)."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass
from typing import Any

from semel.text.json_types import Json, object_at, objects_in, text_at
from semel.text.wellformed import scrub

FILE_KINDS = ("image", "video", "audio", "document", "sticker")
UNSUPPORTED = "[a message of a kind that WhatsApp does not pass on]"
MAX_ITEMS = 50
"""Maximum number of contacts or ordered items of a message that are described."""


@dataclass(frozen=True)
class WhatsAppFile:
    """A file of a message. `sha256`: of its content, as Meta writes it (in base64 or hex); "" if it is not known.

    `size`: 0, because a message does not tell it. `is_voice`: it is a voice note.
    """

    id: str
    name: str
    mime: str
    sha256: str = ""
    size: int = 0
    is_voice: bool = False


def read_file_of(message: Json) -> WhatsAppFile | None:
    """Return the file of a message; None if it has none."""
    kind = text_at(message, "type") or ""
    content = object_at(message, kind) if kind in FILE_KINDS else {}
    if (id := text_at(content, "id")) is None:
        return None
    mime = (text_at(content, "mime_type") or "application/octet-stream").partition(";")[0].strip()
    is_voice = kind == "audio" and content.get("voice") is True
    name = text_at(content, "filename") or f"{'voice' if is_voice else kind}{mimetypes.guess_extension(mime) or ''}"
    return WhatsAppFile(id, scrub(name), mime, text_at(content, "sha256") or "", is_voice=is_voice)


def read_text(message: Json) -> str:
    """Return the text of a message, or a description of what it holds instead; "" of a file without a caption."""
    kind = text_at(message, "type") or "unsupported"
    if kind in FILE_KINDS:
        return scrub(text_at(message, kind, "caption") or "")
    describe = _DESCRIBERS.get(kind)
    text = describe(message) if describe is not None else f"[{kind.replace('_', ' ')}]"
    return scrub(text)


def _read_interactive(message: Json) -> str:
    """Return the title of a pressed button or a chosen row, or the answers of a form (a flow)."""
    reply = object_at(message, "interactive")
    kind = text_at(reply, "type") or ""
    title = text_at(reply, kind, "title") or text_at(reply, kind, "response_json")
    return title or f"[{kind.replace('_', ' ') or 'interactive'}]"


def _describe_location(message: Json) -> str:
    place = object_at(message, "location")
    words = [text_at(place, "name"), text_at(place, "address"), f"{place.get('latitude')}, {place.get('longitude')}"]
    return f"[location: {', '.join(word for word in words if word)}]"


def _describe_contacts(message: Json) -> str:
    return "\n".join(_describe_contact(contact) for contact in objects_in(message.get("contacts"))[:MAX_ITEMS])


def _describe_contact(contact: Json) -> str:
    words: list[Any] = [text_at(contact, "name", "formatted_name") or ""]
    words += [text_at(phone, "phone") for phone in objects_in(contact.get("phones"))]
    words += [text_at(email, "email") for email in objects_in(contact.get("emails"))]
    return f"[contact: {', '.join(str(word) for word in words if word)}]"


def _describe_order(message: Json) -> str:
    order = object_at(message, "order")
    items = [
        f"- {item.get('quantity')} × {item.get('product_retailer_id')}, {item.get('item_price')} {item.get('currency')}"
        for item in objects_in(order.get("product_items"))[:MAX_ITEMS]
    ]
    return "\n".join(["[order]", *items, text_at(order, "text") or ""]).rstrip()


def _describe_unsupported(message: Json) -> str:
    error = next(iter(objects_in(message.get("errors"))), {})
    details = text_at(error, "error_data", "details") or text_at(error, "title")
    return UNSUPPORTED if not details else f"{UNSUPPORTED[:-1]}: {details}]"


_DESCRIBERS: dict[str, Any] = {
    "text": lambda message: text_at(message, "text", "body") or "",
    "button": lambda message: text_at(message, "button", "text") or text_at(message, "button", "payload") or "[button]",
    "interactive": _read_interactive,
    "location": _describe_location,
    "contacts": _describe_contacts,
    "order": _describe_order,
    "unsupported": _describe_unsupported,
}
