"""One nick on an IRC network as a channel: its capabilities, and the methods of the channel port.

IRC folds no repeats and shows nobody what was sent, so the safety class is at-most-once. A second connection would be a
second nick: `send` uses the connection of `run`, and without one nothing is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from semel.channels.irc.receive import IrcReceiver
from semel.channels.irc.send import MAX_TEXT_BYTES, IrcSender
from semel.channels.irc.session import IrcSession
from semel.channels.irc.settings import IrcSettings
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import REPEAT_PREFIX, Caps, Inbox, NotSent, Op, Receipt, Safety

MAX_LINES = MAX_TEXT_BYTES // 2
"""Most lines of one part: each has a character and a line end."""


class IrcChannel:
    """One configured nick. `run` receives, `send` makes one attempt over the connection of `run`."""

    def __init__(self, name: str, settings: IrcSettings, *, now: Callable[[], float] = time.time) -> None:
        self.name = name
        self.settings = settings
        self.caps = Caps(
            safety=Safety.AT_MOST_ONCE,
            max_len=MAX_TEXT_BYTES - len(REPEAT_PREFIX),
            unit="byte",
            timeout=5 * settings.timeout + 2 * MAX_LINES * settings.pace + 5,
            dialect="irc",
        )
        self._now = now
        self._sent_ids: RecentMap[str, str] = RecentMap(10_000)
        self._nicks: RecentMap[str, str] = RecentMap(10_000)
        self._sender: IrcSender | None = None

    def __repr__(self) -> str:
        state = "connected" if self._sender is not None else "not connected"
        return f"<IrcChannel {self.name} {self.settings.nick}@{self.settings.server}, {state}>"

    async def run(self, inbox: Inbox) -> None:
        """Receive over one connection until it is lost. Raises Offline or Denied, and the inbox's exceptions."""
        session = IrcSession(self.settings)
        await session.open()
        try:
            receiver = IrcReceiver(session, inbox, self._sent_ids, self._nicks, self._now)
            self._sender = IrcSender(session, self._sent_ids, self._nicks)
            await receiver.run()
        finally:
            self._sender = None
            await session.close()

    async def send(self, op: Op) -> Receipt:
        """Make exactly one attempt to send. Raises NotSent, Rejected or Unknown."""
        if self._sender is None or not self._sender.session.alive:
            raise NotSent(f"there is no connection to {self.settings.server} now")
        return await self._sender.send(op)

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Not supported: a server does not tell what it has taken."""
        raise NotImplementedError("IRC does not tell what was sent")
