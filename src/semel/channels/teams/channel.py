"""A bot in Microsoft Teams as a channel: its capabilities, and the methods of the channel port.

The Bot Connector folds no repeats, and a bot cannot read what it wrote. So the safety class is at-most-once. Messages
can be edited and deleted, so a message goes in two steps (docs/outbox.md): a lost answer leaves at worst a "…".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from semel.channels.http import CONNECT_TIMEOUT_S
from semel.channels.teams.receive import TeamsReceiver
from semel.channels.teams.send import MAX_TEXT_UNITS, TeamsSender
from semel.channels.teams.settings import TeamsSettings
from semel.channels.teams.transport import TOKEN_REFUSED, TeamsApi
from semel.gateway.ports import REPEAT_PREFIX, Caps, Inbox, Op, Receipt, Safety
from semel.text.json_types import Json

MAX_CALLS = 4
"""Calls of one attempt: for a token, to a chat that was deleted, for a new one, and the one that shows the message."""


class TeamsChannel:
    """One bot. `run` watches the account, `receive` receives, `send` makes one attempt."""

    def __init__(self, name: str, settings: TeamsSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self.settings = settings
        self.caps = Caps(
            safety=Safety.AT_MOST_ONCE,
            max_len=MAX_TEXT_UNITS - len(REPEAT_PREFIX),
            unit="utf16",
            pace=settings.pace,
            timeout=MAX_CALLS * (2 * CONNECT_TIMEOUT_S + settings.timeout),
            edits=True,
            button_edits=True,
            deletes=True,
            typing=True,
            threads=True,
            files=True,
            file_limit=settings.file_limit,
            empty_files=False,
            caption_len=0,
            dialect="teams",
            account_refusals=(TOKEN_REFUSED,),
        )
        self._api = TeamsApi(settings)
        self._receiver = TeamsReceiver(name, settings, self._api, clock)
        self._sender = TeamsSender(self._api, settings, self._receiver)

    def __repr__(self) -> str:
        return f"<TeamsChannel {self.name} at {self._api.host}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await self._receiver.run(inbox)

    async def receive(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle a request of Teams. Returns (HTTP status, response body), after the commit."""
        return await self._receiver.take_request(inbox, headers, body)

    async def send(self, op: Op) -> Receipt:
        """Make one attempt. Raises NotSent, Rejected or Unknown."""
        return await self._sender.send(op)

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Not supported: a bot cannot read what it wrote."""
        raise NotImplementedError("Teams does not tell a bot what it has sent")

    async def typing(self, address: str) -> None:
        """Show that an answer is on its way. May raise; the indicator is best effort."""
        await self._sender.show_typing(address)
