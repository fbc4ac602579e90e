"""The Bot API methods that the bot calls, each a function of the double and the call's parameters."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from semel.testing.telegram.model import ApiError, Chat, StoredFile, StoredMessage, bad_request
from semel.testing.telegram.text import MAX_CAPTION_UNITS, MAX_MESSAGE_UNITS, check_text
from semel.text.json_types import Json

if TYPE_CHECKING:
    from semel.testing.telegram.double import TelegramDouble

MAX_UPLOAD_BYTES = 50_000_000
MAX_PHOTO_BYTES = 10_000_000
MAX_DOWNLOAD_BYTES = 20_000_000
MAX_CALLBACK_DATA_BYTES = 64
DELETABLE_S = 2 * 86400
"""How long after it was sent a message can be deleted."""
_ACTIONS = (
    "typing upload_photo record_video upload_video record_voice upload_voice upload_document choose_sticker "
    "find_location record_video_note upload_video_note"
)
ACTIONS = frozenset(_ACTIONS.split())
_EMOJI = (
    "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u200d🔥 🌚 🌭 💯 "
    "🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨\u200d💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 "
    "🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷\u200d♂ 🤷 🤷\u200d♀ 😡"
)
EMOJI = frozenset(_EMOJI.split())
"""The emoji that are allowed as reactions: https://core.telegram.org/bots/api#reactiontypeemoji."""
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current "
    "content and reply markup of the message"
)
TEXT_FIELDS = {"text": ("entities", MAX_MESSAGE_UNITS), "caption": ("caption_entities", MAX_CAPTION_UNITS)}
"""The fields of a message that contain text: field -> (field of its entities, maximum length in UTF-16 units)."""

Method = Callable[["TelegramDouble", Json], Any]


def get_me(double: TelegramDouble, params: Json) -> Json:
    abilities = {"can_join_groups": True, "can_read_all_group_messages": not double.privacy}
    return {**double.me.json(), **abilities, "supports_inline_queries": False}


async def get_updates(double: TelegramDouble, params: Json) -> list[Json]:
    allowed = read_json(params, "allowed_updates")
    if allowed is not None:
        double.queue.allowed = [str(kind) for kind in allowed]
    offset, limit = read_int(params, "offset") or 0, read_int(params, "limit") or 100
    return await double.queue.poll(offset, limit, float(read_int(params, "timeout") or 0))


def get_webhook_info(double: TelegramDouble, params: Json) -> Json:
    pending = len(double.queue.pending())
    return {"url": double.queue.webhook, "has_custom_certificate": False, "pending_update_count": pending}


def delete_webhook(double: TelegramDouble, params: Json) -> bool:
    double.queue.webhook = ""
    return True


def send_message(double: TelegramDouble, params: Json) -> Json:
    return send(double, writable_chat(double, params), params, read_text(params, "text") | read_keyboard(params))


def answer_callback_query(double: TelegramDouble, params: Json) -> bool:
    if str(params.get("callback_query_id")) not in double.presses:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    double.presses[str(params["callback_query_id"])] = True
    return True


def send_file(kind: str) -> Method:
    """Return the method that sends a file of this kind: sendDocument, sendPhoto, ...

    The call uploads the file, or names a known one by its file_id.
    """

    def method(double: TelegramDouble, params: Json) -> Json:
        chat = writable_chat(double, params)
        stored = find_or_store_file(double, params, kind)
        return send(double, chat, params, {kind: double.file_json(stored), **read_text(params, "caption")}, stored)

    return method


def find_or_store_file(double: TelegramDouble, params: Json, kind: str) -> StoredFile:
    file = params.get(kind)
    if isinstance(file, dict) and "content" in file:
        content = file["content"]
        if len(content) > MAX_UPLOAD_BYTES:
            raise ApiError(413, "Request Entity Too Large")
        if not content:
            raise bad_request("file must be non-empty")
        if kind == "photo":
            if len(content) > MAX_PHOTO_BYTES:
                raise bad_request("file is too big")
            if reason := find_photo_error(content):
                raise bad_request(reason)
        return double.keep_file(kind, file["name"], file["mime"], content)
    if file not in double.files:
        raise bad_request("wrong file identifier/HTTP URL specified")
    return double.files[str(file)]


