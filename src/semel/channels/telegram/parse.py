"""Parse updates of the Bot API (https://core.telegram.org/bots/api#update) into inbox events.

| update | event | key |
|---|---|---|
| message, channel_post | message | `CHAT/MESSAGE` |
| edited_message, edited_channel_post | edit | `CHAT/MESSAGE#eDATE.DIGEST` |
| callback_query, of a button under our message | message | by `press_key` |
| message_reaction | reaction, one for each emoji added or removed | `CHAT/MESSAGE#rDATE.UPDATE.N` |
| service messages, our own messages, edits of live locations | none | |
| my_chat_member and other known kinds (`_IGNORED_KINDS`) | none | |
| unknown kinds, updates that cannot be parsed | unreadable | `update/UPDATE` |
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.channels.telegram.address import ChatPlace, first_chat, message_id
from semel.channels.telegram.message_content import SERVICE_FIELDS, TelegramFile, describe_content, files_of
from semel.channels.telegram.parse_entities import BotIdentity, read_text
from semel.gateway.ports import Incoming, Person, press_key
from semel.text.json_types import Json
from semel.text.wellformed import scrub

REQUESTED_KINDS = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "message_reaction",
    "callback_query",
    "my_chat_member",
)
"""The kinds of updates that we request."""
_IGNORED_KINDS = frozenset(
    {
        "inline_query", "chosen_inline_result", "shipping_query", "pre_checkout_query", "poll",
        "poll_answer", "chat_member", "chat_join_request", "message_reaction_count", "chat_boost", "removed_chat_boost",
        "my_chat_member",
    }
)  # fmt: skip
"""Kinds that are ignored. They may still be queued if another program used this bot before and requested them."""
TELEGRAM_USER_ID = 777000
"""The user id under which Telegram forwards a channel's posts into its discussion group."""
MAX_QUOTED_CHARS = 1000
"""Characters of the replied-to message that are kept with a reply."""


@dataclass(frozen=True)
class TelegramDraft:
    """An inbox event whose files are still to be downloaded. `press`: the id of the press as which it came."""

    incoming: Incoming
    files: tuple[TelegramFile, ...] = ()
    press: str | None = None


@dataclass(frozen=True)
class GroupMigration:
    """A group became a supergroup and got a new id."""

    old: int
    new: int


def parse_update(update: Json, us: BotIdentity, moved: Mapping[int, int]) -> list[TelegramDraft | GroupMigration]:
    """Parse one update. An update that cannot be parsed gives one unreadable draft; nothing is raised.

    `us`: our bot. `moved`: the first ids of groups that became supergroups, mapped to their current ids. An address
    keeps the first id (`semel.channels.telegram.address`).
    """
    try:
        return _parse_update(update, us, moved)
    except Exception as error:  # one odd update must not block all later ones (Law 1)
        return [_make_unreadable(update, f"it cannot be read ({type(error).__name__}: {error})")]


def _parse_update(update: Json, us: BotIdentity, moved: Mapping[int, int]) -> list[TelegramDraft | GroupMigration]:
    for kind in ("message", "channel_post"):
        if kind in update:
            return _parse_message(update[kind], us, moved)
    for kind in ("edited_message", "edited_channel_post"):
        if kind in update:
            return _parse_edit(update[kind], us, moved)
    if "message_reaction" in update:
        return list(_parse_reactions(update["message_reaction"], int(update["update_id"]), moved))
    if "callback_query" in update:
        return _parse_press(update["callback_query"], us, moved)
    kinds = update.keys() - {"update_id"}
    if kinds and kinds <= _IGNORED_KINDS:
        return []
    return [_make_unreadable(update, f"an update of the kind {', '.join(sorted(kinds)) or 'nothing'} is not known")]


