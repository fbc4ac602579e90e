"""What is known of servers ("guilds" in the API), channels and threads: names, parents, the bot's roles.

It is learned from the gateway, and looked up if it is not known, as after a resumed session. It is kept in memory only.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.channels.discord.address import DiscordPlace, is_snowflake
from semel.channels.discord.transport import DiscordApi
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import NotSent, Offline, Unknown
from semel.text.json_types import Json, list_at, object_at, objects_in, value_at

THREAD_TYPES = frozenset({10, 11, 12})
"""Announcement, public and private threads
(https://docs.discord.com/developers/resources/channel#channel-object-channel-types)."""
DIRECT_TYPE = 1
THREADED_TYPES = frozenset({0, 5})
READABLE_TYPES = frozenset({0, DIRECT_TYPE, 2, 5, 13, *THREAD_TYPES})
"""Channels that have messages: text, direct, voice, announcement, stage, threads."""
MAX_CHANNELS = 20_000


@dataclass(frozen=True)
class DiscordChannelInfo:
    """A channel or a thread. `parent`: the channel of a thread, "" for a channel. `last`: its newest message, 0: none.

    `opener`: the id of the account that opened a thread, "" for a channel.
    """

    id: str
    type: int
    name: str = ""
    guild: str = ""
    parent: str = ""
    last: int = 0
    opener: str = ""


class Places:
    """The servers and channels of one bot."""

    def __init__(self, api: DiscordApi) -> None:
        self._api = api
        self._channels = RecentMap[str, DiscordChannelInfo](MAX_CHANNELS)
        self._guild_names: dict[str, str] = {}
        self.own_roles: set[str] = set()
        """The roles that Discord made for the bot, one in each server: a mention of one means the bot."""

    def __repr__(self) -> str:
        return f"<Places {len(self._guild_names)} servers, {len(self._channels)} channels>"

    # ------------------------------------------------------------ learning

    def learn_guild(self, guild: Json, me: str) -> list[DiscordChannelInfo]:
        """Learn a GUILD_CREATE. Returns its channels and threads that have messages. `me`: the bot's id."""
        id = str(guild.get("id"))
        self._guild_names[id] = str(guild.get("name") or "")
        for role in objects_in(guild.get("roles")):
            if value_at(role, "tags", "bot_id") == me:
                self.own_roles.add(str(role.get("id")))
        listed = [*objects_in(guild.get("channels")), *objects_in(guild.get("threads"))]
        known = [info for channel in listed if (info := self.learn_channel(channel, id)) is not None]
        return [info for info in known if info.type in READABLE_TYPES]

    def learn_channel(self, channel: Json, guild: str = "") -> DiscordChannelInfo | None:
        """Learn a channel object. Returns what is known of it, None if it has no id."""
        id, type, last = channel.get("id"), channel.get("type"), channel.get("last_message_id")
        if not is_snowflake(id) or not isinstance(type, int):
            return None
        parent = channel.get("parent_id") if type in THREAD_TYPES else None
        info = DiscordChannelInfo(
            str(id), type, str(channel.get("name") or ""), str(channel.get("guild_id") or guild or ""),
            str(parent) if is_snowflake(parent) else "", int(str(last)) if is_snowflake(last) else 0,
            str(channel.get("owner_id") or "") if type in THREAD_TYPES else "",
        )  # fmt: skip
        self._channels[info.id] = info
        return info

    def learn(self, kind: str, data: Json) -> None:
        """Learn a dispatch about channels or threads; others are ignored."""
        match kind:
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                self.learn_channel(data)
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self._channels.pop(str(data.get("id")), None)
            case "THREAD_LIST_SYNC":
                for thread in list_at(data, "threads"):
                    self.learn_channel(object_at({"thread": thread}, "thread"), str(data.get("guild_id") or ""))

    # ------------------------------------------------------------ asking

    async def place_of(self, channel: str, is_direct: bool) -> DiscordPlace:
        """Return the place of a channel or thread. Raises Offline if it has to be looked up and cannot be."""
        if is_direct:
            return DiscordPlace(channel)
        info = self._channels.get(channel) or await self._look_up(channel)
        return DiscordPlace(info.parent, channel) if info.parent else DiscordPlace(channel)

    async def _look_up(self, channel: str) -> DiscordChannelInfo:
        try:
            reply = await self._api.call("GET", f"/channels/{channel}")
        except (NotSent, Unknown) as error:
            raise Offline(str(error)) from None
        info = self.learn_channel(reply.data) if reply.ok and isinstance(reply.data, dict) else None
        if info is None and reply.status not in (403, 404):
            raise Offline(f"Discord does not say what channel {channel} is: HTTP {reply.status}", reply.retry_after)
        if info is None:  # it is gone, or hidden from the bot by now
            info = self._channels[channel] = DiscordChannelInfo(channel, 0)
        return info

    def can_open_thread(self, channel: str) -> bool:
        """Return whether a message in this channel can open a thread: in text and announcement channels."""
        info = self._channels.get(channel)
        return info is not None and info.type in THREADED_TYPES

    def is_opened_by(self, account: str, channel: str) -> bool:
        """Return whether a channel is a thread that the account is known to have opened."""
        info = self._channels.get(channel)
        return info is not None and info.opener == account

    def title(self, channel: str) -> str:
        """Return the name of a channel as people read it, such as "Garden #roses"; "" if it is not known."""
        info = self._channels.get(channel)
        if info is None or not info.name:
            return ""
        guild = self._guild_names.get(info.guild, "")
        parent = self._channels.get(info.parent)
        room = f"#{parent.name}: {info.name}" if parent is not None and parent.name else f"#{info.name}"
        return f"{guild} {room}".strip()