def find_photo_error(content: bytes) -> str | None:
    """Return Telegram's error text if it would not accept these bytes as a photo, else None.

    The dimensions are checked only for PNG.
    """
    if content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) >= 24:
        width, height = struct.unpack(">II", content[16:24])
        if not width or not height or width + height > 10_000 or max(width, height) > 20 * min(width, height):
            return "PHOTO_INVALID_DIMENSIONS"
        return None
    if content.startswith((b"\xff\xd8\xff", b"GIF8", b"BM")) or content[8:12] == b"WEBP":
        return None
    return "IMAGE_PROCESS_FAILED"


def edit_text(field: str) -> Method:
    """Return the method editMessageText (`field` "text") or editMessageCaption ("caption")."""

    def method(double: TelegramDouble, params: Json) -> Json:
        message = editable_message(double, params)
        content = read_text(params, field)
        if ("text" in message.body) != (field == "text"):
            raise bad_request(f"there is no {field} in the message to edit")
        replaced = (field, TEXT_FIELDS[field][0], "reply_markup")  # without the parameter, the buttons are removed
        content |= read_keyboard(params)
        edited = {**{key: value for key, value in message.body.items() if key not in replaced}, **content}
        if edited == message.body:
            raise bad_request(NOT_MODIFIED)
        message.body = {**edited, "edit_date": int(double.now())}
        return message.body

    return method


def delete_message(double: TelegramDouble, params: Json) -> bool:
    chat = find_chat(double, params)
    message = find_message(chat, params, "message to delete not found")
    if double.now() - message.body["date"] > DELETABLE_S:
        raise bad_request("message can't be deleted for everyone")
    if not message.from_bot and chat.type != "private" and chat.status != "administrator":
        raise bad_request("message can't be deleted")
    message.is_deleted = True
    return True


def set_message_reaction(double: TelegramDouble, params: Json) -> bool:
    chat = writable_chat(double, params)
    message = find_message(chat, params, "message to react not found")
    reactions = read_json(params, "reaction") or []
    if len(reactions) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    for reaction in reactions:
        if reaction.get("type") != "emoji" or reaction.get("emoji") not in EMOJI:
            raise bad_request("REACTION_INVALID")
    message.reactions[double.me.id] = [reaction["emoji"] for reaction in reactions]
    return True


def send_chat_action(double: TelegramDouble, params: Json) -> bool:
    chat = writable_chat(double, params)
    if params.get("action") not in ACTIONS:
        raise bad_request("wrong parameter action in request")
    topic_fields(chat, params)
    double.actions.append({"chat": chat.id, "topic": read_int(params, "message_thread_id"), "action": params["action"]})
    return True


def get_file(double: TelegramDouble, params: Json) -> Json:
    stored = double.files.get(str(params.get("file_id", "")).removesuffix("-small"))
    if stored is None:
        raise bad_request("wrong file_id or the file is temporarily unavailable")
    if stored.size > MAX_DOWNLOAD_BYTES:
        raise bad_request("file is too big")
    return {**stored.json(), "file_path": stored.path}


METHODS: dict[str, Method] = {
    "getme": get_me,
    "getupdates": get_updates,
    "deletewebhook": delete_webhook,
    "getwebhookinfo": get_webhook_info,
    "sendmessage": send_message,
    "answercallbackquery": answer_callback_query,
    **{f"send{kind}": send_file(kind) for kind in ("document", "photo", "audio", "video", "voice")},
    "editmessagetext": edit_text("text"),
    "editmessagecaption": edit_text("caption"),
    "deletemessage": delete_message,
    "setmessagereaction": set_message_reaction,
    "sendchataction": send_chat_action,
    "getfile": get_file,
}
"""The methods by name in lower case: names of Bot API methods are case-insensitive."""


# ---------------------------------------------------------------- shared by the methods


def read_int(params: Json, name: str) -> int | None:
    value = params.get(name)
    try:
        return None if value is None or value == "" else int(value)
    except (TypeError, ValueError):
        raise bad_request(f"invalid {name} specified") from None


def read_json(params: Json, name: str) -> Any:
    """Return a parameter that is JSON, or JSON as a string as in forms. Raises ApiError if it cannot be parsed."""
    value = params.get(name)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise bad_request(f"can't parse {name} JSON object") from None


def read_text(params: Json, field: str) -> Json:
    """Return the text or caption (`field`) of a call and its entities, as fields of the Message. Raises ApiError."""
    if params.get("parse_mode"):
        raise bad_request("this double parses no markup: send entities")
    entities_field, max_units = TEXT_FIELDS[field]
    entities = read_json(params, entities_field) or []
    text, entities = check_text(str(params.get(field, "")), entities, max_units, f"message {field}")
    return {name: value for name, value in ((field, text), (entities_field, entities)) if value}