def _make_unreadable(update: Json, reason: str) -> TelegramDraft:
    raw = json.dumps(update, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return TelegramDraft(Incoming("unreadable", f"update/{update.get('update_id')}", raw=raw, why=reason[:300]))


def make_unparsable_draft(id: int, raw: bytes) -> TelegramDraft:
    """Make an "unreadable" event with the raw bytes of an update that is not valid JSON. `id`: the update's id."""
    return TelegramDraft(Incoming("unreadable", f"update/{id}", raw=raw, why="Telegram's answer is not readable JSON"))


# ---------------------------------------------------------------- messages


_START = re.compile(r"/start( [A-Za-z0-9_-]{1,64})?")
"""What Telegram sends for a person who presses "Start" (core.telegram.org/bots/features#deep-linking)."""


def _parse_message(message: Json, us: BotIdentity, moved: Mapping[int, int]) -> list[TelegramDraft | GroupMigration]:
    chat = int(message["chat"]["id"])
    if new_chat := message.get("migrate_to_chat_id"):
        return [GroupMigration(chat, int(new_chat))]
    if old_chat := message.get("migrate_from_chat_id"):
        return [GroupMigration(int(old_chat), chat)]
    if message.keys() & SERVICE_FIELDS or (message.get("from") or {}).get("id") == us.id:
        return []
    files = files_of(message)
    text, mentioned = _parse_text(message, us, bool(files))
    incoming = _make_incoming("message", message_id(chat, int(message["message_id"])), message, text, us, moved)
    opens = not incoming.group and not files and _START.fullmatch(text) is not None
    mentioned = incoming.mentioned or mentioned
    return [TelegramDraft(replace(incoming, mentioned=mentioned, of=_replied_id(message), opens=opens), files)]


def _parse_edit(message: Json, us: BotIdentity, moved: Mapping[int, int]) -> list[TelegramDraft | GroupMigration]:
    """Return the edit event; [] for an edit that is ignored.

    Its key holds the edit time in seconds and a hash, since two edits may share a second.
    """
    if message.keys() & SERVICE_FIELDS or "location" in message or (message.get("from") or {}).get("id") == us.id:
        return []  # a live location is edited every few seconds
    chat = int(message["chat"]["id"])
    id = message_id(chat, int(message["message_id"]))
    files = files_of(message)
    text, mentioned = _parse_text(message, us, bool(files))
    content = json.dumps([text, [file.id for file in files]]).encode()
    version = f"{message.get('edit_date') or message['date']}.{hashlib.blake2b(content, digest_size=6).hexdigest()}"
    incoming = _make_incoming("edit", f"{id}#e{version}", message, text, us, moved)
    edited_at = float(message.get("edit_date") or message["date"])
    return [TelegramDraft(replace(incoming, of=id, at=edited_at, mentioned=incoming.mentioned or mentioned))]


def _make_incoming(
    kind: Any, key: str, message: Json, text: str, us: BotIdentity, moved: Mapping[int, int]
) -> Incoming:
    chat, place = message["chat"], _parse_place(message, moved)
    is_reply_to_us = ((_find_replied(message) or {}).get("from") or {}).get("id") == us.id
    return Incoming(
        kind,
        key,
        address=str(place),
        sender=_parse_sender(message),
        text=text,
        at=float(message["date"]),
        group=chat["type"] != "private",
        mentioned=is_reply_to_us or place.is_direct,  # who writes to a channel writes to the bot that answers for it
        title=_parse_title(message),
        data=_parse_data(message),
    )


def _parse_text(message: Json, us: BotIdentity, files: bool) -> tuple[str, bool]:
    """Return (text, whether it mentions us). The text is the message's text or caption, then a description of the other
    content."""
    text, mentioned = "", False
    for field, marks in (("text", "entities"), ("caption", "caption_entities")):
        if field in message:
            text, mentioned = read_text(scrub(str(message[field])), message.get(marks) or (), us)
    words = scrub(describe_content(message))
    if text or files:
        return "\n".join(part for part in (text, words) if part), mentioned
    return words or "[a message without content]", mentioned


def _parse_place(message: Json, moved: Mapping[int, int]) -> ChatPlace:
    """Return the chat or topic of a message. `message_thread_id` is a topic only with `is_topic_message`: replies
    outside of topics have it, too."""
    chat, direct = first_chat(moved, int(message["chat"]["id"])), message.get("direct_messages_topic")
    if isinstance(direct, dict):
        return ChatPlace(chat, int(direct["topic_id"]), is_direct=True)
    topic = message.get("message_thread_id") if message.get("is_topic_message") else None
    return ChatPlace(chat, None if topic is None else int(topic))


def _parse_title(message: Json) -> str:
    chat = str(message["chat"].get("title") or "")
    topic = (message.get("reply_to_message") or {}).get("forum_topic_created") or {}
    return f"{chat}: {topic['name']}" if topic.get("name") else chat


def _parse_sender(message: Json) -> Person:
    """Return the author. For an anonymous administrator, that is the group; for one who posts as a channel, the
    channel."""
    user, chat = message.get("from") or {}, message.get("sender_chat")
    if chat:
        name = " ".join(str(part) for part in (chat.get("title"), message.get("author_signature")) if part)
        return Person(str(chat["id"]), name, bot=user.get("id") == TELEGRAM_USER_ID)
    if not user:  # a channel post without an author
        return Person(str(message["chat"]["id"]), str(message["chat"].get("title") or ""))
    return parse_person(user)


def parse_person(user: Json) -> Person:
    """Convert a Telegram user to a `Person`."""
    name = " ".join(str(user[part]) for part in ("first_name", "last_name") if user.get(part))
    return Person(str(user["id"]), scrub(name or str(user.get("username") or "")), bool(user.get("is_bot")))


def _parse_press(query: Json, us: BotIdentity, moved: Mapping[int, int]) -> list[TelegramDraft | GroupMigration]:
    """Return the event of a button's press (https://core.telegram.org/bots/api#callbackquery); [] if it is not ours."""
    message, answer = query.get("message"), query.get("data")
    if not isinstance(message, dict) or not answer or (message.get("from") or {}).get("id", us.id) != us.id:
        return []  # of an inline message, a game, or another bot's message
    press, of = str(query["id"]), message_id(int(message["chat"]["id"]), int(message["message_id"]))
    return [
        TelegramDraft(
            Incoming(
                "message",
                press_key(str(answer), of, press),
                address=str(_parse_place(message, moved)),
                sender=parse_person(query["from"]),
                text=scrub(str(answer)),
                of=of,
                group=message["chat"].get("type") != "private",
                mentioned=True,
                title=_parse_title(message),
                data={"chat": str(message["chat"].get("type") or "")},
            ),
            press=press,
        )
    ]


# ---------------------------------------------------------------- references


def _replied_id(message: Json) -> str | None:
    """Return the id of the message that this one replies to, or None. The implicit reply of every message in a topic to
    the topic's first message does not count."""
    target = _find_replied(message)
    return message_id(int(message["chat"]["id"]), int(target["message_id"])) if target else None


def _find_replied(message: Json) -> Json | None:
    target = message.get("reply_to_message")
    if not isinstance(target, dict):
        return None
    if message.get("is_topic_message") and target.get("message_id") == message.get("message_thread_id"):
        return None
    return target


def _parse_data(message: Json) -> Json:
    """Return additional data of the event: album, forward, reply, via (docs/telegram.md)."""
    data: Json = {"chat": message["chat"]["type"]}
    if message.get("media_group_id"):
        data["album"] = str(message["media_group_id"])
    if origin := message.get("forward_origin"):
        data["forwarded"] = _name_origin(origin)
    if (target := _find_replied(message)) is not None:
        quotation = (
            message.get("quote", {}).get("text")
            or target.get("text")
            or target.get("caption")
            or describe_content(target)
        )
        data["replied"] = {
            "from": _parse_sender(target).name if "date" in target else "",
            "text": scrub(str(quotation))[:MAX_QUOTED_CHARS],
        }
    elif message.get("external_reply"):
        quotation = str(message.get("quote", {}).get("text") or "")
        data["replied"] = {
            "from": _name_origin(message["external_reply"].get("origin") or {}),
            "text": scrub(quotation)[:MAX_QUOTED_CHARS],
        }
    if via := message.get("via_bot"):
        data["via"] = str(via.get("username") or via.get("id"))
    return data


def _name_origin(origin: Json) -> str:
    """Return the name of a forwarded message's original author."""
    if user := origin.get("sender_user"):
        return parse_person(user).name
    chat = origin.get("sender_chat") or origin.get("chat") or {}
    return scrub(str(origin.get("sender_user_name") or chat.get("title") or "somebody"))


# ---------------------------------------------------------------- reactions


def _parse_reactions(message_reaction: Json, update: int, moved: Mapping[int, int]) -> Sequence[TelegramDraft]:
    """Return one event for each reaction that was set or removed. The update has the old and the new reactions."""
    chat = int(message_reaction["chat"]["id"])
    id = message_id(chat, int(message_reaction["message_id"]))
    old_emoji, new_emoji = (
        [_parse_emoji(item) for item in message_reaction.get(name) or ()] for name in ("old_reaction", "new_reaction")
    )
    changes = [(item, True) for item in old_emoji if item not in new_emoji] + [
        (item, False) for item in new_emoji if item not in old_emoji
    ]
    actor = message_reaction.get("actor_chat")
    sender = (
        Person(str(actor["id"]), str(actor.get("title") or "")) if actor else parse_person(message_reaction["user"])
    )
    return [
        TelegramDraft(
            Incoming(
                "reaction",
                f"{id}#r{message_reaction['date']}.{update}.{n}",
                address=str(first_chat(moved, chat)),
                sender=sender,
                text=emoji,
                at=float(message_reaction["date"]),
                of=id,
                group=message_reaction["chat"]["type"] != "private",
                title=str(message_reaction["chat"].get("title") or ""),
                removed=removed,
            )
        )
        for n, (emoji, removed) in enumerate(changes)
    ]


def _parse_emoji(reaction: Json) -> str:
    if reaction.get("type") == "emoji":
        return scrub(str(reaction["emoji"]))
    return "⭐" if reaction.get("type") == "paid" else f"custom emoji {reaction.get('custom_emoji_id', '')}".strip()
