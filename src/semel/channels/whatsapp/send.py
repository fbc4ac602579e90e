"""Send a part: an upload that nobody sees, if there is a file, then exactly one call that shows it.

Each message carries the part's key as `biz_opaque_callback_data`, which Meta returns with each status of the message.

| part | message |
|---|---|
| post | `text`; with one to three short buttons `interactive` of type `button`, with up to ten of type `list` |
| post to whom Meta takes only templates | `template`, if the setting names one |
| file | `image`, `video` or `audio` if Meta takes it as such, else `document` |
| reaction | `reaction` |

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/messages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from semel.channels.recent_map import RecentMap
from semel.channels.uploads import name_file, read_file
from semel.channels.whatsapp.address import WhatsAppPlace, check_message_id, parse_address
from semel.channels.whatsapp.parse import make_button_id
from semel.channels.whatsapp.receipts import WindowClosed, casts_doubt, check_reply, receipt_of
from semel.channels.whatsapp.receive import WhatsAppReceiver
from semel.channels.whatsapp.render import render, render_line
from semel.channels.whatsapp.settings import WhatsAppSettings
from semel.channels.whatsapp.statuses import StatusReports
from semel.channels.whatsapp.transport import GraphApi
from semel.gateway.ports import REPEAT_PREFIX, Button, NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import Json, text_at
from semel.text.split import measure
from semel.text.wellformed import shorten

MAX_TEXT_UNITS = 4096
MAX_CAPTION_UNITS = 1024
MAX_TEMPLATE_UNITS = 900
"""Longest text of a template's variable. A body has 1,024 characters, those of the template itself included."""
MAX_BUTTONS, MAX_BUTTON_UNITS, MAX_BUTTON_BODY_UNITS = 3, 20, 1024
MAX_ROWS, MAX_ROW_UNITS, MAX_ROW_DETAIL_UNITS = 10, 24, 72
LIST_LABEL = "Answer"
"""The button that opens a list."""
MAX_REMEMBERED = 500
MAX_FILE_NAME_CHARS = 240
TYPING_S = 20.0
"""Seconds after which the typing indicator is renewed; Meta shows it for 25."""
KIND_LIMITS = {
    "image": (5_000_000, ("image/jpeg", "image/png")),
    "video": (16_000_000, ("video/mp4", "video/3gpp")),
    "audio": (16_000_000, ("audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg")),
}
"""Kind of message -> the most bytes of its file, and the media types that Meta takes."""
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/toml", "application/javascript")


