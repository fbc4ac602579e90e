"""Build the Bot API call that sends a part."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semel.channels.telegram.address import Place, message, now, place
from semel.channels.telegram.allowed_reactions import EMOJI, reaction
from semel.channels.telegram.formatted_text import utf16
from semel.channels.telegram.render import as_written, render
from semel.channels.telegram.transport import Upload
from semel.channels.words import REPEAT_PREFIX
from semel.gateway.ports import Op, Rejected

Json = dict[str, Any]
"""A JSON object."""
TEXT = 4096
"""Maximum length of a text in UTF-16 units."""
CAPTION = 1024
PHOTO = 10_000_000
"""Maximum size of a photo in bytes; a larger picture is sent as a document."""
_KINDS = {
    "image/jpeg": "photo",
    "image/png": "photo",
    "image/webp": "photo",
    "audio/mpeg": "audio",
    "audio/mp4": "audio",
    "audio/x-m4a": "audio",
    "audio/ogg": "voice",
    "video/mp4": "video",
}


@dataclass(frozen=True)
class Call:
    """A method of the Bot API and its parameters. `file`: the name of the file's parameter, if there is a file."""

    method: str
    params: Json
    file: str | None = None


def call_of(op: Op, moved: Mapping[int, int], *, plain: bool, previews: bool) -> Call:
    """The call for a part. Raises Rejected.

    `plain`: send it without formatting and as a document, because Telegram refused the formatting or the kind of file.
    """
    try:
        where = place(op.address)
    except ValueError as bad:
        raise Rejected(str(bad)) from None
    match op.kind:
        case "post":
            return _post(op, where, moved, plain, previews)
        case "file":
            return _file(op, where, moved, plain)
        case "edit":
            return _edit(op, where, moved, plain, previews)
        case "react":
            return _react(op, moved)
        case "delete":
            return Call("deleteMessage", _target(op, moved))


def _post(op: Op, where: Place, moved: Mapping[int, int], plain: bool, previews: bool) -> Call:
    text, entities = _rendered(op, TEXT, plain)
    if not text:
        raise Rejected("there is nothing to see in this message: Telegram takes no empty one")
    params = _there(op, where, moved) | {"text": text, "link_preview_options": {"is_disabled": not previews}}
    if entities:
        params["entities"] = entities
    return Call("sendMessage", params)


def _file(op: Op, where: Place, moved: Mapping[int, int], plain: bool) -> Call:
    text, entities = _rendered(op, CAPTION, plain)
    if utf16(text) > CAPTION:
        raise Rejected(
            f"the text with this file is longer than the {CAPTION} characters that Telegram allows there: "
            "send the file with a shorter one, and the rest as a message"
        )
    params = _there(op, where, moved)
    if text:
        params["caption"] = text
    if entities:
        params["caption_entities"] = entities
    kind = "document" if plain else kind_of(op)
    return Call(f"send{kind.capitalize()}", params, kind)


def kind_of(op: Op) -> str:
    """The kind under which a file is sent: photo, audio, voice, video or document."""
    mime = op.mime or mimetypes.guess_type(op.name or "")[0] or ""
    kind = _KINDS.get(mime.partition(";")[0].strip().lower(), "document")
    if kind == "photo" and op.file is not None and op.file.exists() and op.file.stat().st_size > PHOTO:
        return "document"
    return kind


def _edit(op: Op, where: Place, moved: Mapping[int, int], plain: bool, previews: bool) -> Call:
    text, entities = _rendered(op, TEXT, plain)
    if not text:
        raise Rejected("there is nothing to see in this text: Telegram takes no empty one; delete the message instead")
    params = _target(op, moved) | {"text": text, "link_preview_options": {"is_disabled": not previews}}
    if entities:
        params["entities"] = entities
    return Call("editMessageText", params)


def caption_instead(call: Call) -> Call:
    """The same edit as a change of the caption, for a message that is a file. Raises Rejected if it is too long."""
    names = {"text": "caption", "entities": "caption_entities"}
    params = {names.get(k, k): v for k, v in call.params.items() if k != "link_preview_options"}
    if utf16(str(params["caption"])) > CAPTION:
        raise Rejected(f"the message is a file, and a text with a file has at most {CAPTION} characters on Telegram")
    return Call("editMessageCaption", params)


def _react(op: Op, moved: Mapping[int, int]) -> Call:
    wanted = []
    if op.text.strip():
        emoji = reaction(op.text)
        if emoji is None:
            raise Rejected(f"Telegram takes no {op.text.strip()[:20]} as a reaction; it takes {' '.join(EMOJI)}")
        wanted = [{"type": "emoji", "emoji": emoji}]
    return Call("setMessageReaction", _target(op, moved) | {"reaction": wanted})


def _rendered(op: Op, most: int, plain: bool) -> tuple[str, list[Json]]:
    """The text to send, and its entities. The prefix of a repeat is put before the rendered Markdown."""
    ahead = REPEAT_PREFIX if op.marked else ""
    text, entities = (as_written(op.text, most), []) if plain else render(op.text, most - len(ahead))
    if not text:
        return "", []
    return ahead + text, [{**each, "offset": each["offset"] + len(ahead)} for each in entities]


def _there(op: Op, where: Place, moved: Mapping[int, int]) -> Json:
    """The parameters for the chat, the topic and, in groups, the answered message."""
    params: Json = {"chat_id": now(moved, where.chat)}
    if where.topic is not None:
        params["message_thread_id"] = where.topic
    if where.shared and op.answers is not None and op.n == 0:
        try:
            chat, id = message(op.answers.id)
        except ValueError:
            return params
        if chat == params["chat_id"]:
            params["reply_parameters"] = {"message_id": id, "allow_sending_without_reply": True}
    return params


def _target(op: Op, moved: Mapping[int, int]) -> Json:
    try:
        chat, id = message(op.target or "")
    except ValueError as bad:
        raise Rejected(str(bad)) from None
    return {"chat_id": chat, "message_id": id}


def uploaded(op: Op, kind: str, content: bytes) -> Upload:
    """The file of a call, as an upload."""
    name = op.name or (op.file.name if op.file is not None else "") or "file"
    mime = op.mime or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Upload(kind, name, mime, content)
