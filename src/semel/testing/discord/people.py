"""What people do in the double: they write, edit, delete, react, give commands and press buttons."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from semel.testing.discord.model import (
    DIRECT,
    EPOCH_MS,
    TEXT,
    THREAD,
    DiscordAccount,
    DiscordChannelModel,
    Guild,
    InteractionModel,
    StoredMessage,
)
from semel.testing.discord.sessions import MESSAGE_CONTENT, Session, Sessions, may_see
from semel.text.json_types import Json

_MENTION = re.compile(r"<@!?([0-9]+)>|<@&([0-9]+)>")


class DiscordPeople:
    """Channels, and the people in them. Methods return ids, which are snowflakes."""

    me: DiscordAccount
    now: Callable[[], float]
    sessions: Sessions
    accounts: dict[str, DiscordAccount]
    guilds: dict[str, Guild]
    channels: dict[str, DiscordChannelModel]
    files: dict[str, bytes]
    interactions: dict[str, InteractionModel]
    file_base: str
    _last: int

    def snowflake(self) -> str:
        """Return the next id: it carries the time, and grows."""
        self._last = max(self._last + 1, (round(self.now() * 1000) - EPOCH_MS) << 22)
        return str(self._last)

    # ------------------------------------------------------------ places

    def person(self, id: str, name: str, nick: str = "") -> str:
        """Add a person, or rename them."""
        self.accounts[id] = DiscordAccount(id, name, nick=nick)
        return id

    def guild(self, name: str = "Garden") -> str:
        """Add a server, with the bot in it."""
        guild = Guild(self.snowflake(), name, self.snowflake())
        self.guilds[guild.id] = guild
        self.sessions.dispatch("GUILD_CREATE", lambda session: self.guild_json(guild))
        return guild.id

    def channel(self, guild: str, name: str = "general", hidden: bool = False) -> str:
        """Add a text channel."""
        return self._add(DiscordChannelModel(self.snowflake(), TEXT, name, guild, hidden=hidden), "CHANNEL_CREATE")

    def thread(self, parent: str, name: str = "thread", id: str = "", owner: str = "") -> str:
        """Add a thread to a channel. `id`: that of the message that opens it. `owner`: who opens it."""
        guild = self.channels[parent].guild
        return self._add(
            DiscordChannelModel(id or self.snowflake(), THREAD, name, guild, parent, owner), "THREAD_CREATE"
        )

    def direct(self, user: str) -> str:
        """Return the direct conversation of a person with the bot."""
        for place in self.channels.values():
            if place.user is not None and place.user.id == user:
                return place.id
        return self._add(DiscordChannelModel(self.snowflake(), DIRECT, user=self.account(user)), "")

    def _add(self, place: DiscordChannelModel, kind: str) -> str:
        self.channels[place.id] = place
        if kind and not place.hidden:
            self.sessions.dispatch(kind, lambda session: place.json() if may_see(session, kind, False) else None)
        return place.id

    def account(self, user: str) -> DiscordAccount:
        return self.accounts.setdefault(user, DiscordAccount(user, f"Person {user[-4:]}"))

    def guild_json(self, guild: Guild) -> Json:
        """Return a server as GUILD_CREATE shows it."""
        places = [place for place in self.channels.values() if place.guild == guild.id and not place.hidden]
        return {
            "id": guild.id, "name": guild.name, "owner_id": "1", "member_count": len(self.accounts), "large": False,
            "roles": [_make_role(guild.id, "@everyone"), _make_role(guild.role, self.me.name, self.me.id)],
            "members": [{"user": self.me.json(), **self.member_json(self.me)}],
            "emojis": [], "stickers": [], "features": [], "unavailable": False, "verification_level": 0,
            "nsfw_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0, "mfa_level": 0,
            "premium_tier": 0, "system_channel_flags": 0, "preferred_locale": "en-US", "afk_timeout": 300,
            "presences": [],
            "channels": [place.json() for place in places if place.type != THREAD],
            "threads": [place.json() for place in places if place.type == THREAD],
        }  # fmt: skip

    def member_json(self, account: DiscordAccount) -> Json:
        """Return an account as a member of a server, without its user object."""
        return {
            "nick": account.nick or None, "roles": [], "joined_at": "2026-01-01T00:00:00+00:00", "deaf": False,
            "mute": False, "flags": 0,
        }  # fmt: skip

    # ------------------------------------------------------------ messages

    def write(
        self, channel: str, sender: str, text: str, *, reply_to: str = "", files: dict[str, str] | None = None,
        type: int = 0, **more: Any,
    ) -> str:  # fmt: skip
        """A person writes. `files`: texts by name. `more`: further fields of the message. Returns the message's id."""
        body = self.make_message(channel, self.account(sender), text, reply_to)
        body |= {"type": 19 if reply_to else type} | more
        body["attachments"] = [self.attach(name, content.encode()) for name, content in (files or {}).items()]
        self.add_message(channel, body)
        return str(body["id"])

    def make_message(self, channel: str, author: DiscordAccount, text: str, reply_to: str = "") -> Json:
        """Return a message object."""
        mentioned = [self.accounts[id] for id, _ in _MENTION.findall(text) if id in self.accounts]
        body: Json = {
            "id": self.snowflake(), "channel_id": channel, "author": author.json(), "content": text, "type": 0,
            "timestamp": self.iso_now(), "edited_timestamp": None, "attachments": [], "embeds": [], "tts": False,
            "mentions": [user.json() for user in mentioned], "mention_everyone": "@everyone" in text, "flags": 0,
            "mention_roles": [role for _, role in _MENTION.findall(text) if role], "pinned": False,
        }  # fmt: skip
        if reply_to:
            replied = self.channels[channel].messages.get(reply_to)
            body["type"] = 19
            body["message_reference"] = {"message_id": reply_to, "channel_id": channel, "type": 0}
            body["referenced_message"] = None if replied is None or replied.is_deleted else replied.body
            if replied is not None and not replied.is_deleted:
                body["mentions"].append(replied.body["author"])
        return body

    def add_message(self, channel: str, body: Json, nonce: str = "") -> None:
        """Add a message to a channel and tell it. `nonce`: it is told, and not kept."""
        place = self.channels[channel]
        place.messages[str(body["id"])] = StoredMessage(body)
        self._tell(place, "MESSAGE_CREATE", body | ({"nonce": nonce} if nonce else {}))

    def _tell(self, place: DiscordChannelModel, kind: str, body: Json) -> None:
        def make(session: Session) -> Json | None:
            if place.hidden or not may_see(session, kind, place.type == DIRECT):
                return None
            told = dict(body)
            if place.guild:
                told["guild_id"] = place.guild
            if kind in ("MESSAGE_CREATE", "MESSAGE_UPDATE"):
                if place.guild:
                    told["member"] = self.member_json(self.account(body["author"]["id"]))
                    told["mentions"] = [
                        {**user, "member": self.member_json(self.account(user["id"]))} for user in body["mentions"]
                    ]
                if not session.intents & MESSAGE_CONTENT and not self._is_for_us(place, body):
                    told |= {"content": "", "embeds": [], "attachments": [], "components": []}
            return told

        self.sessions.dispatch(kind, make)

    def _is_for_us(self, place: DiscordChannelModel, body: Json) -> bool:
        """Whether its content is told without the intent: direct, our own, or it mentions the bot."""
        named = any(user["id"] == self.me.id for user in body["mentions"])
        return place.type == DIRECT or body["author"]["id"] == self.me.id or named

    def edit(self, channel: str, message: str, text: str) -> None:
        """A message's author gives it a new text."""
        stored = self.channels[channel].messages[message]
        stored.body |= {"content": text, "edited_timestamp": self.iso_now()}
        self._tell(self.channels[channel], "MESSAGE_UPDATE", stored.body)

    def unfurl(self, channel: str, message: str) -> None:
        """Discord adds a preview to a message: an update that is no edit."""
        stored = self.channels[channel].messages[message]
        stored.body["embeds"] = [{"type": "link", "title": "A page"}]
        self._tell(self.channels[channel], "MESSAGE_UPDATE", stored.body)

    def delete(self, channel: str, message: str) -> None:
        """Somebody deletes a message."""
        place = self.channels[channel]
        place.messages[message].is_deleted = True
        self._tell(place, "MESSAGE_DELETE", {"id": message, "channel_id": channel})

    def react(self, channel: str, message: str, user: str, emoji: str, removed: bool = False) -> None:
        """A person reacts, or takes a reaction back."""
        place = self.channels[channel]
        users = place.messages[message].reactions.setdefault(emoji, [])
        if removed == (user not in users):
            return
        users.remove(user) if removed else users.append(user)
        body: Json = {
            "user_id": user, "channel_id": channel, "message_id": message, "emoji": {"id": None, "name": emoji},
            "type": 0, "burst": False,
        }  # fmt: skip
        if place.guild and not removed:
            body["member"] = {"user": self.account(user).json(), **self.member_json(self.account(user))}
        self._tell(place, "MESSAGE_REACTION_REMOVE" if removed else "MESSAGE_REACTION_ADD", body)

    def attach(self, name: str, content: bytes, mime: str = "text/plain") -> Json:
        """Store a file. Returns it as an attachment object."""
        id = self.snowflake()
        self.files[id] = content
        return {
            "id": id, "filename": name, "size": len(content), "content_type": mime,
            "url": f"{self.file_base}/attachments/{id}/{name}", "proxy_url": "",
        }  # fmt: skip

    # ------------------------------------------------------------ interactions

    def command(self, channel: str, user: str, name: str, value: str | int | None = None) -> str:
        """A person gives a slash command. Returns the interaction's id."""
        options = [] if value is None else [{"name": "value", "type": 3, "value": value}]
        return self._interact(channel, user, 2, {"id": "1", "name": name, "type": 1, "options": options})

    def press(self, channel: str, user: str, message: str, custom_id: str) -> str:
        """A person presses a button. Returns the interaction's id."""
        body = self.channels[channel].messages[message].body
        return self._interact(channel, user, 3, {"custom_id": custom_id, "component_type": 2}, message=body)

    def _interact(self, channel: str, user: str, type: int, data: Json, **more: Any) -> str:
        place, account = self.channels[channel], self.account(user)
        interaction = InteractionModel(self.snowflake(), f"token-{self.snowflake()}", self.now())
        self.interactions[interaction.id] = interaction
        who: Json = (
            {"member": {"user": account.json(), "permissions": "0", **self.member_json(account)}} if place.guild else {}
        )
        body: Json = {
            "id": interaction.id, "application_id": self.me.id, "type": type, "token": interaction.token, "version": 1,
            "channel_id": channel, "channel": place.json(), "data": data, **more,
            "attachment_size_limit": 10 * 1024 * 1024, "entitlements": [], "authorizing_integration_owners": {},
            "context": 0 if place.guild else 1, "locale": "en-US", "app_permissions": "0",
            **(who or {"user": account.json()}), **({"guild_id": place.guild} if place.guild else {}),
        }  # fmt: skip
        self.sessions.dispatch("INTERACTION_CREATE", lambda session: body)
        return interaction.id

    def iso_now(self) -> str:
        return datetime.fromtimestamp(self.now(), UTC).isoformat()


def _make_role(id: str, name: str, bot: str = "") -> Json:
    """Return a role object. `bot`: the bot for which Discord made it."""
    role: Json = {
        "id": id, "name": name, "permissions": "8", "position": 0, "color": 0, "hoist": False, "mentionable": False,
        "managed": bool(bot), "flags": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
    }  # fmt: skip
    return role | ({"tags": {"bot_id": bot}} if bot else {})
