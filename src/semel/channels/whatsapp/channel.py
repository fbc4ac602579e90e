"""A WhatsApp business number as a channel: its capabilities, and the methods of the channel port.

Meta folds no repeats, and nothing can be asked what it has; but it reports on each message that it took. A report
settles a part whose answer was lost; that none came proves nothing. So the safety class is at-most-once: a part without
an answer and without a report is held until a report comes, or a person decides.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping

from semel.channels.http import CONNECT_TIMEOUT_S
from semel.channels.uploads import limit_upload_time
from semel.channels.whatsapp.receipts import TOKEN_REFUSED
from semel.channels.whatsapp.receive import WhatsAppReceiver
from semel.channels.whatsapp.send import MAX_CAPTION_UNITS, MAX_TEXT_UNITS, WhatsAppSender
from semel.channels.whatsapp.settings import WhatsAppSettings
from semel.channels.whatsapp.statuses import StatusReports
from semel.channels.whatsapp.transport import GraphApi
from semel.gateway.ports import REPEAT_PREFIX, Caps, Inbox, Op, Receipt, Safety
from semel.text.json_types import Json


class WhatsAppChannel:
    """One number. `run` watches the account, `receive` receives, `send` makes one attempt."""

    def __init__(self, name: str, settings: WhatsAppSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self.settings = settings
        self.caps = Caps(
            safety=Safety.AT_MOST_ONCE,
            max_len=MAX_TEXT_UNITS - len(REPEAT_PREFIX),
            unit="utf16",
            pace=settings.pace,
            timeout=2 * (2 * CONNECT_TIMEOUT_S + settings.timeout)
            + limit_upload_time(settings.file_limit)
            + settings.settle,
            reactions=True,
            typing=True,
            files=True,
            file_limit=settings.file_limit,
            empty_files=False,
            caption_len=MAX_CAPTION_UNITS - len(REPEAT_PREFIX),
            dialect="whatsapp",
            account_refusals=(TOKEN_REFUSED,),
        )
        self._api = GraphApi(settings)
        reports = StatusReports()
        self._receiver = WhatsAppReceiver(name, settings, self._api, reports, clock)
        self._sender = WhatsAppSender(self._api, settings, reports, self._receiver)

    def __repr__(self) -> str:
        return f"<WhatsAppChannel {self.name} at {self._api.host}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await self._receiver.run(inbox)

    async def receive(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle a request of Meta. Returns (HTTP status, response body), after the commit."""
        return await self._receiver.take_request(inbox, headers, body)

    def knows_token(self, token: str) -> bool:
        """Return whether a token is the setting `verify_token`, by which Meta confirms the webhook's address."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.settings.verify_token.encode())

    async def send(self, op: Op) -> Receipt:
        """Make one attempt. Raises NotSent, Rejected or Unknown."""
        return await self._sender.send(op)

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Not supported: nothing can be asked what Meta took."""
        raise NotImplementedError("Meta reports on messages by itself, and cannot be asked for them")

    async def typing(self, address: str) -> None:
        """Show the typing indicator for 25 seconds. May raise; the indicator is best effort."""
        await self._sender.show_typing(address)