class WhatsAppSender:
    """The sending half of one number."""

    def __init__(
        self, api: GraphApi, settings: WhatsAppSettings, reports: StatusReports, receiver: WhatsAppReceiver
    ) -> None:
        self._api = api
        self._settings = settings
        self._reports = reports
        self._receiver = receiver
        self._template_keys = RecentMap[str, None](MAX_REMEMBERED)  # keys of parts to send as a template
        self._plain_keys = RecentMap[str, None](MAX_REMEMBERED)  # keys of parts to send without buttons
        self._typing_until = RecentMap[str, float](MAX_REMEMBERED)  # by message: when to show the sign again
        self._uploads = RecentMap[str, tuple[str, Json]](MAX_REMEMBERED)  # uploaded files, by the key of their part

    async def send(self, op: Op) -> Receipt:
        """Make one attempt to send a part. Raises NotSent, Rejected or Unknown.

        If the answer is lost, wait for `settle` seconds for Meta's report on the message.
        """
        with self._reports.expect(op.key) as reported:
            try:
                return await self._attempt(op)
            except (NotSent, Rejected) as refusal:
                self._reports.note_refusal(op.key)
                if casts_doubt(refusal):
                    self._receiver.doubt_account()
                raise
            except WindowClosed as refusal:
                self._reports.note_refusal(op.key)
                if self._settings.template is None or op.kind != "post" or op.key in self._template_keys:
                    raise Rejected(f"WhatsApp: {refusal}") from None
                await self._receiver.close_window(op.address)
                self._template_keys[op.key] = None
                raise NotSent(f"WhatsApp: {refusal}; the next attempt goes as the template", 0) from None
            except Unknown as error:
                self._receiver.doubt_account()
                if op.kind == "react":  # it can be repeated
                    raise
                await asyncio.wait([reported], timeout=self._settings.settle)
                if reported.done():
                    return reported.result()
                raise Unknown(f"{error}; no report on it came within {self._settings.settle:g} s") from None

    async def _attempt(self, op: Op) -> Receipt:
        place = _parse_place(op.address)
        message = await self._make_message(op, place)
        reply = await self._api.post_message(place.make_recipient() | message)
        try:
            return receipt_of(op, reply)
        except Rejected as refusal:
            if message["type"] != "interactive":
                raise
            self._plain_keys[op.key] = None
            raise NotSent(f"{refusal}; the next attempt goes without buttons", 0) from None

    async def _make_message(self, op: Op, place: WhatsAppPlace) -> Json:
        """Return the fields of a message besides its recipient. Raises NotSent or Rejected."""
        if op.kind == "react":
            return make_reaction(op)
        fields: Json = {"biz_opaque_callback_data": op.key, **self._make_context(op, place)}
        if op.kind == "file":
            return fields | await self._make_file(op)
        if self._settings.template is not None and await self._needs_template(op):
            return fields | make_template(op, self._settings.template, self._settings.template_language)
        has_buttons = not place.is_group and op.key not in self._plain_keys
        return fields | make_text(op, self._settings.previews, has_buttons)

    async def _needs_template(self, op: Op) -> bool:
        return op.key in self._template_keys or await self._receiver.is_window_closed(op.address)

    def _make_context(self, op: Op, place: WhatsAppPlace) -> Json:
        """Return the field that quotes the answered message: in groups, and if the settings say so."""
        if op.answers is None or op.n or not (place.is_group or self._settings.quotes):
            return {}
        try:
            return {"context": {"message_id": check_message_id(op.answers.id)}}
        except ValueError:  # the press of a button
            return {}

    async def _make_file(self, op: Op) -> Json:
        if op.key not in self._uploads:
            try:
                self._uploads[op.key] = await self._upload(op)
            except (Unknown, WindowClosed) as error:  # nobody sees an upload
                raise NotSent(f"the file did not arrive: {error}") from None
        kind, content = self._uploads[op.key]
        text = render_marked(op, MAX_CAPTION_UNITS)
        if measure(text, "utf16") > MAX_CAPTION_UNITS:
            raise Rejected(
                f"the text with this file is longer than the {MAX_CAPTION_UNITS} characters that WhatsApp allows "
                "there: send the file with a shorter one, and the rest as a message"
            )
        return {"type": kind, kind: content | ({"caption": text} if text else {})}

    async def _upload(self, op: Op) -> tuple[str, Json]:
        """Upload the file of a part. Return (the kind of message, its fields)."""
        content = await read_file(op)
        if len(content) > self._settings.file_limit:
            raise Rejected(f"the file is larger than {self._settings.file_limit:,} bytes")
        name, mime = name_file(op)
        name, mime = name[:MAX_FILE_NAME_CHARS], choose_mime(mime)
        kind = choose_kind(mime, len(content), has_text=bool(op.text.strip()) or op.marked)
        reply = await self._api.upload(name, mime, content)
        check_reply(reply)
        id = text_at(reply.data, "id")
        if id is None:
            raise NotSent("Meta's answer to the upload names no file")
        return kind, {"id": id} | ({"filename": name} if kind == "document" else {})

    async def show_typing(self, address: str) -> None:
        """Mark the newest message there as read, and show for 25 seconds that an answer is on its way."""
        id, now = self._receiver.find_last_message(address), time.monotonic()
        if id is not None and now >= self._typing_until.get(id, 0.0):
            self._typing_until[id] = now + TYPING_S
            await self._api.post_message({"status": "read", "message_id": id, "typing_indicator": {"type": "text"}})


def render_marked(op: Op, max_units: int) -> str:
    """Return the text of a part as WhatsApp shows it, with the mark of a repeat."""
    ahead = REPEAT_PREFIX if op.marked else ""
    return (ahead + render(op.text, max_units - len(ahead))).strip()


