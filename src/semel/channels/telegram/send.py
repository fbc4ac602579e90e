"""Build the Bot API call that sends a part."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semel.channels.formatted_text import count_utf16_units
from semel.channels.telegram.address import ChatPlace, current_chat, message, parse_address
from semel.channels.telegram.render import render, render_plain
from semel.channels.telegram.transport import Upload
from semel.channels.uploads import name_file
from semel.gateway.ports import REPEAT_PREFIX, Button, Op, Rejected
from semel.text.json_types import Json
from semel.text.wellformed import shorten

MAX_TEXT_UNITS = 4096
"""Maximum length of a text in UTF-16 units."""
MAX_CAPTION_UNITS = 1024
BUTTONS_PER_ROW = 2
"""More in a row would be cut off on a phone."""
MAX_LABEL_CHARS = 64
MAX_PHOTO_BYTES = 10_000_000
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
REACTIONS = (
    "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u200d🔥 🌚 🌭 💯 "
    "🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨\u200d💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 "
    "🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷\u200d♂ 🤷 🤷\u200d♀ 😡"
)
"""The emoji that Telegram takes as reactions: https://core.telegram.org/bots/api#reactiontypeemoji."""
_AS_TEXT = {"<3": "❤", "+1": "👍", "-1": "👎"}


@dataclass(frozen=True)
class BotApiCall:
    """A method of the Bot API and its parameters. `file`: the name of the file's parameter, if there is a file."""

    method: str
    params: Json
    file: str | None = None


def make_call(
    op: Op, moved: Mapping[int, int], *, plain: bool, previews: bool, as_document: bool = False
) -> BotApiCall:
    """Build the call for a part. Raises Rejected.

    `plain`: without formatting, because Telegram refused it. `as_document`: because it refused the kind of file.
    `previews`: whether links show a preview. `moved`: the first ids of groups, mapped to their current ids.
    """
    try:
        destination = parse_address(op.address)
    except ValueError as error:
        raise Rejected(str(error)) from None
    match op.kind:
        case "post":
            return _post_call(op, destination, moved, plain, previews)
        case "file":
            return _file_call(op, destination, moved, plain, as_document)
        case "edit":
            return _edit_call(op, destination, moved, plain, previews)
        case "react":
            return _reaction_call(op, moved)
        case "delete":
            return BotApiCall("deleteMessage", _target_params(op, moved))


def _post_call(op: Op, destination: ChatPlace, moved: Mapping[int, int], plain: bool, previews: bool) -> BotApiCall:
    text, entities = _render_text(op, MAX_TEXT_UNITS, plain)
    if not text:
        raise Rejected("there is nothing to see in this message: Telegram takes no empty one")
    params = _destination_params(op, destination, moved) | {
        "text": text,
        "link_preview_options": {"is_disabled": not previews},
    }
    if entities:
        params["entities"] = entities
    return BotApiCall("sendMessage", params | _make_keyboard(op.buttons))


def _file_call(op: Op, destination: ChatPlace, moved: Mapping[int, int], plain: bool, as_document: bool) -> BotApiCall:
    text, entities = _render_text(op, MAX_CAPTION_UNITS, plain)
    if count_utf16_units(text) > MAX_CAPTION_UNITS:
        raise Rejected(
            f"the text with this file is longer than the {MAX_CAPTION_UNITS} characters that Telegram allows there: "
            "send the file with a shorter one, and the rest as a message"
        )
    params = _destination_params(op, destination, moved)
    if text:
        params["caption"] = text
    if entities:
        params["caption_entities"] = entities
    kind = "document" if as_document else file_kind(op)
    return BotApiCall(f"send{kind.capitalize()}", params, kind)


def file_kind(op: Op) -> str:
    """Return the kind of media as which a file is sent: photo, audio, voice, video or document."""
    mime = op.mime or mimetypes.guess_type(op.name or "")[0] or ""
    kind = _KINDS.get(mime.partition(";")[0].strip().lower(), "document")
    if kind == "photo" and op.file is not None and op.file.exists() and op.file.stat().st_size > MAX_PHOTO_BYTES:
        return "document"
    return kind


