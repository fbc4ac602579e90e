"""A Mattermost account as a channel: its capabilities, and the methods of the channel port.

Mattermost shows a bot what it wrote: so the safety class is reconcilable. Each attempt to send makes one request that
can take effect.
"""

from __future__ import annotations

from semel.channels.http import CONNECT_TIMEOUT_S
from semel.channels.mattermost.directory import MattermostDirectory
from semel.channels.mattermost.receipts import TOKEN_REFUSED, TOKEN_RETRY_DELAY_S, TokenRefused
from semel.channels.mattermost.receive import MattermostReceiver
from semel.channels.mattermost.send import LOOKS, MattermostSender
from semel.channels.mattermost.settings import MattermostSettings
from semel.channels.mattermost.transport import MattermostApi
from semel.channels.uploads import limit_upload_time
from semel.gateway.ports import REPEAT_PREFIX, Caps, Inbox, NotSent, Op, Receipt, Safety, Unknown

MAX_PART_CHARS = 16_000
"""Characters of one message. Mattermost takes 16,383; the rest is for a mark and for stand-ins."""


class MattermostChannel:
    """One account. `run` receives, `send` makes one attempt, `find` looks for a part."""

    def __init__(self, name: str, settings: MattermostSettings) -> None:
        self.name = name
        self.settings = settings
        self.caps = Caps(
            safety=Safety.RECONCILABLE,
            max_len=MAX_PART_CHARS - len(REPEAT_PREFIX),
            unit="char",
            settle=settings.settle,
            finds=True,
            pace=settings.pace,
            timeout=4 * (CONNECT_TIMEOUT_S + settings.timeout)
            + limit_upload_time(settings.file_limit)
            + LOOKS * settings.settle,
            edits=True,
            deletes=True,
            reactions=True,
            typing=True,
            threads=True,
            button_edits=True,
            button_reactions=True,
            files=True,
            file_limit=settings.file_limit,
            empty_files=False,
            dialect="mattermost",
            account_refusals=(TOKEN_REFUSED,),
        )
        self._api = MattermostApi(settings)
        self._receiver = MattermostReceiver(name, settings, self._api, MattermostDirectory(self._api))
        self._sender = MattermostSender(self._api, settings)

    def __repr__(self) -> str:
        return f"<MattermostChannel {self.name} at {self._api.host}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await self._receiver.run(inbox)

    async def send(self, op: Op) -> Receipt:
        """Make one attempt. Raises NotSent, Rejected or Unknown."""
        if self._receiver.another_bot is not None:
            raise NotSent(self._receiver.another_bot, TOKEN_RETRY_DELAY_S)
        try:
            return await self._sender.send(op)
        except TokenRefused:
            self._receiver.doubt_token()
            raise

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Find a part and return its receipt; None if it was not sent after `since` (seconds since the epoch)."""
        if self._receiver.another_bot is not None:
            raise Unknown(self._receiver.another_bot)
        receipt = await self._sender.find(op, since)
        if receipt is None and not self._receiver.is_known_bot:  # to another one, our messages are a stranger's
            raise Unknown("the channel has not been connected yet: the token may be another bot's")
        return receipt

    async def typing(self, address: str) -> None:
        """Show that an answer is on its way. May raise; the indicator is best effort."""
        await self._sender.show_typing(address)