def make_text(op: Op, previews: bool, has_buttons: bool) -> Json:
    """Return a message with the text of a part, and its buttons if WhatsApp can show them. Raises Rejected."""
    text = render_marked(op, MAX_TEXT_UNITS)
    if not op.text.strip():
        raise Rejected("there is nothing to see in this message: WhatsApp takes no empty one")
    interactive = make_interactive(op.key, text, op.buttons) if has_buttons else None
    if interactive is not None:
        return {"type": "interactive", "interactive": interactive}
    return {"type": "text", "text": {"preview_url": previews, "body": text}}


def make_interactive(key: str, text: str, buttons: Sequence[Button]) -> Json | None:
    """Return a text with buttons, or with a list to choose from; None if WhatsApp has neither for them.

    A list shows the whole of a longer label under its beginning. The text says how to answer without buttons.
    """
    labels = [button.label for button in buttons]
    ids = [make_button_id(key, button.answer) for button in buttons]
    if not 0 < len(buttons) <= MAX_ROWS or not all(label.strip() for label in labels):
        return None
    are_short = all(measure(label, "utf16") <= MAX_BUTTON_UNITS for label in labels) and len(set(labels)) == len(labels)
    if len(labels) <= MAX_BUTTONS and are_short and measure(text, "utf16") <= MAX_BUTTON_BODY_UNITS:
        replies = [
            {"type": "reply", "reply": {"id": id, "title": label}} for id, label in zip(ids, labels, strict=True)
        ]
        return {"type": "button", "body": {"text": text}, "action": {"buttons": replies}}
    rows: list[Json] = []
    for id, label in zip(ids, labels, strict=True):
        row: Json = {"id": id, "title": _shorten_units(label, MAX_ROW_UNITS)}
        if row["title"] != label:
            row["description"] = _shorten_units(label, MAX_ROW_DETAIL_UNITS)
        rows.append(row)
    return {"type": "list", "body": {"text": text}, "action": {"button": LIST_LABEL, "sections": [{"rows": rows}]}}


def _shorten_units(text: str, max_units: int) -> str:
    """Return a text; if it has more UTF-16 units, its beginning and "…"."""
    text = shorten(text, max_units)
    while measure(text, "utf16") > max_units:
        text = shorten(text, len(text) - 1)
    return text


def make_template(op: Op, name: str, language: str) -> Json:
    """Return the template that carries the text of a part. Raises Rejected."""
    text = (REPEAT_PREFIX if op.marked else "") + render_line(op.text, MAX_TEXT_UNITS)
    length = measure(text, "utf16")
    if not text.strip():
        raise Rejected("there is nothing to see in this message: WhatsApp takes no empty one")
    if length > MAX_TEMPLATE_UNITS:
        raise Rejected(
            f"the person wrote last more than 24 hours ago, so only the template {name} goes out, and it takes "
            f"{MAX_TEMPLATE_UNITS} characters; this message has {length}: resend it when they have written, or say it "
            "shorter"
        )
    parameters = [{"type": "text", "text": text}]
    body = {"type": "body", "parameters": parameters}
    return {"type": "template", "template": {"name": name, "language": {"code": language}, "components": [body]}}


def make_reaction(op: Op) -> Json:
    """Return a reaction, or none instead of one if there is no emoji. Raises Rejected."""
    try:
        id = check_message_id(op.target or "")
    except ValueError as error:
        raise Rejected(str(error)) from None
    emoji = op.text.strip()
    if emoji.isascii() and emoji:
        raise Rejected(f"WhatsApp takes one emoji as a reaction, and not {emoji[:20]!r}")
    return {"type": "reaction", "reaction": {"message_id": id, "emoji": emoji}}


def choose_mime(mime: str) -> str:
    """Return the media type under which a file is uploaded. Meta takes no other type of text than text/plain."""
    plain = mime.partition(";")[0].strip().lower()
    return "text/plain" if plain.startswith("text/") or plain in _TEXT_TYPES else plain


def choose_kind(mime: str, size: int, has_text: bool) -> str:
    """Return the kind of message for a file: document if it is none that WhatsApp shows, or an audio with a text."""
    for kind, (limit, types) in KIND_LIMITS.items():
        if mime in types and size <= limit and not (kind == "audio" and has_text):
            return kind
    return "document"


def _parse_place(address: str) -> WhatsAppPlace:
    try:
        return parse_address(address)
    except ValueError as error:
        raise Rejected(str(error)) from None