def _edit_call(op: Op, destination: ChatPlace, moved: Mapping[int, int], plain: bool, previews: bool) -> BotApiCall:
    text, entities = _render_text(op, MAX_TEXT_UNITS, plain)
    if not text:
        raise Rejected("there is nothing to see in this text: Telegram takes no empty one; delete the message instead")
    params = _target_params(op, moved) | {"text": text, "link_preview_options": {"is_disabled": not previews}}
    if entities:
        params["entities"] = entities
    return BotApiCall("editMessageText", params | _make_keyboard(op.buttons))


def _make_keyboard(buttons: Sequence[Button]) -> Json:
    """Return the parameter with the buttons under a message; {} if there are none.

    https://core.telegram.org/bots/api#inlinekeyboardmarkup. A press brings back `callback_data`.
    """
    keys = [{"text": shorten(button.label, MAX_LABEL_CHARS), "callback_data": button.answer} for button in buttons]
    rows = [keys[start : start + BUTTONS_PER_ROW] for start in range(0, len(keys), BUTTONS_PER_ROW)]
    return {"reply_markup": {"inline_keyboard": rows}} if rows else {}


def edit_caption_instead(call: BotApiCall) -> BotApiCall:
    """Convert an edit of a text into an edit of a file's caption. Raises Rejected if it is too long for a caption."""
    names = {"text": "caption", "entities": "caption_entities"}
    params = {names.get(k, k): v for k, v in call.params.items() if k != "link_preview_options"}
    if count_utf16_units(str(params["caption"])) > MAX_CAPTION_UNITS:
        raise Rejected(
            f"the message is a file, and a text with a file has at most {MAX_CAPTION_UNITS} characters on Telegram"
        )
    return BotApiCall("editMessageCaption", params)


def _reaction_call(op: Op, moved: Mapping[int, int]) -> BotApiCall:
    reaction_type = []
    if op.text.strip():
        emoji = allowed_reaction(op.text)
        if emoji is None:
            raise Rejected(f"Telegram takes no {op.text.strip()[:20]} as a reaction; it takes {REACTIONS}")
        reaction_type = [{"type": "emoji", "emoji": emoji}]
    return BotApiCall("setMessageReaction", _target_params(op, moved) | {"reaction": reaction_type})


def _render_text(op: Op, max_units: int, plain: bool) -> tuple[str, list[Json]]:
    """Return (the text to send, its entities). The prefix of a repeat is put before the rendered Markdown."""
    ahead = REPEAT_PREFIX if op.marked else ""
    text, entities = (render_plain(op.text, max_units), []) if plain else render(op.text, max_units - len(ahead))
    if not text:
        return "", []
    return ahead + text, [{**entity, "offset": entity["offset"] + len(ahead)} for entity in entities]


def _destination_params(op: Op, destination: ChatPlace, moved: Mapping[int, int]) -> Json:
    """Return the parameters for the chat, the topic and, in groups, the answered message."""
    params: Json = {"chat_id": current_chat(moved, destination.chat), **destination.topic_params}
    if destination.is_shared and op.answers is not None and op.n == 0:
        try:
            chat, id = message(op.answers.id)
        except ValueError:
            return params
        if chat == params["chat_id"]:
            params["reply_parameters"] = {"message_id": id, "allow_sending_without_reply": True}
    return params


def _target_params(op: Op, moved: Mapping[int, int]) -> Json:
    try:
        chat, id = message(op.target or "")
    except ValueError as error:
        raise Rejected(str(error)) from None
    return {"chat_id": chat, "message_id": id}


def make_upload(op: Op, kind: str, content: bytes) -> Upload:
    """Return the file of an op as an `Upload`, with its name and media type. `content`: the file's bytes.

    `kind`: the call's parameter for the file, such as "photo" (`BotApiCall.file`).
    """
    return Upload(kind, *name_file(op), content)


def allowed_reaction(emoji: str) -> str | None:
    """Return a reaction in Telegram's spelling (without the variation selector); None if Telegram does not allow it."""
    plain = emoji.strip().replace("\ufe0f", "")
    plain = _AS_TEXT.get(plain, plain)
    return plain if plain in REACTIONS.split() else None
