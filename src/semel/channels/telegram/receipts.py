"""Classify Telegram's answer to a part: a receipt, `NotSent`, `Rejected` or `Unknown` (Law 7).

| answer | meaning |
|---|---|
| ok | sent |
| 429 | `NotSent`, for `retry_after` seconds |
| 401, 404 | `NotSent`: the token is refused; it may be corrected |
| 400 with `migrate_to_chat_id` | new message: `NotSent`, the next attempt goes to the new chat; change: `Rejected` |
| post, file: 400, the topic of a private chat is not found | `NotSent`: the next attempt goes to the chat itself |
| 400 about the formatting or the kind of file | `NotSent`: the next attempt goes without formatting, or as a document |
| edit: "is not modified"; delete: "not found" | sent: the message is already in the requested state |
| 4xx whose body is truncated | `NotSent` |
| other 4xx, redirects | `Rejected` |
| 5xx, 408, an answer that cannot be read | `Unknown` |
"""

from __future__ import annotations

from semel.channels.telegram.address import message_id, parse_address
from semel.channels.telegram.transport import TelegramReply
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown

TOKEN_REFUSED = (
    "Telegram does not accept this bot's token: correct it in the settings, or get a new one from BotFather (/token)"
)
TOKEN_RETRY_DELAY_S = 60.0
"""Seconds after which a refused token is tried again."""
_FORMAT_ERRORS = ("can't parse", "entity beg", "entities")
_TOPIC_GONE = "message thread not found"
_FILE_KIND_ERRORS = (
    "photo_",
    "image_process",
    "photo_save",
    "video_",
    "voice_messages_forbidden",
    "audio_",
    "file is too big",
)


class PlainNeeded(Exception):
    """Telegram refused the formatting; nothing was sent. The text without formatting may be accepted."""


class DocumentNeeded(Exception):
    """Telegram refused the kind of file; nothing was sent. The file as a document may be accepted."""


class GroupMigrated(Exception):
    """The group has a new id, `chat`; nothing was sent."""

    def __init__(self, chat: int) -> None:
        super().__init__(f"the group moved to {chat}")
        self.chat = chat


class TopicGone(Exception):
    """The topic of a private chat does not exist; nothing was sent. The next attempt goes to the chat itself."""


class CaptionNeeded(Exception):
    """The message to edit is a file, whose text is a caption; nothing was edited."""


def receipt_of(op: Op, reply: TelegramReply) -> Receipt:
    """Return the receipt for an answer to a part. Raises NotSent, Rejected or Unknown; or PlainNeeded, DocumentNeeded,
    GroupMigrated, TopicGone or CaptionNeeded if a different call may succeed."""
    if reply.ok:
        return _sent_receipt(op, reply)
    if reply.status == 429:
        raise NotSent("Telegram says: too many requests", reply.retry_after)
    if reply.status >= 500 or reply.status == 408 or not reply.is_bot_api:
        _raise_unclear(reply)
    if reply.status in (401, 404):
        raise NotSent(TOKEN_REFUSED, TOKEN_RETRY_DELAY_S)
    return _refused_receipt(op, reply)


def _raise_unclear(reply: TelegramReply) -> None:
    """Raise NotSent for a truncated 4xx answer, Rejected for the error page of a proxy, else Unknown."""
    if not reply.is_complete and 400 <= reply.status < 500 and reply.status != 408:
        raise NotSent(f"HTTP {reply.status}, and the answer broke off")
    if not reply.is_bot_api and 300 <= reply.status < 500 and reply.status != 408:
        raise Rejected(f"HTTP {reply.status}, not from Telegram: check the setting `api`")
    raise Unknown(f"HTTP {reply.status}" if reply.is_bot_api else f"HTTP {reply.status}, and not an answer of Telegram")


def _sent_receipt(op: Op, reply: TelegramReply) -> Receipt:
    result = reply.result
    if op.kind in ("edit", "react", "delete"):
        return Receipt(op.target or op.key)
    try:
        return Receipt(message_id(int(result["chat"]["id"]), int(result["message_id"])))
    except (TypeError, KeyError, ValueError, OverflowError):  # OverflowError: an id like 1e999
        raise Unknown("Telegram's answer names no message") from None


def _refused_receipt(op: Op, reply: TelegramReply) -> Receipt:
    description = reply.error_text.lower()
    new_chat = reply.parameters.get("migrate_to_chat_id")
    if isinstance(new_chat, int):
        if op.kind in ("post", "file"):
            raise GroupMigrated(new_chat)
        raise Rejected("Telegram: the group became a supergroup; what was said before that cannot be changed any more")
    if op.kind == "edit" and "message is not modified" in description:
        return Receipt(op.target or op.key)
    if op.kind == "delete" and "message to delete not found" in description:
        return Receipt(op.target or op.key)
    if op.kind == "edit" and "there is no text in the message to edit" in description:
        raise CaptionNeeded
    if op.kind in ("post", "file") and _TOPIC_GONE in description and not parse_address(op.address).is_shared:
        raise TopicGone(reply.error_text)
    if op.kind in ("post", "edit", "file") and any(word in description for word in _FORMAT_ERRORS):
        raise PlainNeeded(reply.error_text)
    if op.kind == "file" and any(word in description for word in _FILE_KIND_ERRORS):
        raise DocumentNeeded(reply.error_text)
    raise Rejected(f"Telegram: {_describe_refusal(reply)}")


def _describe_refusal(reply: TelegramReply) -> str:
    """Return Telegram's description of a refusal, with a hint about what to do if that is not obvious."""
    description = reply.error_text
    for words, hint in (
        ("bot was blocked", "this person blocked the bot; they must unblock it"),
        ("can't initiate", "this person must write to the bot first"),
        ("chat not found", "the bot is not there, or this person never wrote to it"),
        (_TOPIC_GONE, "this topic does not exist (any more)"),
        ("topic must be specified", "write to one person there: the chat's id and :direct-ID of their topic"),
        ("not a member", "add the bot to the group again"),
        ("was kicked", "add the bot to the group again"),
        ("reaction_invalid", "this chat does not allow this reaction"),
        ("request entity too large", "the file is larger than Telegram takes from bots, 50 MB"),
    ):
        if words in description.lower():
            return f"{description} ({hint})"
    return description