def read_keyboard(params: Json) -> Json:
    """Return the buttons of a call as a field of the Message; {} if there are none. Raises ApiError."""
    markup = read_json(params, "reply_markup")
    if not markup:
        return {}
    for button in (button for row in markup["inline_keyboard"] for button in row):
        if not button.get("text"):
            raise bad_request('can\'t parse inline keyboard button: Field "text" must be of type String')
        if not 1 <= len(str(button.get("callback_data", "")).encode()) <= MAX_CALLBACK_DATA_BYTES:
            raise bad_request("BUTTON_DATA_INVALID")
    return {"reply_markup": markup}


def find_chat(double: TelegramDouble, params: Json) -> Chat:
    id = read_int(params, "chat_id")
    if id is None:
        raise bad_request("chat_id is empty")
    chat = double.chats.get(id)
    if chat is None:
        raise bad_request("chat not found")
    if chat.moved_to is not None:
        reason = "group chat was upgraded to a supergroup chat"
        raise bad_request(reason, migrate_to_chat_id=chat.moved_to)
    return chat


def writable_chat(double: TelegramDouble, params: Json) -> Chat:
    """Return the chat that a call names. Raises ApiError if there is none or the bot may not write there."""
    chat = find_chat(double, params)
    if chat.blocked:
        raise ApiError(403, "Forbidden: bot was blocked by the user")
    chat_kind = {"group": "group chat", "supergroup": "supergroup chat", "channel": "channel chat"}.get(
        chat.type, "chat"
    )
    if chat.status == "kicked":
        raise ApiError(403, f"Forbidden: bot was kicked from the {chat_kind}")
    if chat.status == "left":
        raise ApiError(403, f"Forbidden: bot is not a member of the {chat_kind}")
    if chat.type == "channel" and chat.status != "administrator":
        raise bad_request("need administrator rights in the channel chat")
    return chat


def topic_fields(chat: Chat, params: Json) -> Json:
    """Return the fields of a message that name its topic (https://core.telegram.org/bots/api#sendmessage)."""
    direct = read_int(params, "direct_messages_topic_id")
    if chat.is_direct and direct is None:
        raise bad_request("Channel direct messages topic must be specified")
    if direct is not None:
        return {"direct_messages_topic": {"topic_id": direct}}
    id = read_int(params, "message_thread_id")
    if id is None:
        return {}
    if id not in chat.topics:
        raise bad_request("message thread not found")
    return {"message_thread_id": id, "is_topic_message": True}


def reply_fields(chat: Chat, params: Json) -> Json:
    parameters = read_json(params, "reply_parameters")
    if not parameters:
        return {}
    message = chat.messages.get(int(parameters.get("message_id", 0)))
    if message is not None and not message.is_deleted:
        quoted = {key: value for key, value in message.body.items() if key != "reply_to_message"}
        return {"reply_to_message": quoted}
    if parameters.get("allow_sending_without_reply"):
        return {}
    raise bad_request("message to be replied not found")


def find_message(chat: Chat, params: Json, missing: str) -> StoredMessage:
    message = chat.messages.get(read_int(params, "message_id") or 0)
    if message is None or message.is_deleted:
        raise bad_request(missing)
    return message


def editable_message(double: TelegramDouble, params: Json) -> StoredMessage:
    chat = writable_chat(double, params)
    message = find_message(chat, params, "message to edit not found")
    if not message.from_bot:
        raise bad_request("message can't be edited")
    return message


def send(double: TelegramDouble, chat: Chat, params: Json, body: Json, file: StoredFile | None = None) -> Json:
    """Add a message from the bot to the chat. Returns the Message.

    `params`: the call's, for topic and reply. `body`: the fields of the content. `file`: the file in it, if any.
    """
    where = {**topic_fields(chat, params), **reply_fields(chat, params)}
    if double.limits is not None:
        double.limits.count(chat.id, chat.type != "private", double.now())
    id = double.next_id(chat)
    author = {"sender_chat": chat.json()} if chat.type == "channel" else {"from": double.me.json()}
    message: Json = {"message_id": id, "date": int(double.now()), "chat": chat.json(), **author, **where, **body}
    chat.messages[id] = StoredMessage(message, from_bot=True, file=file)
    return message
