"""Classify Telegram's answer to a part: a receipt, `NotSent`, `Rejected` or `Unknown` (Law 7).

| answer | meaning |
|---|---|
| ok | sent |
| 429 | `NotSent`, for `retry_after` seconds |
| 401, 404 | `NotSent`: the token is refused; it may be corrected |
| 400 with `migrate_to_chat_id` | `NotSent`: the next attempt goes to the new chat; `Rejected` for a change in the old |
| 400 about the formatting, or the kind of file | `NotSent`: the next attempt goes without it |
| edit: "is not modified"; delete: "not found" | sent: it is so already |
| other 4xx, redirects | `Rejected` |
| 5xx, 408, an answer that cannot be read | `Unknown` |
"""

from __future__ import annotations

from semel.channels.telegram.address import message_id
from semel.channels.telegram.transport import Reply
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown

TOKEN = "Telegram does not accept this bot's token: get a new one from BotFather (/token), and put it into the settings"
TOKEN_WAIT = 60.0
"""Seconds after which a refused token is tried again."""
_FORMAT = ("can't parse", "entity beg", "entities")
_KIND = ("photo_", "image_process", "photo_save", "video_", "voice_messages_forbidden", "audio_", "file is too big")


class Plain(Exception):
    """Telegram refused the formatting or the kind of file; nothing was sent. Sending it plainly may succeed."""


class Moved(Exception):
    """The group has a new id, `chat`; nothing was sent."""

    def __init__(self, chat: int) -> None:
        super().__init__(f"the group moved to {chat}")
        self.chat = chat


class Caption(Exception):
    """The message to edit is a file, whose text is a caption; nothing was edited."""


def receipt_of(op: Op, reply: Reply) -> Receipt:
    """The receipt for an answer. Raises NotSent, Rejected or Unknown, or Plain, Moved or Caption if another call may
    succeed."""
    if reply.ok:
        return _receipt(op, reply)
    if reply.status == 429:
        raise NotSent("Telegram says: too many requests", reply.retry_after)
    if reply.status >= 500 or reply.status == 408 or not reply.read:
        _unclear(reply)
    if reply.status in (401, 404):
        raise NotSent(TOKEN, TOKEN_WAIT)
    return _refused(op, reply)


def _unclear(reply: Reply) -> None:
    """Raises Unknown, or NotSent for a refusal whose text broke off, or Rejected for the error page of a proxy."""
    if not reply.whole and 400 <= reply.status < 500 and reply.status != 408:
        raise NotSent(f"HTTP {reply.status}, and the answer broke off")
    if not reply.read and 300 <= reply.status < 500 and reply.status != 408:
        raise Rejected(f"HTTP {reply.status}, not from Telegram: check the setting `api`")
    raise Unknown(f"HTTP {reply.status}" if reply.read else f"HTTP {reply.status}, and no answer of Telegram's")


def _receipt(op: Op, reply: Reply) -> Receipt:
    result = reply.result
    if op.kind in ("edit", "react", "delete"):
        return Receipt(op.target or op.key)
    try:
        return Receipt(message_id(int(result["chat"]["id"]), int(result["message_id"])))
    except (TypeError, KeyError, ValueError, OverflowError):  # OverflowError: an id like 1e999
        raise Unknown("Telegram's answer names no message") from None


def _refused(op: Op, reply: Reply) -> Receipt:
    said = reply.said.lower()
    new = reply.parameters.get("migrate_to_chat_id")
    if isinstance(new, int):
        if op.kind in ("post", "file"):
            raise Moved(new)
        raise Rejected("Telegram: the group became a supergroup; what was said before that cannot be changed any more")
    if op.kind == "edit" and "message is not modified" in said:
        return Receipt(op.target or op.key)
    if op.kind == "delete" and "message to delete not found" in said:
        return Receipt(op.target or op.key)
    if op.kind == "edit" and "there is no text in the message to edit" in said:
        raise Caption
    if op.kind in ("post", "edit", "file") and any(word in said for word in _FORMAT):
        raise Plain(reply.said)
    if op.kind == "file" and any(word in said for word in _KIND):
        raise Plain(reply.said)
    raise Rejected(f"Telegram: {_plainly(reply)}")


def _plainly(reply: Reply) -> str:
    """Telegram's description of a refusal, with a hint what to do if that is not obvious."""
    said = reply.said
    for sign, help in (
        ("bot was blocked", "this person blocked the bot; they must unblock it"),
        ("can't initiate", "this person must write to the bot first"),
        ("chat not found", "the bot is not there, or this person never wrote to it"),
        ("message thread not found", "this topic does not exist (any more)"),
        ("not a member", "add the bot to the group again"),
        ("was kicked", "add the bot to the group again"),
        ("reaction_invalid", "this chat does not allow this reaction"),
        ("request entity too large", "the file is larger than Telegram takes from bots, 50 MB"),
    ):
        if sign in said.lower():
            return f"{said} ({help})"
    return said
