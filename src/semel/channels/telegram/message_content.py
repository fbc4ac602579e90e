"""The content of a message other than its text: its files, and a description in words of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

MAX_FETCH_BYTES = 20_000_000
"""Maximum size in bytes of a file that a bot can download."""


@dataclass(frozen=True)
class TelegramFile:
    """A file of a message. `size` is in bytes, 0 if unknown."""

    id: str
    name: str
    mime: str
    size: int = 0


_FILES = {  # field -> (ending, mime) where the message does not tell
    "animation": (".mp4", "video/mp4"),
    "audio": (".mp3", "audio/mpeg"),
    "video": (".mp4", "video/mp4"),
    "video_note": (".mp4", "video/mp4"),
    "voice": (".ogg", "audio/ogg"),
    "document": ("", "application/octet-stream"),
}

SERVICE = frozenset(
    {
        "new_chat_members", "left_chat_member", "new_chat_title", "new_chat_photo", "delete_chat_photo",
        "group_chat_created", "supergroup_chat_created", "channel_chat_created", "message_auto_delete_timer_changed",
        "migrate_to_chat_id", "migrate_from_chat_id", "pinned_message", "connected_website", "write_access_allowed",
        "forum_topic_created", "forum_topic_edited", "forum_topic_closed", "forum_topic_reopened",
        "general_forum_topic_hidden", "general_forum_topic_unhidden", "video_chat_scheduled", "video_chat_started",
        "video_chat_ended", "video_chat_participants_invited", "chat_background_set", "boost_added",
        "proximity_alert_triggered", "users_shared", "chat_shared", "web_app_data", "successful_payment",
        "refunded_payment", "giveaway_created", "giveaway_completed", "direct_message_price_changed",
    }
)  # fmt: skip
"""Fields of service messages, which report a change of the chat and are not written by a person."""

_ABOUT = frozenset(
    {
        "message_id", "message_thread_id", "from", "sender_chat", "sender_boost_count", "sender_business_bot", "date",
        "business_connection_id", "chat", "forward_origin", "is_topic_message", "is_automatic_forward", "via_bot",
        "reply_to_message", "external_reply", "quote", "reply_to_story", "edit_date", "has_protected_content",
        "media_group_id", "author_signature", "text", "entities", "caption", "caption_entities", "effect_id",
        "link_preview_options", "show_caption_above_media", "has_media_spoiler", "reply_markup", "is_from_offline",
        "direct_messages_topic", "reply_to_checklist_task_id", "is_paid_post", "suggested_post_info", "sender_tag",
    }
)  # fmt: skip
"""Fields of a message that are not content."""


def files_of(message: Json) -> tuple[TelegramFile, ...]:
    """The files of a message; of a photo, only the largest size."""
    found = []
    if sizes := message.get("photo"):
        best = max(sizes, key=lambda each: int(each.get("width", 0)) * int(each.get("height", 0)))
        found.append(_wanted(best, "photo", ".jpg", "image/jpeg"))
    for field, (ending, mime) in _FILES.items():
        told = message.get(field)
        if isinstance(told, dict) and not (field == "document" and "animation" in message):
            found.append(_wanted(told, field, ending, mime))
    return tuple(found)


def _wanted(told: Json, field: str, ending: str, mime: str) -> TelegramFile:
    unique = str(told.get("file_unique_id") or "file")
    name = str(told.get("file_name") or f"{field}-{unique}{ending}")
    return TelegramFile(str(told["file_id"]), name, str(told.get("mime_type") or mime), int(told.get("file_size") or 0))


def in_words(message: Json) -> str:
    """A description of the content that is neither text nor file; "" if there is none."""
    for field, tell in _TELLERS.items():
        if field in message:
            return str(tell(message[field]))
    rest = sorted(message.keys() - _ABOUT - SERVICE - _FILES.keys() - {"photo"})
    return f"[{', '.join(each.replace('_', ' ') for each in rest)}]" if rest else ""


def _sticker(told: Json) -> str:
    return f"[sticker {told['emoji']}]" if told.get("emoji") else "[sticker]"


def _venue(told: Json) -> str:
    at = told.get("location", {})
    return f"[venue: {told.get('title', '')}, {told.get('address', '')}, {_point(at)}]"


def _point(told: Json) -> str:
    return f"{told.get('latitude')}, {told.get('longitude')}"


def _contact(told: Json) -> str:
    name = " ".join(str(told[part]) for part in ("first_name", "last_name") if told.get(part))
    return f"[contact: {name}, {told.get('phone_number', '')}]"


def _poll(told: Json) -> str:
    options = "\n".join(f"- {each.get('text', '')}" for each in told.get("options", []))
    return f"[poll: {told.get('question', '')}]\n{options}".rstrip()


def _checklist(told: Json) -> str:
    tasks = "\n".join(
        f"- [{'x' if each.get('completion_date') else ' '}] {each.get('text', '')}" for each in told.get("tasks", [])
    )
    return f"[checklist: {told.get('title', '')}]\n{tasks}".rstrip()


def _rich(told: Any) -> str:
    """The texts of a rich message in order, one per line."""
    return "\n".join(_strings(told)) or "[rich message]"


def _strings(value: Any, depth: int = 0) -> list[str]:
    if depth > 40:
        return []
    if isinstance(value, list):
        whole = [each for each in value if isinstance(each, str)]
        if whole and all(isinstance(each, str) or (isinstance(each, dict) and "text" in each) for each in value):
            return ["".join("".join(_strings(each, depth + 1)) for each in value)]
        return [line for each in value for line in _strings(each, depth + 1)]
    if isinstance(value, dict):
        parts = ("title", "text", "caption", "blocks", "items", "cells", "rows")
        return [line for part in parts if part in value for line in _strings(value[part], depth + 1)]
    return [value] if isinstance(value, str) and value else []


_TELLERS: dict[str, Any] = {
    "venue": _venue,  # before location, which it has, too
    "location": lambda told: f"[location: {_point(told)}]",
    "sticker": _sticker,
    "contact": _contact,
    "poll": _poll,
    "checklist": _checklist,
    "dice": lambda told: f"[{told.get('emoji', 'dice')} {told.get('value', '')}]",
    "game": lambda told: f"[game: {told.get('title', '')}]",
    "story": lambda told: "[story]",
    "rich_message": _rich,
}
