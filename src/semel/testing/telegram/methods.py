"""The bot's side: Bot API methods, each a function of the double and the call's parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from semel.testing.telegram.errors import ApiError, bad_request, forbidden
from semel.testing.telegram.model import DAY, Chat, Json, Kept, Stored
from semel.testing.telegram.pictures import why_no_picture
from semel.testing.telegram.reactions import EMOJI
from semel.testing.telegram.text import CAPTION, MESSAGE, checked

if TYPE_CHECKING:
    from semel.testing.telegram.double import TelegramDouble

UPLOAD = 50_000_000
"""Bytes of a file that a bot may send; 10 MB for a photo."""
PHOTO = 10_000_000
DOWNLOAD = 20_000_000
"""Bytes of a file that a bot may fetch."""
_ACTIONS = (
    "typing upload_photo record_video upload_video record_voice upload_voice upload_document choose_sticker "
    "find_location record_video_note upload_video_note"
)
ACTIONS = frozenset(_ACTIONS.split())
SAME = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current "
    "content and reply markup of the message"
)

Method = Callable[["TelegramDouble", Json], Any]


def get_me(double: TelegramDouble, params: Json) -> Json:
    more = {"can_join_groups": True, "can_read_all_group_messages": not double.privacy}
    return {**double.me.json(), **more, "supports_inline_queries": False}


async def get_updates(double: TelegramDouble, params: Json) -> list[Json]:
    allowed = structure(params, "allowed_updates")
    if allowed is not None:
        double.queue.allowed = [str(each) for each in allowed]
    offset, limit = number(params, "offset") or 0, number(params, "limit") or 100
    return await double.queue.poll(offset, limit, float(number(params, "timeout") or 0))


def set_webhook(double: TelegramDouble, params: Json) -> bool:
    double.queue.webhook = str(params.get("url", ""))
    return True


def delete_webhook(double: TelegramDouble, params: Json) -> bool:
    double.queue.webhook = ""
    return True


def get_webhook_info(double: TelegramDouble, params: Json) -> Json:
    return {"url": double.queue.webhook, "pending_update_count": len(double.queue.pending())}


def get_chat(double: TelegramDouble, params: Json) -> Json:
    return chat_of(double, params).json()


def send_message(double: TelegramDouble, params: Json) -> Json:
    chat = writable(double, params)
    text, entities = checked(str(params.get("text", "")), marks(params, "entities"), MESSAGE, "message text")
    return sent(double, chat, params, {"text": text, **({"entities": entities} if entities else {})})


def send_file(kind: str) -> Method:
    """sendDocument, sendPhoto, ...: the file is uploaded, or named by its file_id."""

    def method(double: TelegramDouble, params: Json) -> Json:
        chat = writable(double, params)
        stored = file_of(double, params, kind)
        caption, entities = checked(
            str(params.get("caption", "")), marks(params, "caption_entities"), CAPTION, "message caption"
        )
        body: Json = {kind: double.file_json(stored)}
        if caption:
            body |= {"caption": caption, **({"caption_entities": entities} if entities else {})}
        return sent(double, chat, params, body, stored)

    return method


def file_of(double: TelegramDouble, params: Json, kind: str) -> Stored:
    given = params.get(kind)
    if isinstance(given, dict) and "content" in given:
        content = given["content"]
        if len(content) > UPLOAD:
            raise ApiError(413, "Request Entity Too Large")
        if not content:
            raise bad_request("file must be non-empty")
        if kind == "photo":
            if len(content) > PHOTO:
                raise bad_request("file is too big")
            if why := why_no_picture(content):
                raise bad_request(why)
        return double.keep_file(kind, given["name"], given["mime"], content)
    if given not in double.files:
        raise bad_request("wrong file identifier/HTTP URL specified")
    return double.files[str(given)]


def edit_message_text(double: TelegramDouble, params: Json) -> Json:
    kept = editable(double, params)
    text, entities = checked(str(params.get("text", "")), marks(params, "entities"), MESSAGE, "message text")
    if "text" not in kept.body:
        raise bad_request("there is no text in the message to edit")
    return edited(double, kept, "text", "entities", text, entities)


def edit_message_caption(double: TelegramDouble, params: Json) -> Json:
    kept = editable(double, params)
    text, entities = checked(
        str(params.get("caption", "")), marks(params, "caption_entities"), CAPTION, "message caption"
    )
    if "text" in kept.body:
        raise bad_request("there is no caption in the message to edit")
    return edited(double, kept, "caption", "caption_entities", text, entities)


def edited(double: TelegramDouble, kept: Kept, field: str, marked: str, text: str, entities: list[Json]) -> Json:
    if kept.body.get(field, "") == text and kept.body.get(marked, []) == entities:
        raise bad_request(SAME)
    kept.body = {k: v for k, v in kept.body.items() if k not in (field, marked)}
    kept.body |= {field: text, "edit_date": int(double.now()), **({marked: entities} if entities else {})}
    return kept.body


def edit_message_reply_markup(double: TelegramDouble, params: Json) -> Json:
    editable(double, params)
    raise bad_request(SAME)  # no message here has a keyboard


def delete_message(double: TelegramDouble, params: Json) -> bool:
    chat = chat_of(double, params)
    kept = found(chat, params, "message to delete not found")
    if double.now() - kept.body["date"] > 2 * DAY and chat.type != "channel":
        raise bad_request("message can't be deleted for everyone")
    if not kept.ours and chat.type != "private" and chat.status != "administrator":
        raise bad_request("message can't be deleted")
    kept.gone = True
    return True


def set_message_reaction(double: TelegramDouble, params: Json) -> bool:
    chat = writable(double, params)
    kept = found(chat, params, "message to react not found")
    wanted = structure(params, "reaction") or []
    if len(wanted) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    for each in wanted:
        if each.get("type") != "emoji" or each.get("emoji") not in EMOJI:
            raise bad_request("REACTION_INVALID")
    kept.reactions[double.me.id] = [each["emoji"] for each in wanted]
    return True


def send_chat_action(double: TelegramDouble, params: Json) -> bool:
    chat = writable(double, params)
    if params.get("action") not in ACTIONS:
        raise bad_request("wrong parameter action in request")
    thread(chat, params)
    double.actions.append({"chat": chat.id, "topic": number(params, "message_thread_id"), "action": params["action"]})
    return True


def get_file(double: TelegramDouble, params: Json) -> Json:
    stored = double.files.get(str(params.get("file_id", "")).removesuffix("-small"))
    if stored is None:
        raise bad_request("wrong file_id or the file is temporarily unavailable")
    if stored.size > DOWNLOAD:
        raise bad_request("file is too big")
    return {**stored.json(), "file_path": stored.path}


def leave_chat(double: TelegramDouble, params: Json) -> bool:
    chat_of(double, params).status = "left"
    return True


METHODS: dict[str, Method] = {
    "getme": get_me,
    "getupdates": get_updates,
    "setwebhook": set_webhook,
    "deletewebhook": delete_webhook,
    "getwebhookinfo": get_webhook_info,
    "getchat": get_chat,
    "sendmessage": send_message,
    "senddocument": send_file("document"),
    "sendphoto": send_file("photo"),
    "sendaudio": send_file("audio"),
    "sendvideo": send_file("video"),
    "sendvoice": send_file("voice"),
    "editmessagetext": edit_message_text,
    "editmessagecaption": edit_message_caption,
    "editmessagereplymarkup": edit_message_reply_markup,
    "deletemessage": delete_message,
    "setmessagereaction": set_message_reaction,
    "sendchataction": send_chat_action,
    "getfile": get_file,
    "leavechat": leave_chat,
}
"""By name in lower case: Bot API methods are case-insensitive."""


# ---------------------------------------------------------------- what they share


def number(params: Json, name: str) -> int | None:
    value = params.get(name)
    try:
        return None if value is None or value == "" else int(value)
    except (TypeError, ValueError):
        raise bad_request(f"invalid {name} specified") from None


def structure(params: Json, name: str) -> Any:
    """A parameter that is JSON, also inside a form."""
    value = params.get(name)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise bad_request(f"can't parse {name} JSON object") from None


def marks(params: Json, name: str) -> list[Json]:
    if params.get("parse_mode"):
        raise bad_request("this double parses no markup: send entities")
    return structure(params, name) or []


def chat_of(double: TelegramDouble, params: Json) -> Chat:
    id = number(params, "chat_id")
    if id is None:
        raise bad_request("chat_id is empty")
    chat = double.chats.get(id)
    if chat is None:
        raise bad_request("chat not found")
    if chat.moved_to is not None:
        what = "group chat was upgraded to a supergroup chat"
        raise bad_request(what, migrate_to_chat_id=chat.moved_to)
    return chat


def writable(double: TelegramDouble, params: Json) -> Chat:
    """The chat, where the bot may speak."""
    chat = chat_of(double, params)
    if chat.blocked:
        raise forbidden("bot was blocked by the user")
    what = {"group": "group chat", "supergroup": "supergroup chat", "channel": "channel chat"}.get(chat.type, "chat")
    if chat.status == "kicked":
        raise forbidden(f"bot was kicked from the {what}")
    if chat.status == "left":
        raise forbidden(f"bot is not a member of the {what}")
    if chat.type == "channel" and chat.status != "administrator":
        raise bad_request("need administrator rights in the channel chat")
    return chat


def thread(chat: Chat, params: Json) -> Json:
    id = number(params, "message_thread_id")
    if id is None:
        return {}
    if id not in chat.topics:
        raise bad_request("message thread not found")
    return {"message_thread_id": id, "is_topic_message": True}


def reply(chat: Chat, params: Json) -> Json:
    told = structure(params, "reply_parameters")
    if not told:
        return {}
    kept = chat.messages.get(int(told.get("message_id", 0)))
    if kept is not None and not kept.gone:
        shown = {k: v for k, v in kept.body.items() if k != "reply_to_message"}
        return {"reply_to_message": shown}
    if told.get("allow_sending_without_reply"):
        return {}
    raise bad_request("message to be replied not found")


def found(chat: Chat, params: Json, missing: str) -> Kept:
    kept = chat.messages.get(number(params, "message_id") or 0)
    if kept is None or kept.gone:
        raise bad_request(missing)
    return kept


def editable(double: TelegramDouble, params: Json) -> Kept:
    chat = writable(double, params)
    kept = found(chat, params, "message to edit not found")
    if not kept.ours:
        raise bad_request("message can't be edited")
    return kept


def sent(double: TelegramDouble, chat: Chat, params: Json, body: Json, file: Stored | None = None) -> Json:
    """Take a message of the bot: from here on it is shown."""
    where = {**thread(chat, params), **reply(chat, params)}
    id = double.next_id(chat)
    who = {"sender_chat": chat.json()} if chat.type == "channel" else {"from": double.me.json()}
    message: Json = {"message_id": id, "date": int(double.now()), "chat": chat.json(), **who, **where, **body}
    chat.messages[id] = Kept(message, ours=True, file=file)
    return message
