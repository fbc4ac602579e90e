"""Parse updates of the Bot API (https://core.telegram.org/bots/api#update) into inbox events.

| update | event | key |
|---|---|---|
| message, channel_post | message | `CHAT/MESSAGE` |
| edited_message, edited_channel_post | edit | `CHAT/MESSAGE#eDATE.DIGEST` |
| message_reaction | reaction, one for each emoji set or taken back | `CHAT/MESSAGE#rDATE.UPDATE.N` |
| my_chat_member, service messages | nothing: no person said it | |
| another kind | unreadable: it was not asked for | `update/UPDATE` |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.channels.telegram.address import Place, first, message_id
from semel.channels.telegram.message_content import SERVICE, TelegramFile, files_of, in_words
from semel.channels.telegram.parse_entities import BotIdentity, read
from semel.gateway.ports import Incoming, Person

Json = dict[str, Any]

ALLOWED = ("message", "edited_message", "channel_post", "edited_channel_post", "message_reaction", "my_chat_member")
"""The kinds of updates that we request."""
_UNHEARD = frozenset(
    {
        "inline_query", "chosen_inline_result", "callback_query", "shipping_query", "pre_checkout_query", "poll",
        "poll_answer", "chat_member", "chat_join_request", "message_reaction_count", "chat_boost", "removed_chat_boost",
        "my_chat_member",
    }
)  # fmt: skip
"""Kinds that are ignored. They may still be queued if another program used this bot before and requested them."""
TELEGRAM = 777000
"""The user id under which Telegram forwards a channel's posts into its discussion group."""
QUOTED = 1000
"""Characters of the replied-to message that are kept with a reply."""


@dataclass(frozen=True)
class Draft:
    """An inbox event whose files are still to be downloaded."""

    what: Incoming
    files: tuple[TelegramFile, ...] = ()


@dataclass(frozen=True)
class Move:
    """A group became a supergroup and got a new id."""

    old: int
    new: int


def heard(update: Json, us: BotIdentity, moved: Mapping[int, int]) -> list[Draft | Move]:
    """Parse one update. An update that cannot be parsed gives one unreadable draft; nothing is raised."""
    try:
        return _heard(update, us, moved)
    except Exception as fault:  # one odd update must not block all later ones (Law 1)
        return [_unreadable(update, f"it cannot be read ({type(fault).__name__}: {fault})")]


def _heard(update: Json, us: BotIdentity, moved: Mapping[int, int]) -> list[Draft | Move]:
    for kind in ("message", "channel_post"):
        if kind in update:
            return _message(update[kind], us, moved)
    for kind in ("edited_message", "edited_channel_post"):
        if kind in update:
            return _edit(update[kind], us, moved)
    if "message_reaction" in update:
        return list(_reactions(update["message_reaction"], int(update["update_id"]), moved))
    kinds = update.keys() - {"update_id"}
    if kinds and kinds <= _UNHEARD:
        return []
    return [_unreadable(update, f"an update of the kind {', '.join(sorted(kinds)) or 'nothing'} is not known")]


