"""Receive dispatches from the gateway, and put them into the inbox.

The session's id, the number of the last event and the address to resume at are stored with the events (Law 1). After a
lost connection, and in a new process, the session is resumed, and Discord sends the events after that number again. If
the session is gone, a new one begins, and the channels' histories are read (`missed`). Until they are read to their
end, the cursor says since when messages may be missing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from semel.channels.discord import gateway, missed
from semel.channels.discord.address import DiscordCursor, parse_message_id, snowflake_at
from semel.channels.discord.app_commands import offer_commands
from semel.channels.discord.downloads import DiscordFetcher
from semel.channels.discord.gateway import (
    CannotConnect,
    GatewayClosed,
    GatewayConnection,
    IdentifyPace,
    open_gateway,
)
from semel.channels.discord.interactions import InteractionDesk
from semel.channels.discord.parse import DiscordDraft, DispatchParser
from semel.channels.discord.places import Places
from semel.channels.discord.receipts import TOKEN_REFUSED
from semel.channels.discord.settings import DEFAULT_API, DiscordSettings
from semel.channels.discord.transport import DiscordApi
from semel.channels.discord.unopened_threads import UnopenedThreads
from semel.gateway.ports import Denied, Inbox, NotSent, Offline, Unknown
from semel.text.json_types import Json, object_at, objects_in, text_at, value_at

GUILDS, GUILD_MESSAGES, GUILD_MESSAGE_REACTIONS = 1 << 0, 1 << 9, 1 << 10
DIRECT_MESSAGES, DIRECT_MESSAGE_REACTIONS, MESSAGE_CONTENT = 1 << 12, 1 << 13, 1 << 15
"""Intents (https://docs.discord.com/developers/events/gateway#list-of-intents)."""
MESSAGE_CONTENT_FLAGS = 1 << 18 | 1 << 19
"""Flags of an application whose Message Content Intent is switched on
(https://docs.discord.com/developers/resources/application#application-object-application-flags)."""
SAVE_INTERVAL_S = 30.0
"""Seconds after which the position is stored although no event came."""
SESSION_TIMEOUT_S = 60.0
"""Seconds to wait until a connection has a session: for READY, or for what a resumed session missed."""
GUILDS_TIMEOUT_S = 10.0
"""Seconds to wait for a further server after READY. Those in an outage come later; then their channels are read."""
MIN_SESSION_STARTS = 5
"""New sessions that are left for the day, from which on no more are begun: after the last, Discord resets the token."""
DENIED = {
    4004: TOKEN_REFUSED,
    4011: "the bot is in more servers than one connection serves, 2,500: Semel does not divide it into shards",
    4012: "Discord has given up version 10 of its gateway: update Semel",
    4013: "Discord does not know an intent that Semel asks for: update Semel",
    4014: (
        "the bot may not read messages: in the Developer Portal (your application, Bot, Privileged Gateway Intents), "
        "switch on Message Content Intent; or set content = false, and it reads only what mentions it"
    ),
}
"""Close codes after which it is no use to connect again, and what to do
(https://docs.discord.com/developers/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes)."""
MAX_FAILED_RESUMES = 5
"""Times that the address to resume at may not answer, one after the other, until a new session is begun elsewhere."""
SESSION_ENDS = frozenset({4003, 4007, 4009})
"""Close codes after which the session cannot be resumed."""
_STORED_AT_ONCE = frozenset({"READY", "RESUMED", "GUILD_CREATE", "GUILD_DELETE"})
"""Dispatches that may store the position: what came before them has to be put before."""
_ANOTHER = (
    "this token belongs to another bot, {}, than before: give this bot a section of its own, [channels.{}-2], or put "
    "the first bot's token back"
)

_log = logging.getLogger("semel.discord")


class _ConnectAgain(Exception):
    """Discord wants a new connection: the session is to be resumed, or a new one begun."""


class DiscordReceiver:
    """The receiving half of one bot.

    `cursor`: where reading goes on; None until `run` has found that it is this bot's. The sending half reads it.
    """

    def __init__(self, name: str, settings: DiscordSettings, api: DiscordApi, unopened: UnopenedThreads) -> None:
        self.bot = ""
        """The bot's user id; "" until Discord has named it."""
        self.cursor: DiscordCursor | None = None
        self.another_bot: str | None = None
        """Why the channel is blocked: the token belongs to another bot than the cursor. `None` if it is not blocked."""
        self._name = name
        self._settings = settings
        self._api = api
        self._unopened = unopened
        self._fetcher = DiscordFetcher(api, settings.fetch)
        self._failed_resumes = 0
        self._pace = IdentifyPace()

    def __repr__(self) -> str:
        return f"<DiscordReceiver of {self._name}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        self.bot = me = str((await _get(self._api, "/users/@me", "id"))["id"])
        application = await _get(self._api, "/applications/@me", "id")
        flags = application.get("flags")
        if self._settings.content and isinstance(flags, int) and not flags & MESSAGE_CONTENT_FLAGS:
            raise Denied(DENIED[4014])
        text = await inbox.cursor()
        cursor = DiscordCursor.load(text) if text is not None else None
        if cursor is None:
            if text is not None:
                _log.warning("the position of channel %s cannot be read: it begins at the present", self._name)
            start = snowflake_at(time.time() + (self._api.skew_s or 0.0))
            cursor = DiscordCursor(me, began=start, newest=start)
            await inbox.put((), cursor.dump())
        self.another_bot = _ANOTHER.format(me, self._name) if cursor.bot != me else None
        if self.another_bot is not None:
            raise Denied(self.another_bot)
        self.cursor = cursor
        cursor.unopened = self._unopened.restore(cursor.unopened)
        cursor.commands = await offer_commands(
            self._api, str(application["id"]), cursor.commands, self._settings.commands
        )
        reading = _Reading(self._settings, self._api, self._unopened, self._fetcher, inbox, cursor, self._pace)
        try:
            await reading.run()
        except CannotConnect as error:
            self._failed_resumes += bool(cursor.session)
            if self._failed_resumes >= MAX_FAILED_RESUMES:  # the address to resume at may be gone
                self._failed_resumes = 0
                cursor.drop_session()
                await inbox.put((), cursor.dump())
            raise Offline(str(error)) from None


class _Reading:
    """One call of `run`: connections, one after the other, for as long as Discord only asks for a new one."""

    def __init__(
        self, settings: DiscordSettings, api: DiscordApi, unopened: UnopenedThreads, fetcher: DiscordFetcher,
        inbox: Inbox, cursor: DiscordCursor, pace: IdentifyPace,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._api = api
        self._unopened = unopened
        self._fetcher = fetcher
        self._inbox = inbox
        self._cursor = cursor
        self._pace = pace
        self._places = Places(api)
        self._places.own_roles.update(cursor.roles)
        self._parser = DispatchParser(self._places, unopened, settings.threads, settings.content)
        self._parser.me = cursor.bot
        self._desk = InteractionDesk(api)
        self._awaited: set[str] | None = None  # servers that READY named and that have not come; None before READY
        self._online = False
        self._stored = cursor.dump()

    async def run(self) -> None:
        """Read until cancelled. Raises Offline, Denied or CannotConnect, and passes on the inbox's exceptions."""
        attempts = 0
        try:
            while True:
                before = self._cursor.seq
                try:
                    await self._serve_connection()
                except _ConnectAgain as again:
                    attempts = 0 if self._cursor.seq != before else attempts + 1
                    if attempts > 2:
                        raise Offline(f"Discord asks for a new connection again and again: {again}") from None
                except GatewayClosed as closed:
                    if closed.code in DENIED:
                        raise Denied(DENIED[closed.code]) from None
                    if closed.code in SESSION_ENDS:
                        self._cursor.drop_session()
                        await self._store(())
                    raise Offline(str(closed)) from None
        finally:
            await self._desk.close()

    async def _serve_connection(self) -> None:
        cursor = self._cursor
        resumes = bool(cursor.session) and not cursor.gap  # only a new session lists the channels that are to be read
        url = self._settings.gateway or (cursor.url if resumes else await self._find_gateway())
        check_gateway(url, self._settings.api)
        async with open_gateway(url) as connection:
            if resumes:
                connection.seq = cursor.seq
                resume = {"token": self._settings.token, "session_id": cursor.session, "seq": cursor.seq}
                await connection.send(gateway.RESUME, resume)
            else:
                cursor.gap = cursor.gap or missed.find_start(cursor)
                self._awaited = None
                await self._pace.wait_for_turn()
                await connection.send(gateway.IDENTIFY, self._identity())
            loop = asyncio.get_running_loop()
            handled_at = loop.time()
            has_session = False
            while True:
                payloads = await connection.receive(SAVE_INTERVAL_S if self._online and has_session else 1.0)
                has_session = has_session or any(payload.get("op") == gateway.DISPATCH for payload in payloads)
                if not has_session and loop.time() - handled_at > SESSION_TIMEOUT_S:
                    raise GatewayClosed(0, "Discord's gateway did not begin a session")
                if payloads:
                    await self._handle(payloads, connection)
                    handled_at = loop.time()
                    continue
                if not self._online and self._awaited is not None and loop.time() - handled_at > GUILDS_TIMEOUT_S:
                    self._go_online()  # the servers that have not come are in an outage
                if cursor.dump() != self._stored:
                    await self._store(())

    async def _find_gateway(self) -> str:
        """Return the address of the gateway. Raises Offline if no new session should begin now."""
        bot = await _get(self._api, "/gateway/bot", "url")
        limit = object_at(bot, "session_start_limit")
        left, reset_ms = limit.get("remaining"), limit.get("reset_after")
        if isinstance(left, int) and left < MIN_SESSION_STARTS:
            wait = reset_ms / 1000 if isinstance(reset_ms, int | float) else None
            raise Offline("Discord allows the bot no more new sessions for now", wait)
        return str(bot["url"])

    def _identity(self) -> Json:
        intents = GUILDS | GUILD_MESSAGES | GUILD_MESSAGE_REACTIONS | DIRECT_MESSAGES | DIRECT_MESSAGE_REACTIONS
        if self._settings.content:
            intents |= MESSAGE_CONTENT
        return {
            "token": self._settings.token, "intents": intents,
            "properties": {"os": "linux", "browser": "semel", "device": "semel"},
        }  # fmt: skip

    # ------------------------------------------------------------ payloads

    async def _handle(self, payloads: Sequence[Json], connection: GatewayConnection) -> None:
        """Handle payloads in order. Events of messages are put together, before anything else that follows them."""
        drafts: list[DiscordDraft] = []
        for payload in payloads:
            op, data = payload.get("op"), payload.get("d")
            if op == gateway.DISPATCH:
                if payload.get("t") in _STORED_AT_ONCE:
                    await self._store(drafts)
                    drafts = []
                seq = payload.get("s")
                connection.seq = self._cursor.seq = seq if isinstance(seq, int) else self._cursor.seq
                drafts += await self._read_dispatch(str(payload.get("t")), data if isinstance(data, dict) else {})
                continue
            await self._store(drafts)
            drafts = []
            if op == gateway.RECONNECT:
                raise _ConnectAgain("it asked for a reconnect")
            if op == gateway.INVALID_SESSION:
                if data is not True:
                    self._cursor.drop_session()
                    await self._store(())
                raise _ConnectAgain("the session is invalid")
        await self._store(drafts)

    async def _read_dispatch(self, kind: str, data: Json) -> list[DiscordDraft]:
        match kind:
            case "READY":
                await self._begin_session(data)
            case "RESUMED":
                self._awaited = self._awaited or set()
                await self._go_online_if_complete()
            case "GUILD_CREATE":
                await self._read_guild(data)
            case "GUILD_DELETE":
                await self._lose_guild(str(data.get("id")), is_outage=data.get("unavailable") is True)
            case _:
                self._places.learn(kind, data)
        if kind == "MESSAGE_CREATE":
            self._note_message(data, is_direct=not data.get("guild_id"))
        return await self._parser.parse(kind, data, f"{self._cursor.session}.{self._cursor.seq}")

    async def _begin_session(self, ready: Json) -> None:
        cursor = self._cursor
        cursor.session, cursor.url = text_at(ready, "session_id") or "", text_at(ready, "resume_gateway_url") or ""
        self._awaited = {str(guild.get("id")) for guild in objects_in(ready.get("guilds"))}
        await self._store(())
        if cursor.gap:
            for channel in list(cursor.direct):
                await self._read_missed(channel, is_group=False)
        await self._go_online_if_complete()

    async def _read_guild(self, guild: Json) -> None:
        channels = self._places.learn_guild(guild, self._cursor.bot)
        self._cursor.roles = sorted(self._places.own_roles)
        if self._cursor.gap:
            for channel in missed.list_channels_to_read(channels, self._cursor.gap):
                await self._read_missed(channel, is_group=True)
        if self._awaited is not None:
            self._awaited.discard(str(guild.get("id")))
            await self._go_online_if_complete()

    async def _lose_guild(self, guild: str, is_outage: bool) -> None:
        """Await a server that is in an outage, since messages may be missing then; forget one that the bot has left."""
        if self._awaited is None:
            return
        if is_outage:
            self._cursor.gap = self._cursor.gap or missed.find_start(self._cursor)
            self._awaited.add(guild)
            return
        self._awaited.discard(guild)
        await self._go_online_if_complete()

    async def _read_missed(self, channel: str, is_group: bool) -> None:
        """Put what was written in a channel since the gap began."""
        message_count = None  # None if there was no page
        async for page in missed.read_missed(self._api, channel, self._cursor.gap):
            drafts = []
            for message in page:
                self._note_message(message, is_direct=not is_group)
                drafts += await self._parser.parse_missed(message, is_group)
            await self._store(drafts)
            message_count = (message_count or 0) + len(page)
        if is_group and message_count == 0:  # Discord named a newer message when it listed the channel
            _log.warning(
                "channel %s shows no message from while the gateway was away although Discord names one: %s",
                channel, missed.EMPTY_HISTORY_CAUSES,
            )  # fmt: skip

    def _note_message(self, message: Json, is_direct: bool) -> None:
        """Note the message in the cursor, and the nonce of one of our own."""
        try:
            channel, id = parse_message_id(f"{message.get('channel_id')}/{message.get('id')}")
        except ValueError:
            return
        self._cursor.note_message(channel, id, is_direct)
        nonce = message.get("nonce")
        if value_at(message, "author", "id") == self._cursor.bot and isinstance(nonce, str) and nonce:
            self._cursor.note_own(id, nonce)
            self._unopened.note_nonce(nonce, id)

    # ------------------------------------------------------------ storing

    async def _store(self, drafts: Sequence[DiscordDraft]) -> None:
        """Put events and the position after them into the inbox."""
        committed = self._desk.expect_commit(drafts)
        events = await self._fetcher.complete(drafts, self._inbox)
        position = self._cursor.dump()
        if events or position != self._stored:
            await self._inbox.put(events, position)
            self._stored = position
        committed.set()

    async def _go_online_if_complete(self) -> None:
        """Once every server has come, the gap is closed, and everything that was missed has been put."""
        if self._awaited:
            return
        if self._cursor.gap:
            self._cursor.gap = 0
            await self._store(())
        self._go_online()

    def _go_online(self) -> None:
        self._online = True
        self._inbox.online()


def check_gateway(url: str, api: str) -> None:
    """Raise Offline for an address of Discord's gateway that would show the token to everybody on the way."""
    if api == DEFAULT_API and not url.startswith("wss://"):
        raise Offline("Discord named a gateway that does not begin with wss://")


async def _get(api: DiscordApi, path: str, field: str) -> Json:
    """Return the object at a path, which has a text in this field. Raises Offline or Denied."""
    try:
        reply = await api.call("GET", path)
    except NotSent as error:
        raise Offline(str(error), error.retry_after) from None
    except Unknown as error:
        raise Offline(str(error)) from None
    if reply.status == 401:
        raise Denied(TOKEN_REFUSED)
    if not reply.ok:
        raise Offline(f"Discord: {reply.error_text}", reply.retry_after)
    if text_at(reply.data, field) is None:
        raise Offline(f"{api.host} answers with something that is not Discord's API: check the setting `api`")
    data: Any = reply.data
    return dict(data)
