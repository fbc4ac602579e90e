"""Receive over one connection: live messages, and what the server plays back of its channels (Law 1).

1. Join the channels. A server with a history plays back what was said, each message with its id and time; from one with
   `draft/chathistory` it is asked for, page by page.
2. Put what is newer than the saved position of its channel, then live messages. Messages that came live before are
   recognised by their id.
3. Check every `keepalive` that the server answers, that we are in the channels, and that we have our nick.

Without message ids nothing is played back, so that each message comes once or, while nothing is connected, never.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from semel.channels.connection_loss import run_until_lost
from semel.channels.irc.parse import NICK_MARK, is_own, message_id, parse_message
from semel.channels.irc.session import IrcSession, Received
from semel.channels.irc.wire import fold
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import Inbox, Incoming

log = logging.getLogger(__name__)

MAX_WAITING_MESSAGES = 20_000
"""Most messages that wait for the disk. Beyond, the connection is given up: what has a history is then read from it."""
PUT_MESSAGES = 200
HISTORY_PAGE = 100
CLOCK_SLACK_S = 60.0
"""Seconds by which the clocks of a network's servers may differ: so much is read again."""


@dataclass(frozen=True)
class Position:
    """Up to where a channel was read: `at` is the newest message's time in seconds, `id` its id. `start`: from when."""

    start: float
    at: float
    id: str = ""


class IrcReceiver:
    """Reads one connection until it is lost. `nicks`: account -> the nick that it wrote from last."""

    def __init__(
        self,
        session: IrcSession,
        inbox: Inbox,
        sent_ids: Container[str],
        nicks: RecentMap[str, str],
        now: Callable[[], float],
    ) -> None:
        self.session, self.inbox = session, inbox
        self._sent_ids, self._nicks, self._now = sent_ids, nicks, now
        self._waiting: deque[Received] = deque()
        self._more = asyncio.Event()
        self._positions: dict[str, Position] = {}
        self._unknown_nicks: RecentMap[str, None] = RecentMap(1000)
        session.on_message = self._on_message

    async def run(self) -> None:
        """Receive until the connection is lost. Raises Offline or Denied, and the inbox's exceptions."""
        await run_until_lost(self._work(), self.session.wait_until_lost(), lambda: self.session.alive)

    async def _work(self) -> None:
        self._positions = parse_cursor(await self.inbox.cursor())
        await self._join_all()
        await self.session.ping()  # what is played back at the join has come
        now = self.session.clock or self._now()
        present = {fold(name): Position(now, now) for name in self.session.settings.channels}
        self._positions = {name: self._positions.get(name, start) for name, start in present.items()}
        if self.session.has_capability("draft/chathistory"):
            for name in self.session.settings.channels:
                await self._read_missed(name)
        await self.inbox.put([], self._cursor())
        await self._put_waiting()
        self.inbox.online()
        clock = asyncio.get_running_loop().time
        check = clock() + self.session.settings.keepalive
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(check):
                    await self._more.wait()
            if clock() >= check:  # also under constant traffic
                await self._check()
                check = clock() + self.session.settings.keepalive
            self._more.clear()
            await self._put_waiting()

    async def _check(self) -> None:
        await self._join_all()
        if self.session.nick != self.session.settings.nick:
            await self.session.write("NICK", self.session.settings.nick)
        await self.session.ping()

    async def _join_all(self) -> None:
        for channel in self.session.settings.channels:
            if refusal := await self.session.join(channel):
                log.warning("the server does not let us in: %s", refusal)

    async def _read_missed(self, channel: str) -> None:
        """Ask for a channel's messages since its saved position, to the last page (draft/chathistory)."""
        since = self._positions[fold(channel)].at - CLOCK_SLACK_S
        start = f"timestamp={datetime.fromtimestamp(since, UTC).strftime('%Y-%m-%dT%H:%M:%S.%f')[:-3]}Z"
        while self.session.is_in(channel):
            page: list[str] = []

            def note_id(received: Received, page: list[str] = page) -> None:
                if received.played_back and received.message.command in ("PRIVMSG", "NOTICE"):
                    page.append(message_id(received.message))

            async with self.session.watch_messages(note_id):
                await self.session.write("CHATHISTORY", "AFTER", channel, start, str(HISTORY_PAGE))
                await self.session.ping()
            if not page or not page[-1] or start == f"msgid={page[-1]}":
                return
            start = f"msgid={page[-1]}"

    # ------------------------------------------------------------ what came

    def _on_message(self, received: Received) -> None:
        if received.message.command not in ("PRIVMSG", "NOTICE"):
            return
        if len(self._waiting) >= MAX_WAITING_MESSAGES:
            self.session.give_up("more messages came than can wait")
            return
        self._waiting.append(received)
        self._more.set()

    async def _put_waiting(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(PUT_MESSAGES, len(self._waiting)))]
            events = [event for received in batch if (event := await self._read(received)) is not None]
            for event in events:
                if event.group:
                    name = fold(event.title)
                    position = self._positions.get(name, Position(event.at, event.at))
                    self._positions[name] = Position(position.start, max(position.at, event.at), event.key)
            if events:
                await self.inbox.put(events, self._cursor())

    async def _read(self, received: Received) -> Incoming | None:
        """Return the event of a message; None if there is none, or it is older than what was read before."""
        message = received.message
        try:
            event = parse_message(received, self.session, self._sent_ids, self._now())
        except Exception as fault:  # one bad message must not block all later ones (Law 1)
            log.warning("a message is not understood", exc_info=True)
            why = f"{type(fault).__name__}: {fault}"
            return Incoming(
                "unreadable",
                message_id(message) or f"unreadable:{secrets.token_hex(12)}",
                raw=repr(message).encode(),
                why=why,
            )
        if event is None:
            self._tell_unknown(received)
            return None
        if event.sender is not None and not event.sender.id.startswith(NICK_MARK):
            self._nicks[event.sender.id] = message.nick
        if not received.played_back:
            return event
        position = self._positions.get(fold(event.title))
        if position is None or not message_id(message) or message.time is None:
            return None
        if event.at < max(int(position.start), position.at - CLOCK_SLACK_S):  # some servers give whole seconds
            return None
        by_nick = (
            event.sender is not None
            and event.sender.id.startswith(NICK_MARK)
            and self.session.has_capability("account-tag")
        )
        if by_nick and await self.inbox.has_heard(event.key):  # perhaps of an account, which InspIRCd does not keep
            return None
        return event

    def _tell_unknown(self, received: Received) -> None:
        """Say once for each nick why it is not heard."""
        message, session = received.message, self.session
        is_private = session.fold(message.param(0)) == session.fold(session.nick)
        if not is_private or "!" not in message.source or is_own(message, session) or session.settings.trust_nicks:
            return
        if message.nick not in self._unknown_nicks and not message.tags.get("account"):
            self._unknown_nicks[message.nick] = None
            log.warning("%.60s is not heard: the nick is not logged in to an account", message.nick)

    def _cursor(self) -> str:
        saved = {name: [each.start, each.at, each.id] for name, each in self._positions.items()}
        return json.dumps(saved, separators=(",", ":"))


def parse_cursor(text: str | None) -> dict[str, Position]:
    """Return the saved positions by channel; {} for a first run, or if the cursor cannot be read."""
    try:
        saved = json.loads(text or "{}")
        return {str(name): Position(float(start), float(at), str(id)) for name, (start, at, id) in dict(saved).items()}
    except (ValueError, TypeError, AttributeError):
        log.warning("the cursor %.200r cannot be read: reading begins at the present", text)
        return {}
