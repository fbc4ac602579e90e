"""The content of a message besides its text: its files, and a description of anything else (a poll, a location)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.text.json_types import Json

MAX_FETCH_BYTES = 20_000_000
"""Maximum size in bytes of a file that a bot can download."""


@dataclass(frozen=True)
class TelegramFile:
    """A file of a message. `size` is in bytes, 0 if unknown. `is_voice`: it is a voice note, and not music."""

    id: str
    name: str
    mime: str
    size: int = 0
    is_voice: bool = False


_FILE_DEFAULTS = {  # field -> (file extension, MIME type), used if the message does not give them
    "animation": (".mp4", "video/mp4"),
    "audio": (".mp3", "audio/mpeg"),
    "video": (".mp4", "video/mp4"),
    "video_note": (".mp4", "video/mp4"),
    "voice": (".ogg", "audio/ogg"),
    "document": ("", "application/octet-stream"),
}

SERVICE_FIELDS = frozenset(
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

_METADATA_FIELDS = frozenset(
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
    """Return the files of a message; of a photo, only the largest size."""
    files = []
    if sizes := message.get("photo"):
        best = max(sizes, key=lambda each: int(each.get("width", 0)) * int(each.get("height", 0)))
        files.append(_parse_file(best, "photo", ".jpg", "image/jpeg"))
    for field, (ending, mime) in _FILE_DEFAULTS.items():
        file = message.get(field)
        if isinstance(file, dict) and not (field == "document" and "animation" in message):
            files.append(_parse_file(file, field, ending, mime))
    return tuple(files)


def _parse_file(file: Json, field: str, ending: str, mime: str) -> TelegramFile:
    unique = str(file.get("file_unique_id") or "file")
    name = str(file.get("file_name") or f"{field}-{unique}{ending}")
    mime, size = str(file.get("mime_type") or mime), int(file.get("file_size") or 0)
    return TelegramFile(str(file["file_id"]), name, mime, size, is_voice=field == "voice")


def describe_content(message: Json) -> str:
    """Describe the content that is neither text nor file. Returns "" if there is none."""
    for field, describe in _DESCRIBERS.items():
        if field in message:
            return str(describe(message[field]))
    other_fields = sorted(message.keys() - _METADATA_FIELDS - SERVICE_FIELDS - _FILE_DEFAULTS.keys() - {"photo"})
    return f"[{', '.join(name.replace('_', ' ') for name in other_fields)}]" if other_fields else ""


def _describe_venue(content: Json) -> str:
    location = content.get("location", {})
    return f"[venue: {content.get('title', '')}, {content.get('address', '')}, {_describe_point(location)}]"


def _describe_point(content: Json) -> str:
    return f"{content.get('latitude')}, {content.get('longitude')}"


def _describe_contact(content: Json) -> str:
    name = " ".join(str(content[part]) for part in ("first_name", "last_name") if content.get(part))
    return f"[contact: {name}, {content.get('phone_number', '')}]"


def _describe_poll(content: Json) -> str:
    options = "\n".join(f"- {option.get('text', '')}" for option in content.get("options", []))
    return f"[poll: {content.get('question', '')}]\n{options}".rstrip()


def _describe_checklist(content: Json) -> str:
    tasks = "\n".join(
        f"- [{'x' if task.get('completion_date') else ' '}] {task.get('text', '')}" for task in content.get("tasks", [])
    )
    return f"[checklist: {content.get('title', '')}]\n{tasks}".rstrip()


def _rich_texts(value: Any, depth: int = 0) -> list[str]:
    """Return the texts of a rich message in order."""
    if depth > 40:
        return []
    if isinstance(value, list):
        texts = [item for item in value if isinstance(item, str)]
        if texts and all(isinstance(item, str) or (isinstance(item, dict) and "text" in item) for item in value):
            return ["".join("".join(_rich_texts(item, depth + 1)) for item in value)]
        return [line for item in value for line in _rich_texts(item, depth + 1)]
    if isinstance(value, dict):
        parts = ("title", "text", "caption", "blocks", "items", "cells", "rows")
        return [line for part in parts if part in value for line in _rich_texts(value[part], depth + 1)]
    return [value] if isinstance(value, str) and value else []


_DESCRIBERS: dict[str, Any] = {
    "venue": _describe_venue,  # before "location", which a venue has, too
    "location": lambda told: f"[location: {_describe_point(told)}]",
    "sticker": lambda told: f"[sticker {told['emoji']}]" if told.get("emoji") else "[sticker]",
    "contact": _describe_contact,
    "poll": _describe_poll,
    "checklist": _describe_checklist,
    "dice": lambda told: f"[{told.get('emoji', 'dice')} {told.get('value', '')}]",
    "game": lambda told: f"[game: {told.get('title', '')}]",
    "story": lambda told: "[story]",
    "rich_message": lambda told: "\n".join(_rich_texts(told)) or "[rich message]",
}
