"""One logged-in connection: what it knows, and what it can ask. No request outlives it.

session = IrcSession(settings)
await session.open()                   # raises Offline or Denied
await session.ping()                   # everything written before has been dealt with
await session.join("#semel")           # "" or why the server does not let us in
await session.find_account("ann")      # the account that this nick is logged in to
await session.close()
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from semel.channels.irc.connection import IrcConnection
from semel.channels.irc.login import IrcLogin, list_nicks
from semel.channels.irc.settings import IrcSettings
from semel.channels.irc.wire import IrcMessage, fold
from semel.gateway.ports import Denied, Offline

HISTORY_BATCHES = frozenset({"chathistory", "znc.in/playback"})
MAX_BATCHES = 1000
_STATUS_MARKS = frozenset("~&@%+!")
"""What servers put before a channel's name to mean only people of a rank in it: founders, operators, voiced ones."""


@dataclass(frozen=True)
class Received:
    """A message, and what is known of it from the batch that it is in.

    `label`: of the line that it answers (labeled-response), or "". `played_back`: it is an old one.
    """

    message: IrcMessage
    label: str = ""
    played_back: bool = False


@dataclass(frozen=True)
class _Batch:
    kind: str
    label: str
    played_back: bool


@dataclass(frozen=True)
class NickState:
    """`exists`: somebody has the nick. `account`: what they are logged in to, or ""."""

    exists: bool
    account: str = ""


Watcher = Callable[[Received], None]


