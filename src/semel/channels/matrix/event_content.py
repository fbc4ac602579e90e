"""Make the content of an event from a part, with the type of its file and the size of its image.

Spec: "m.room.message", "Event replacements", "Threading", "Rich replies". An event has at most 65,536 bytes, including
what the homeserver adds. The length of a part's Markdown is limited so that the plain form always fits. The formatted
form nearly always fits, too; if not, the plain form is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from semel.channels.matrix.parse import PART_KEY_FIELD
from semel.channels.matrix.render import Rendered, render
from semel.channels.matrix.transport import dump
from semel.gateway.ports import REPEAT_PREFIX, Op
from semel.text.json_types import Json

MAX_TEXT_BYTES = 24_000
"""Maximum bytes of a part's text. In JSON, a line break or a quotation mark takes two bytes."""
MAX_CONTENT_BYTES = 60_000
"""Maximum bytes of an event's content; the homeserver needs the rest for ids, hashes and signatures."""
MAX_FALLBACK_CHARS = 1000
"""Characters of an edit's fallback text (for clients without edits), if the whole text does not fit twice."""


def make_message(op: Op, msgtype: str, related: Mapping[str, Any] | None, mentioned: str | None = None) -> Json:
    """Return the content of a text message. `related`: its `m.relates_to`. `mentioned`: the user that it replies to."""
    rendered = render(_text_to_send(op))
    users = [*rendered.mentions, *([mentioned] if mentioned and mentioned not in rendered.mentions else [])]
    frame: Json = {PART_KEY_FIELD: op.key, "m.mentions": {"user_ids": users} if users else {}}
    frame |= {"m.relates_to": dict(related)} if related else {}
    return _first_that_fits([{**text, **frame} for text in _text_forms(rendered, msgtype)])


def make_edit(op: Op, msgtype: str) -> Json:
    """Return the content of an edit of `op.target`. It mentions nobody, so that nobody is notified a second time."""
    rendered = render(_text_to_send(op))
    frame: Json = {
        PART_KEY_FIELD: op.key,
        "m.mentions": {},
        "m.relates_to": {"rel_type": "m.replace", "event_id": op.target},
    }
    forms = []
    for text in _text_forms(rendered, msgtype):
        fallback = {**text, "body": f"* {text['body']}"}
        fallback |= {"formatted_body": f"* {text['formatted_body']}"} if "formatted_body" in text else {}
        short = {"msgtype": msgtype, "body": f"* {rendered.body[:MAX_FALLBACK_CHARS]}"}
        forms += [{**form, "m.new_content": {**text, "m.mentions": {}}, **frame} for form in (fallback, short)]
    return _first_that_fits(forms)


def make_reaction(op: Op) -> Json:
    return {"m.relates_to": {"rel_type": "m.annotation", "event_id": op.target, "key": op.text}, PART_KEY_FIELD: op.key}


def make_file_message(
    op: Op, msgtype: str, name: str, mxc: str, info: Mapping[str, Any], related: Mapping[str, Any] | None
) -> Json:
    """Return the content of a file message, with the part's text as its caption."""
    frame: Json = {PART_KEY_FIELD: op.key, "m.mentions": {}, "url": mxc, "filename": name, "info": dict(info)}
    frame |= {"m.relates_to": dict(related)} if related else {}
    caption = _text_to_send(op) if op.text.strip() else f"{REPEAT_PREFIX if op.marked else ''}{name}"
    texts = _text_forms(render(caption), msgtype) if op.text.strip() else [{"msgtype": msgtype, "body": caption}]
    return _first_that_fits([{**text, **frame} for text in texts])


def _text_to_send(op: Op) -> str:
    return f"{REPEAT_PREFIX}{op.text}" if op.marked else op.text


def _text_forms(rendered: Rendered, msgtype: str) -> list[Json]:
    """Return the possible forms of a text, best first: formatted if the text has formatting, then plain."""
    plain: Json = {"msgtype": msgtype, "body": rendered.body}
    if rendered.html is None:
        return [plain]
    return [{**plain, "format": "org.matrix.custom.html", "formatted_body": rendered.html}, plain]


def _first_that_fits(forms: list[Json]) -> Json:
    return next((form for form in forms[:-1] if len(dump(form)) <= MAX_CONTENT_BYTES), forms[-1])


def msgtype_of(mime: str) -> str:
    """Return the msgtype for a file's MIME type. SVG is a plain file, since clients show no SVG."""
    head = mime.partition("/")[0]
    return f"m.{head}" if head in ("image", "audio", "video") and not mime.startswith("image/svg") else "m.file"


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return (width, height) in pixels of a PNG, GIF, JPEG or WebP, from its header; None for other or broken files."""
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            return struct.unpack(">II", data[16:24])
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return struct.unpack("<HH", data[6:10])
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        return _jpeg(data) if data[:3] == b"\xff\xd8\xff" else None
    except (struct.error, IndexError):
        return None


def _webp(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    position = 2
    while data[position] == 0xFF:
        marker, length = data[position + 1], struct.unpack(">H", data[position + 2 : position + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[position + 5 : position + 9])
            return width, height
        position += 2 + length
    return None
