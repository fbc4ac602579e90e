"""Messages of the bot: which attachments Teams takes, and what people read."""

from __future__ import annotations

from html import unescape

from semel.channels.teams.cards import CARD_TYPE
from semel.channels.teams.files import FILE_TYPE, MAX_PICTURE_BYTES, OFFER_TYPE, PICTURE_TYPES
from semel.testing.teams.model import TeamsConversation
from semel.text.json_types import Json, list_at, object_at, objects_in


def is_taken(attachment: Json, conversation: TeamsConversation) -> bool:
    """Return whether Teams takes an attachment of a bot's message there."""
    kind, url = attachment.get("contentType"), str(attachment.get("contentUrl"))
    if kind in PICTURE_TYPES:
        size = len(url.partition(",")[2]) * 3 // 4
        return url.startswith(f"data:{kind};base64,") and size <= MAX_PICTURE_BYTES + 2
    if kind in (OFFER_TYPE, FILE_TYPE):
        return conversation.kind == "personal" and bool(attachment.get("name"))
    rows = [list_at(block, "actions") for block in list_at(attachment, "content", "body")]
    return kind == CARD_TYPE and all(len(row) <= 6 for row in rows)


def read_text(message: Json) -> str:
    """Return what people read of a message. A file or a picture is its name in square brackets."""
    lines = [
        "".join(str(run.get("text")) for run in objects_in(block.get("inlines")))
        for attachment in objects_in(message.get("attachments"))
        for block in objects_in(object_at(attachment, "content").get("body"))
        if block.get("type") == "RichTextBlock"
    ]
    names = [attachment.get("name") for attachment in objects_in(message.get("attachments"))]
    lines += [f"[{name}]" for name in names if name]
    text = str(message.get("text") or "")
    if message.get("textFormat") == "xml":
        for mark in ("<br>", "<br />"):
            text = text.replace(mark, "")  # a line break stands after it
        text = unescape(_strip_tags(text)).strip()
    return text or "\n".join(lines)


def _strip_tags(html: str) -> str:
    """Return HTML without its tags."""
    return "".join(piece.rpartition(">")[2] for piece in html.split("<")) if "<" in html else html
