"""Check a message that is sent, as Meta does. Raises GraphError.

https://developers.facebook.com/documentation/business-messaging/whatsapp/messages, a page for each type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from semel.testing.whatsapp.model import GraphError, StoredMedia, bad_value, invalid, text_of
from semel.text.json_types import Json, list_at, object_at, objects_in

if TYPE_CHECKING:
    from semel.testing.whatsapp.double import WhatsAppDouble

MEDIA_TYPES = {
    "audio": (16_000_000, ("audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg")),
    "image": (5_000_000, ("image/jpeg", "image/png")),
    "video": (16_000_000, ("video/mp4", "video/3gpp")),
    "sticker": (500_000, ("image/webp",)),
    "document": (
        100_000_000,
        (
            "text/plain", "application/pdf", "application/msword", "application/vnd.ms-excel",
            "application/vnd.ms-powerpoint",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        ),
    ),
}  # fmt: skip
"""Kind of media -> the most bytes, and the types
(https://developers.facebook.com/documentation/business-messaging/whatsapp/business-phone-numbers/media)."""
GROUP_TYPES = frozenset({"text", "image", "video", "audio", "document", "template"})
_NO_LINES = re.compile(r"[\n\t]| {5}")


def check_message(double: WhatsAppDouble, message: Json) -> None:
    """Check the fields of a message."""
    kind = message.get("type", "text")
    check = _CHECKS.get(kind) if isinstance(kind, str) else None
    if check is None:
        raise invalid("Param type must be one of {AUDIO, CONTACTS, DOCUMENT, IMAGE, INTERACTIVE, LOCATION, ...}")
    if message.get("recipient_type") == "group" and kind not in GROUP_TYPES:
        raise GraphError(131051, "Unsupported message type")
    text_of(message.get("biz_opaque_callback_data", ""), "biz_opaque_callback_data", 512, 0)
    context = message.get("context")
    if context is not None and not isinstance(object_at(message, "context").get("message_id"), str):
        raise invalid("Param context is missing message_id")
    check(double, object_at(message, kind))


def _check_text(double: WhatsAppDouble, text: Json) -> None:
    text_of(text.get("body"), "text.body", 4096)


def _check_reaction(double: WhatsAppDouble, reaction: Json) -> None:
    text_of(reaction.get("message_id"), "reaction.message_id", 1000)
    text_of(reaction.get("emoji"), "reaction.emoji", 40, 0)


def _make_media_check(kind: str) -> Callable[[WhatsAppDouble, Json], None]:
    def check(double: WhatsAppDouble, content: Json) -> None:
        media = double.media.get(str(content.get("id")))
        if media is None:
            raise bad_value(f"{kind}.id is no media of this number")
        if "caption" in content:
            if kind in ("audio", "sticker"):
                raise invalid(f'Unexpected key "caption" on param "{kind}"')
            text_of(content["caption"], f"{kind}.caption", 1024)
        limit, types = MEDIA_TYPES[kind]
        if kind == "document":
            text_of(content.get("filename", "file"), "document.filename", 240)
            types = tuple(mime for _, mimes in MEDIA_TYPES.values() for mime in mimes)
        if media.mime not in types or len(media.content) > limit:
            raise GraphError(131053, "Media upload error", details=f"{media.mime} is not supported as {kind}")

    return check


def _check_interactive(double: WhatsAppDouble, interactive: Json) -> None:
    body, action = object_at(interactive, "body").get("text"), object_at(interactive, "action")
    if interactive.get("type") == "button":
        text_of(body, "interactive.body.text", 1024)
        replies = [object_at(button, "reply") for button in objects_in(action.get("buttons"))]
        if not 1 <= len(replies) <= 3:
            raise bad_value("Invalid buttons count. Min allowed buttons: 1, Max allowed buttons: 3")
        titles = [text_of(reply.get("title"), "Button title", 20) for reply in replies]
        ids = [text_of(reply.get("id"), "Button id", 256) for reply in replies]
        _check_unique(titles, "Button titles")
    elif interactive.get("type") == "list":
        text_of(body, "interactive.body.text", 4096)
        text_of(action.get("button"), "List button", 20)
        rows = [row for section in objects_in(action.get("sections")) for row in objects_in(section.get("rows"))]
        if not 1 <= len(rows) <= 10:
            raise bad_value("Total row count exceed max allowed count: 10")
        for row in rows:
            text_of(row.get("title"), "Row title", 24)
            text_of(row.get("description", ""), "Row description", 72, 0)
        ids = [text_of(row.get("id"), "Row id", 200) for row in rows]
    else:
        raise invalid("Param interactive.type must be one of {BUTTON, LIST, ...}")
    _check_unique(ids, "Ids")
    if any(id != id.strip() for id in ids):
        raise bad_value("Ids have no leading or trailing spaces")


def _check_unique(values: list[str], name: str) -> None:
    if len(set(values)) < len(values):
        raise bad_value(f"{name} must be unique")


def _check_template(double: WhatsAppDouble, template: Json) -> None:
    known = double.templates.get((str(template.get("name")), str(object_at(template, "language").get("code"))))
    if known is None:
        raise GraphError(132001, "Template name does not exist in the translation", status=404)
    texts = [
        parameter.get("text")
        for component in list_at(template, "components")
        if component.get("type") == "body"
        for parameter in objects_in(component.get("parameters"))
    ]
    if len(texts) != known.count("{{"):
        raise GraphError(132000, "Number of parameters does not match the expected number of params")
    for text in texts:
        if _NO_LINES.search(text_of(text, "template parameter", 32_768)):
            details = "Param text cannot have new-line/tab characters or more than 4 consecutive spaces"
            raise GraphError(132018, "There is an issue with the parameters in your template", details=details)
    if len(fill_template(known, texts)) > 1024:
        raise GraphError(132005, "Translated text too long")


def fill_template(template: str, texts: list[Any]) -> str:
    """Return the text that people read."""
    for n, text in enumerate(texts, 1):
        template = template.replace(f"{{{{{n}}}}}", str(text))
    return template


def check_upload(mime: str, media: StoredMedia) -> None:
    """Check an uploaded file."""
    limits = [limit for limit, types in MEDIA_TYPES.values() if mime in types]
    if not limits:
        raise invalid(f"Param file must be a file with one of the following types: ... Received file of type '{mime}'.")
    if not media.content or len(media.content) > 100_000_000:
        raise GraphError(131053, "Media upload error", details="the file has a size that is not supported")


_CHECKS: dict[str, Callable[[WhatsAppDouble, Json], None]] = {
    "text": _check_text,
    "reaction": _check_reaction,
    "interactive": _check_interactive,
    "template": _check_template,
    **{kind: _make_media_check(kind) for kind in MEDIA_TYPES},
}
