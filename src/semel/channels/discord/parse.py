"""Parse dispatches of the gateway (https://docs.discord.com/developers/events/gateway-events) into inbox events.

| dispatch | event | key |
|---|---|---|
| MESSAGE_CREATE | message | `CHANNEL/MESSAGE` |
| MESSAGE_CREATE of our own | echo | its nonce, which is `Op.key` |
| MESSAGE_UPDATE with a time of the edit | edit | `CHANNEL/MESSAGE#eTIME` |
| MESSAGE_DELETE, MESSAGE_DELETE_BULK | delete, of messages whose author is known | `CHANNEL/MESSAGE#d` |
| MESSAGE_REACTION_ADD, _REMOVE | reaction | `CHANNEL/MESSAGE#rSESSION.SEQ` |
| INTERACTION_CREATE: a slash command | message | `CHANNEL/INTERACTION` |
| INTERACTION_CREATE: a button | message | by `press_key` |
| system messages (joins, pins, ...), other dispatches | none | |
| one of these that cannot be parsed | unreadable | `SESSION.SEQ` |

Discord does not say who deleted a message, so a deletion counts as its author's, who is remembered for the newest
messages. A message that was written while no session could be resumed comes from the channel's history, in the same
form.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from semel.channels.discord.address import DiscordPlace, is_snowflake, message_id, time_of
from semel.channels.discord.parse_text import describe_content, name_of, quote_replied, read_text
from semel.channels.discord.places import Places
from semel.channels.discord.unopened_threads import UnopenedThreads
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import Incoming, Person, press_key
from semel.text.json_types import Json, object_at, objects_in, text_at, value_at

REPLY = 19
MESSAGE_TYPES = frozenset({0, REPLY})
"""Types of messages that people write: a message and a reply
(https://docs.discord.com/developers/resources/message#message-object-message-types)."""
IS_VOICE_MESSAGE = 1 << 13
"""The flag of a voice message (https://docs.discord.com/developers/resources/message#message-object-message-flags)."""
COMMAND, COMPONENT = 2, 3
"""Types of interactions: a slash command, and a button or another component."""
NO_CONTENT = "[a message without content]"
ONLY_A_MENTION = "[a message that only mentions you]"
MAX_TITLE_CHARS = 80
_MAX_AUTHORS = 20_000
_UNREADABLE = (TypeError, KeyError, ValueError, AttributeError, OverflowError)
"""What reading raises if a field is missing or of another type."""


@dataclass(frozen=True)
class DiscordFile:
    """A file of a message. `size`: in bytes. `message`: the message's id. `is_voice`: it is a voice message."""

    id: str
    name: str
    mime: str
    size: int
    url: str
    message: str
    is_voice: bool = False


@dataclass(frozen=True)
class Interaction:
    """What has to be acknowledged within three seconds. `token`: a secret, for a quarter of an hour."""

    id: str
    token: str = field(repr=False)
    is_component: bool
    application: str


@dataclass(frozen=True)
class DiscordDraft:
    """An inbox event whose files are still to be downloaded, and the interaction that it came as."""

    incoming: Incoming
    files: tuple[DiscordFile, ...] = ()
    interaction: Interaction | None = None


class DispatchParser:
    """Parses the dispatches of one bot. `me`: its user id. `threads`, `content`: the settings of these names."""

    def __init__(self, places: Places, unopened: UnopenedThreads, threads: str, content: bool = True) -> None:
        self.me = ""
        self._unopened = unopened
        self._places = places
        self._threads = threads
        self._content = content
        self._authors = RecentMap[str, Person](_MAX_AUTHORS)  # message id -> author
        self._names = RecentMap[str, str](_MAX_AUTHORS)  # user id -> name, for reactions that are taken back
        self._opened = RecentMap[str, None](_MAX_AUTHORS)  # ids of messages that opened a thread

    def __repr__(self) -> str:
        return f"<DispatchParser of {self.me}, {len(self._authors)} messages known>"

    async def parse(self, kind: str, data: Json, position: str) -> list[DiscordDraft]:
        """Return the events of one dispatch. `position`: SESSION.SEQ. Raises Offline if a look-up fails.

        A dispatch that cannot be parsed gives one unreadable draft.
        """
        try:
            return await self._parse(kind, data, position)
        except _UNREADABLE as error:
            return [_make_unreadable(kind, data, position, error)]

    async def parse_missed(self, message: Json, is_group: bool) -> list[DiscordDraft]:
        """Return the events of a message from a channel's history, as `parse` does."""
        try:
            return await self._parse_message(message, is_group)
        except _UNREADABLE as error:
            return [_make_unreadable("history", message, f"history.{message.get('id')}", error)]

    async def _parse(self, kind: str, data: Json, position: str) -> list[DiscordDraft]:
        match kind:
            case "MESSAGE_CREATE":
                return await self._parse_message(data, bool(data.get("guild_id")))
            case "MESSAGE_UPDATE":
                return await self._parse_edit(data)
            case "MESSAGE_DELETE":
                return await self._parse_deletion(data, str(data["id"]))
            case "MESSAGE_DELETE_BULK":
                return [draft for id in data["ids"] for draft in await self._parse_deletion(data, str(id))]
            case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
                return await self._parse_reaction(data, position, kind.endswith("REMOVE"))
            case "INTERACTION_CREATE":
                return await self._parse_interaction(data)
        return []

    # ------------------------------------------------------------ messages

    async def _parse_message(self, message: Json, is_group: bool) -> list[DiscordDraft]:
        """Return the event of a message object."""
        author = object_at(message, "author")
        channel, id = str(message["channel_id"]), str(message["id"])
        if author.get("id") == self.me and not message.get("webhook_id"):
            nonce = message.get("nonce")
            if not isinstance(nonce, str) or not nonce:
                return []
            return [DiscordDraft(Incoming("echo", nonce, of=message_id(channel, id)))]
        if message.get("type", 0) not in MESSAGE_TYPES:
            return []
        incoming, files = await self._make_incoming("message", message_id(channel, id), message, is_group)
        self._authors[id] = incoming.sender or Person("")
        if incoming.text == "" and not files:
            if not self._content and is_group and not incoming.mentioned:  # Discord does not show it to us
                return []
            has_mention = bool(message.get("content"))
            incoming = replace(incoming, text=ONLY_A_MENTION if has_mention else NO_CONTENT)
        return [DiscordDraft(incoming, files)]

    async def _parse_edit(self, message: Json) -> list[DiscordDraft]:
        """Return the event of an edit; none if only Discord changed the message, such as a preview that was added."""
        edited = text_at(message, "edited_timestamp")
        if edited is None or "content" not in message or object_at(message, "author").get("id") == self.me:
            return []
        if message.get("type", 0) not in MESSAGE_TYPES:
            return []
        id = message_id(str(message["channel_id"]), str(message["id"]))
        edited_at = datetime.fromisoformat(edited).timestamp()
        incoming, _ = await self._make_incoming("edit", f"{id}#e{edited}", message, bool(message.get("guild_id")))
        return [DiscordDraft(replace(incoming, of=id, at=edited_at))]

    async def _make_incoming(
        self, kind: Any, key: str, message: Json, is_group: bool
    ) -> tuple[Incoming, tuple[DiscordFile, ...]]:
        text, named = read_text(message, self.me, self._places)
        words, files = describe_content(message), _list_files(message)
        channel, id = str(message["channel_id"]), str(message["id"])
        replied = _replied_id(message, channel)
        replied_channel, _, replied_message = (replied or "").partition("/")
        answered = self._unopened.find_place(replied_channel, replied_message)
        place, thread = (answered, "") if answered else await self._place(channel, is_group, id, opens=named)
        text = "\n".join(part for part in (text, words) if part)
        data: Json = {"group": True} if is_group else {}
        data |= {"title": text[:MAX_TITLE_CHARS]} if thread == "open" else {}
        data |= {"thread": channel} if thread == "room" else {}
        if (quoted := quote_replied(message)) is not None:
            data["replied"] = quoted
        if message.get("message_snapshots"):
            data["forwarded"] = "somebody"  # Discord does not name the author
        incoming = Incoming(
            kind, key, str(place), self._person(message), text, time_of(int(id)), group=is_group,
            of=replied,
            mentioned=named or self._is_in_our_conversation(channel, message),
            title=self._places.title(channel), data=data,
        )  # fmt: skip
        return incoming, files

    def _is_in_our_conversation(self, channel: str, message: Json) -> bool:
        """Return whether a message replies to one of the bot, or is in a thread that the bot opened."""
        replied = value_at(message, "referenced_message", "author", "id")
        return replied == self.me or (self._content and self._places.is_opened_by(self.me, channel))

    async def _place(
        self, channel: str, is_group: bool, message: str = "", *, opens: bool = False
    ) -> tuple[DiscordPlace, str]:
        """Return (the place that a message belongs to, what became of its thread by the setting `threads`).

        `opens`: whether the message may open a thread.
        """
        if unopened := self._unopened.find_place(channel, message):
            return unopened, ""
        place = await self._places.place_of(channel, not is_group)
        if self._threads == "room" and place.thread:
            return DiscordPlace(place.channel), "room"
        if self._threads == "open" and is_group and not place.thread and (opens or message in self._opened):
            if not self._places.can_open_thread(channel):
                return place, ""
            self._opened[message] = None
            return DiscordPlace(place.channel, message), "open"  # a thread has the id of the message that opened it
        return place, ""

    def _person(self, message: Json) -> Person:
        author = object_at(message, "author")
        id = str(message.get("webhook_id") or author["id"])
        name = name_of(author, message.get("member"))
        self._names[id] = name
        return Person(id, name, bot=bool(author.get("bot")) or bool(message.get("webhook_id")))

    async def _parse_deletion(self, data: Json, id: str) -> list[DiscordDraft]:
        author = self._authors.get(id)
        if author is None:
            return []
        channel, is_group = str(data["channel_id"]), bool(data.get("guild_id"))
        place, _ = await self._place(channel, is_group, id)
        key = message_id(channel, id)
        return [DiscordDraft(Incoming("delete", f"{key}#d", str(place), author, of=key, group=is_group))]

    async def _parse_reaction(self, data: Json, position: str, is_removed: bool) -> list[DiscordDraft]:
        user = str(data["user_id"])
        if user == self.me:
            return []
        channel, is_group = str(data["channel_id"]), bool(data.get("guild_id"))
        member = object_at(data, "member")
        if member:
            self._names[user] = name_of(object_at(member, "user"), member)
        place, _ = await self._place(channel, is_group, str(data["message_id"]))
        of = message_id(channel, str(data["message_id"]))
        emoji = object_at(data, "emoji")
        text = str(emoji.get("name") or "")
        sender = Person(user, self._names.get(user, ""), bot=bool(value_at(member, "user", "bot")))
        incoming = Incoming(
            "reaction", f"{of}#r{position}", str(place), sender, f":{text}:" if emoji.get("id") else text, of=of,
            group=is_group, removed=is_removed,
        )  # fmt: skip
        return [DiscordDraft(incoming)]

    # ------------------------------------------------------------ interactions

    async def _parse_interaction(self, data: Json) -> list[DiscordDraft]:
        """Return the event of a slash command or a press of a button; none for other kinds, which we do not offer."""
        user = object_at(data, "member", "user") or object_at(data, "user")
        channel, is_group = str(data["channel_id"]), bool(data.get("guild_id"))
        id, kind, body = str(data["id"]), data.get("type"), object_at(data, "data")
        if not is_snowflake(id) or kind not in (COMMAND, COMPONENT):
            return []
        if channel_info := object_at(data, "channel"):
            self._places.learn_channel(channel_info, str(data.get("guild_id") or ""))
        sender = Person(str(user["id"]), name_of(user, data.get("member")), bool(user.get("bot")))
        place, thread = await self._place(channel, is_group, str(value_at(data, "message", "id") or ""))
        more: Json = {"interaction": True} | ({"thread": channel} if thread == "room" else {})
        interaction = Interaction(id, str(data["token"]), kind == COMPONENT, str(data.get("application_id") or ""))
        if kind == COMPONENT:
            answer, pressed = str(body["custom_id"]), str(data["message"]["id"])
            of: str | None = message_id(channel, pressed)
            key = press_key(answer, message_id(channel, pressed), id)
        else:
            values = [str(option.get("value", "")) for option in objects_in(body.get("options"))]
            answer, of, key = " ".join([f"/{body['name']}", *values]), None, message_id(channel, id)
        incoming = Incoming(
            "message", key, str(place), sender, answer, time_of(int(id)), of=of, group=is_group, mentioned=True,
            title=self._places.title(channel), data=more,
        )  # fmt: skip
        return [DiscordDraft(incoming, interaction=interaction)]


def _make_unreadable(kind: str, data: Json, position: str, error: Exception) -> DiscordDraft:
    raw = json.dumps({"t": kind, "d": data}, ensure_ascii=False).encode("utf-8", "backslashreplace")
    why = f"it cannot be read ({type(error).__name__}: {error})"[:300]
    return DiscordDraft(Incoming("unreadable", position, raw=raw, why=why))


def _replied_id(message: Json, channel: str) -> str | None:
    """Return the id of the message that this one replies to, also if that is gone; None if it replies to none."""
    reference = object_at(message, "message_reference")
    if message.get("type") != REPLY or not is_snowflake(reference.get("message_id")):
        return None
    return message_id(str(reference.get("channel_id") or channel), str(reference["message_id"]))


def _list_files(message: Json) -> tuple[DiscordFile, ...]:
    """Return the files of a message, and those of a message that it forwards."""
    messages = [message, *(object_at(each, "message") for each in objects_in(message.get("message_snapshots")))]
    of = message_id(str(message["channel_id"]), str(message["id"]))
    return tuple(
        DiscordFile(
            str(file.get("id")), str(file.get("filename") or "file"),
            str(file.get("content_type") or "application/octet-stream").partition(";")[0], int(file.get("size") or 0),
            str(file.get("url") or ""), of, is_voice=bool(int(each.get("flags") or 0) & IS_VOICE_MESSAGE),
        )
        for each in messages
        for file in objects_in(each.get("attachments"))
    )  # fmt: skip
