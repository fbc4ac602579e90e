"""A Slack app as a channel: its capabilities, and the methods of the channel port.

Slack folds no repeats, but shows a bot what it wrote: so the safety class is reconcilable. Each attempt to send makes
one request that can take effect.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.channels.http import CONNECT_TIMEOUT_S
from semel.channels.slack.account import SlackDirectory
from semel.channels.slack.receipts import MANUAL_RETRY_DELAY_S, TOKEN_REFUSED, TokenRefused
from semel.channels.slack.receive import SlackReceiver
from semel.channels.slack.send import LOOKS, SlackSender
from semel.channels.slack.settings import SlackSettings
from semel.channels.slack.transport import SlackApi
from semel.channels.uploads import limit_upload_time
from semel.gateway.ports import REPEAT_PREFIX, Caps, Inbox, NotSent, Op, Receipt, Safety, Unknown
from semel.text.json_types import Json

MAX_PART_CHARS = 8_000
"""Characters of one message. A `markdown` block takes 12,000, and a text of 40,000 in which `&` and `<` are escaped."""
MAX_CAPTION_CHARS = 4_000
"""Characters of the text of a file, which is followed by the link to it."""


class SlackChannel:
    """One app. `run` receives, `send` makes one attempt, `find` looks for a part."""

    def __init__(self, name: str, settings: SlackSettings) -> None:
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
            button_edits=True,
            deletes=True,
            reactions=True,
            typing=True,
            threads=True,
            files=True,
            file_limit=settings.file_limit,
            empty_files=False,
            caption_len=MAX_CAPTION_CHARS,
            dialect="slack",
            numbered=True,
            account_refusals=(TOKEN_REFUSED,),
        )
        self._api = SlackApi(settings)
        self._receiver = SlackReceiver(name, settings, self._api, SlackDirectory(self._api))
        self._sender = SlackSender(self._api, settings)

    def __repr__(self) -> str:
        return f"<SlackChannel {self.name} at {self._api.host}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await self._receiver.run(inbox)

    async def receive(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle a request of the Events API. Returns (HTTP status, response body), after the commit."""
        return await self._receiver.take_request(inbox, headers, body)

    async def send(self, op: Op) -> Receipt:
        """Make one attempt. Raises NotSent, Rejected or Unknown."""
        if self._receiver.another_bot is not None:
            raise NotSent(self._receiver.another_bot, MANUAL_RETRY_DELAY_S)
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
        """Show the status "is working" in a thread. May raise; the indicator is best effort."""
        await self._sender.show_status(address)