class IrcSession:
    """One connection. It passes messages of others to `on_message`, as they arrive and in order."""

    def __init__(self, settings: IrcSettings) -> None:
        self.settings = settings
        self.on_message: Watcher | None = None
        self.joined: set[str] = set()  # channels that we are in, folded
        self.clock: float | None = None  # the server's, by its last message
        self.prefix = ""  # our own `nick!user@host`, once the server has shown it
        self._login = IrcLogin(settings)
        self._connection = IrcConnection(settings, self._dispatch)
        self._watchers: list[Watcher] = []
        self._batches: dict[str, _Batch] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        state = "open" if self.alive else "not open"
        return f"<IrcSession {self.nick}@{self.settings.server} {state}, in {len(self.joined)} channels>"

    # ------------------------------------------------------------ state

    @property
    def nick(self) -> str:
        """Our nick, which may differ from that of the settings if somebody has that."""
        return self._login.nick

    @property
    def own_account(self) -> str:
        return self._login.own_account

    @property
    def alive(self) -> bool:
        """Whether the connection is logged in and not known to be lost."""
        return self._ready.done() and not self._connection.over.done()

    def has_capability(self, capability: str) -> bool:
        """Return whether the server has granted an IRCv3 capability."""
        return capability in self._login.capabilities

    def fold(self, name: str) -> str:
        return fold(name, self._login.supported.get("CASEMAPPING", "rfc1459"))

    def is_own_nick(self, nick: str) -> bool:
        """Whether this is our nick, or was one in an earlier connection."""
        return self.fold(nick) in {self.fold(own) for own in (self.nick, *list_nicks(self.settings.nick))}

    def find_channel(self, target: str) -> str | None:
        """Return the channel of the settings that a message's target names; None if it names none."""
        target = target.lstrip(self._login.supported.get("STATUSMSG", "")) or target
        return next((name for name in self.settings.channels if self.fold(name) == self.fold(target)), None)

    def read_status_prefix(self, target: str) -> str:
        """Return the marks of a target that names only some people in a channel, such as "@" (STATUSMSG); else ""."""
        channel = self.find_channel(target)
        return target[: len(target) - len(channel)] if channel is not None else ""

    def lacks_status_messages(self, target: str) -> bool:
        """Return whether a target names only some people in one of our channels, and the server announces no such."""
        return self.find_channel(target) is None and any(
            self.fold(target).endswith(self.fold(name)) and set(target[: -len(name)]) <= _STATUS_MARKS
            for name in self.settings.channels
        )

    def is_in(self, channel: str) -> bool:
        return self.fold(channel) in self.joined

    # ------------------------------------------------------------ lifecycle

    async def open(self) -> None:
        """Connect and log in. Raises Offline or Denied, after closing everything that was opened."""
        try:
            await self._connection.open()
            for line in self._login.begin():
                self._connection.write_at_once(*line)
            futures: list[asyncio.Future[Any]] = [self._ready, self._connection.over]
            await asyncio.wait(
                futures,
                timeout=2 * self.settings.timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._connection.over.done():
                raise self._connection.over.result()
            if not self._ready.done():
                raise Offline(f"{self.settings.server} did not complete the login in time")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        with suppress(Offline):
            self._connection.write_at_once("QUIT", "Semel is stopping")
        await self._connection.close()

    def give_up(self, why: str) -> None:
        """Give up the connection."""
        self._connection.give_up(Offline(why))

    async def wait_until_lost(self) -> Offline | Denied:
        """Wait until the connection is lost. Returns the reason."""
        return await asyncio.shield(self._connection.over)

    # ------------------------------------------------------------ requests

    async def write(self, command: str, *params: str, tags: dict[str, str] | None = None) -> None:
        """Write a line once the pace allows it. If it raises Offline, nothing of the line was written."""
        await self._connection.write(command, *params, tags=tags)

    @asynccontextmanager
    async def watch_messages(self, watcher: Watcher) -> AsyncIterator[None]:
        """Pass each message to `watcher`, too, for as long as the block lasts."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    async def wait_for_answer(self, answer: asyncio.Future[None], asked: str) -> None:
        """Wait for an answer of the server. Raises Offline if there is none, and gives the connection up."""
        futures: list[asyncio.Future[Any]] = [answer, self._connection.over]
        await asyncio.wait(futures, timeout=self.settings.timeout, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return
        if not self._connection.over.done():
            self.give_up(f"{self.settings.server} did not answer in time ({asked})")
        raise Offline(str(self._connection.over.result()))

    async def ping(self) -> None:
        """Wait until the server has dealt with all earlier lines, which it does in order. Raises Offline."""
        cookie = secrets.token_hex(8)
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def note_pong(received: Received) -> None:
            message = received.message
            if message.command == "PONG" and message.last == cookie:
                _finish(answered)

        async with self.watch_messages(note_pong):
            await self.write("PING", cookie)
            await self.wait_for_answer(answered, "PING")

    async def join(self, channel: str) -> str:
        """Join a channel, unless we are in it. Returns why the server does not let us in; "" if we are in.

        Raises Offline.
        """
        if self.is_in(channel):
            return ""
        decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        refusal = ""

        def note_outcome(received: Received) -> None:
            nonlocal refusal
            message = received.message
            if _is_refusal(message) and self.fold(message.param(1)) == self.fold(channel):
                refusal = f"{channel}: {message.last}"
                _finish(decided)
            elif self.is_in(channel):
                _finish(decided)

        async with self.watch_messages(note_outcome):
            key = [self.settings.channel_key] if self.settings.channel_key else []
            await self.write("JOIN", channel, *key)
            await self.wait_for_answer(decided, f"JOIN {channel}")
        return refusal

    async def find_account(self, nick: str) -> NickState:
        """Ask who has a nick now (WHOIS). Raises Offline."""
        decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        exists, account = False, ""

        def note_reply(received: Received) -> None:
            nonlocal exists, account
            message = received.message
            if message.command == "263" or (
                message.command in ("401", "318") and self.fold(message.param(1)) == self.fold(nick)
            ):
                _finish(decided)
            elif message.command == "311" and self.fold(message.param(1)) == self.fold(nick):
                exists = True
            elif message.command == "330" and self.fold(message.param(1)) == self.fold(nick):
                account = message.param(2)

        async with self.watch_messages(note_reply):
            await self.write("WHOIS", nick)
            await self.wait_for_answer(decided, f"WHOIS {nick}")
        return NickState(exists, account)

    # ------------------------------------------------------------ incoming messages

    def _dispatch(self, message: IrcMessage) -> None:
        self.clock = message.time or self.clock
        received = self._resolve_batch(message)
        if message.command == "PING":
            self._connection.write_at_once("PONG", *message.params)
        elif message.command == "ERROR":
            raise Offline(f"{self.settings.server} ended the connection: {message.param(0)}")
        elif not self._ready.done() or message.command in ("CAP", "005"):
            for line in self._login.step(message):
                self._connection.write_at_once(*line)
            if self._login.done:
                _finish(self._ready)
        if not received.played_back:
            self._follow(message)
        for watcher in (*self._watchers, *([self.on_message] if self.on_message else [])):
            watcher(received)

    def _resolve_batch(self, message: IrcMessage) -> Received:
        """Keep track of open batches, and return the message with what its batch says."""
        batch = self._batches.get(message.tags.get("batch", ""))
        label = message.tags.get("label", "") or (batch.label if batch else "")
        played_back = batch is not None and batch.played_back
        if message.command == "BATCH" and message.params:
            sign, name = message.param(0)[:1], message.param(0)[1:]
            if sign == "+" and len(self._batches) < MAX_BATCHES:
                self._batches[name] = _Batch(
                    message.param(1), label, played_back or message.param(1) in HISTORY_BATCHES
                )
            elif sign == "-":
                self._batches.pop(name, None)
        return Received(message, label, played_back)

    def _follow(self, message: IrcMessage) -> None:
        """Keep track of our nick and of the channels that we are in."""
        is_own = self.fold(message.nick) == self.fold(self.nick)
        match message.command:
            case "JOIN" if is_own:
                if self.find_channel(message.param(0)) is None:  # a closed channel may send us to another one
                    self._connection.write_at_once("PART", message.param(0))
                self.joined.add(self.fold(message.param(0)))
                self.prefix = message.source
            case "PART" if is_own:
                self.joined.discard(self.fold(message.param(0)))
            case "KICK" if self.fold(message.param(1)) == self.fold(self.nick):
                self.joined.discard(self.fold(message.param(0)))
            case "NICK" if is_own:
                self._login.nick = message.param(0) or self.nick
                self.prefix = ""


def _is_refusal(message: IrcMessage) -> bool:
    """Whether a message is an error reply. Servers have refusals of their own, such as 470, 495 and 926."""
    return message.command == "926" or (message.command.isdigit() and "400" <= message.command < "600")


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