def _unreadable(update: Json, why: str) -> Draft:
    raw = json.dumps(update, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return Draft(Incoming("unreadable", f"update/{update.get('update_id')}", raw=raw, why=why[:300]))


def torn(id: int, raw: bytes) -> Draft:
    """The unreadable draft for an update that is not valid JSON."""
    return Draft(Incoming("unreadable", f"update/{id}", raw=raw, why="Telegram's answer is no JSON that can be read"))


# ---------------------------------------------------------------- messages


def _message(told: Json, us: BotIdentity, moved: Mapping[int, int]) -> list[Draft | Move]:
    chat = int(told["chat"]["id"])
    if new := told.get("migrate_to_chat_id"):
        return [Move(chat, int(new))]
    if old := told.get("migrate_from_chat_id"):
        return [Move(int(old), chat)]
    if told.keys() & SERVICE or (told.get("from") or {}).get("id") == us.id:
        return []
    files = files_of(told)
    text, mentioned = _text(told, us, bool(files))
    what = _incoming("message", message_id(chat, int(told["message_id"])), told, text, us, moved)
    return [Draft(replace(what, mentioned=what.mentioned or mentioned, of=_reply(told)), files)]


def _edit(told: Json, us: BotIdentity, moved: Mapping[int, int]) -> list[Draft | Move]:
    """An edit. Its version is the time in seconds plus a hash of the content: two edits may share a second."""
    if told.keys() & SERVICE or "location" in told or (told.get("from") or {}).get("id") == us.id:
        return []  # a live location is edited every few seconds
    chat = int(told["chat"]["id"])
    id = message_id(chat, int(told["message_id"]))
    files = files_of(told)
    text, mentioned = _text(told, us, bool(files))
    content = json.dumps([text, [file.id for file in files]]).encode()
    version = f"{told.get('edit_date') or told['date']}.{hashlib.blake2b(content, digest_size=6).hexdigest()}"
    what = _incoming("edit", f"{id}#e{version}", told, text, us, moved)
    at = float(told.get("edit_date") or told["date"])
    return [Draft(replace(what, of=id, at=at, mentioned=what.mentioned or mentioned))]


def _incoming(kind: Any, key: str, told: Json, text: str, us: BotIdentity, moved: Mapping[int, int]) -> Incoming:
    chat = told["chat"]
    return Incoming(
        kind,
        key,
        address=str(_place(told, moved)),
        sender=_sender(told),
        text=text,
        at=float(told["date"]),
        group=chat["type"] != "private",
        mentioned=_replies_to_us(told, us),
        title=_title(told),
        data=_data(told),
    )


def _text(told: Json, us: BotIdentity, files: bool) -> tuple[str, bool]:
    """(text, whether it mentions us): the message's text or caption, with a description of its other content."""
    text, mentioned = "", False
    for field, marks in (("text", "entities"), ("caption", "caption_entities")):
        if field in told:
            text, mentioned = read(_whole(str(told[field])), told.get(marks) or (), us)
    words = _whole(in_words(told))
    if text or files:
        return "\n".join(part for part in (text, words) if part), mentioned
    return words or "[a message without content]", mentioned


def _whole(text: str) -> str:
    """Replace unpaired surrogates one by one, so that the entities' offsets stay valid."""
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def _place(told: Json, moved: Mapping[int, int]) -> Place:
    """The chat or topic. `message_thread_id` names a topic only with `is_topic_message`; other replies have it, too."""
    topic = told.get("message_thread_id") if told.get("is_topic_message") else None
    return Place(first(moved, int(told["chat"]["id"])), None if topic is None else int(topic))


def _title(told: Json) -> str:
    chat = str(told["chat"].get("title") or "")
    opened = (told.get("reply_to_message") or {}).get("forum_topic_created") or {}
    return f"{chat}: {opened['name']}" if opened.get("name") else chat


def _sender(told: Json) -> Person:
    """The author. For an anonymous administrator it is the group; for someone who posts as a channel, the channel."""
    user, chat = told.get("from") or {}, told.get("sender_chat")
    if chat:
        name = " ".join(str(part) for part in (chat.get("title"), told.get("author_signature")) if part)
        return Person(str(chat["id"]), name, bot=user.get("id") == TELEGRAM)
    if not user:  # a channel post without an author
        return Person(str(told["chat"]["id"]), str(told["chat"].get("title") or ""))
    return person(user)


def person(user: Json) -> Person:
    """The person for a Telegram user."""
    name = " ".join(str(user[part]) for part in ("first_name", "last_name") if user.get(part))
    return Person(str(user["id"]), _whole(name or str(user.get("username") or "")), bool(user.get("is_bot")))


# ---------------------------------------------------------------- what it refers to


def _reply(told: Json) -> str | None:
    """The id of the message that is replied to, or None. Messages in a topic formally reply to its first message; that
    does not count."""
    to = _replied(told)
    return message_id(int(told["chat"]["id"]), int(to["message_id"])) if to else None


def _replied(told: Json) -> Json | None:
    to = told.get("reply_to_message")
    if not isinstance(to, dict):
        return None
    if told.get("is_topic_message") and to.get("message_id") == told.get("message_thread_id"):
        return None
    return to


def _replies_to_us(told: Json, us: BotIdentity) -> bool:
    return ((_replied(told) or {}).get("from") or {}).get("id") == us.id


def _data(told: Json) -> Json:
    """Additional data of the event: album, forward, reply, via (docs/telegram.md)."""
    data: Json = {"chat": told["chat"]["type"]}
    if told.get("media_group_id"):
        data["album"] = str(told["media_group_id"])
    if origin := told.get("forward_origin"):
        data["forwarded"] = _origin(origin)
    if (to := _replied(told)) is not None:
        quoted = told.get("quote", {}).get("text") or to.get("text") or to.get("caption") or in_words(to)
        data["replied"] = {"from": _sender(to).name if "date" in to else "", "text": _whole(str(quoted))[:QUOTED]}
    elif told.get("external_reply"):
        quoted = str(told.get("quote", {}).get("text") or "")
        data["replied"] = {"from": _origin(told["external_reply"].get("origin") or {}), "text": _whole(quoted)[:QUOTED]}
    if via := told.get("via_bot"):
        data["via"] = str(via.get("username") or via.get("id"))
    return data


def _origin(origin: Json) -> str:
    """The name of a forwarded message's original author."""
    if user := origin.get("sender_user"):
        return person(user).name
    chat = origin.get("sender_chat") or origin.get("chat") or {}
    return _whole(str(origin.get("sender_user_name") or chat.get("title") or "somebody"))


# ---------------------------------------------------------------- reactions


def _reactions(told: Json, update: int, moved: Mapping[int, int]) -> Sequence[Draft]:
    """One event for each reaction that was set or removed, compared with the previous ones."""
    chat = int(told["chat"]["id"])
    id = message_id(chat, int(told["message_id"]))
    old, new = ([_emoji(each) for each in told.get(name) or ()] for name in ("old_reaction", "new_reaction"))
    changes = [(each, True) for each in old if each not in new] + [(each, False) for each in new if each not in old]
    actor = told.get("actor_chat")
    sender = Person(str(actor["id"]), str(actor.get("title") or "")) if actor else person(told["user"])
    return [
        Draft(
            Incoming(
                "reaction",
                f"{id}#r{told['date']}.{update}.{n}",
                address=str(first(moved, chat)),
                sender=sender,
                text=emoji,
                at=float(told["date"]),
                of=id,
                group=told["chat"]["type"] != "private",
                title=str(told["chat"].get("title") or ""),
                removed=gone,
            )
        )
        for n, (emoji, gone) in enumerate(changes)
    ]


def _emoji(reaction: Json) -> str:
    if reaction.get("type") == "emoji":
        return _whole(str(reaction["emoji"]))
    return "⭐" if reaction.get("type") == "paid" else f"custom emoji {reaction.get('custom_emoji_id', '')}".strip()


__all__ = ["ALLOWED", "Draft", "Move", "heard", "person", "torn"]
