"""A Telegram bot as a channel.

Each attempt to send makes one request. Telegram has no idempotency keys, and bots cannot list their own messages; so
the safety class is at-most-once: a part with an unknown outcome is held until a person decides. Receiving is in
`semel.channels.telegram.receive`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from semel.channels.http import CONNECT_TIMEOUT_S
from semel.channels.telegram.address import now, place
from semel.channels.telegram.downloads import Fetcher
from semel.channels.telegram.receipts import TOKEN_WAIT, Caption, Moved, Plain, receipt_of
from semel.channels.telegram.receive import Receiver
from semel.channels.telegram.send import CAPTION, TEXT, Call, call_of, caption_instead, uploaded
from semel.channels.telegram.settings import TelegramSettings
from semel.channels.telegram.topic_memory import Topics
from semel.channels.telegram.transport import Api, Reply
from semel.channels.words import REPEAT_PREFIX
from semel.gateway.ports import Caps, Inbox, NotSent, Op, Receipt, Rejected, Safety

Json = dict[str, Any]
UPLOAD = 50_000_000
"""Maximum size in bytes of a file that a bot may send."""
SLOWEST = 100_000
"""Assumed minimum upload rate in bytes per second; it extends the time limit of uploads."""
REMEMBERED = 500


class TelegramChannel:
    """One bot. `run` receives, `send` makes one attempt."""

    def __init__(self, name: str, settings: TelegramSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.settings = settings
        spare = len(REPEAT_PREFIX)
        self.caps = Caps(
            safety=Safety.AT_MOST_ONCE,
            max_len=TEXT - spare,
            unit="utf16",
            pace=settings.pace,
            timeout=2 * CONNECT_TIMEOUT_S + settings.timeout + UPLOAD / SLOWEST + 5,
            edits=True,
            deletes=True,
            reactions=True,
            typing=True,
            threads=True,
            files=True,
            file_limit=UPLOAD,
            caption_len=CAPTION - spare,
            dialect="telegram",
            numbered=True,
        )
        self._api = Api(settings)
        self._moved: dict[int, int] = {}
        self._plain: dict[str, None] = {}  # keys of parts to send without formatting, newest last
        self._topics = Topics()
        self._receiver = Receiver(
            name,
            self._api,
            Fetcher(self._api, settings.fetch),
            poll_s=settings.poll,
            moved=self._moved,
            topics=self._topics,
            clock=clock,
        )

    def __repr__(self) -> str:
        return f"<TelegramChannel {self.name} at {self._api.host}>"

    async def send(self, op: Op) -> Receipt:
        """See `semel.gateway.ports.Channel.send`."""
        if self._receiver.another_bot is not None:
            raise NotSent(self._receiver.another_bot, TOKEN_WAIT)
        call = call_of(op, self._moved, plain=op.key in self._plain, previews=self.settings.previews)
        try:
            receipt = await self._attempt(op, call)
            self._topics.learn(receipt.id, op.address)
            return receipt
        except Plain as no:
            if op.key in self._plain:
                raise Rejected(f"Telegram: {no}") from None
            self._remember(op.key)
            raise NotSent(
                f"Telegram refuses it as it is ({no}); it goes without formatting, or as a document", 0
            ) from None
        except Moved as moved:
            if self._moved.get(chat := place(op.address).chat) == moved.chat:
                raise Rejected(f"Telegram: {moved}, and says so there, too") from None
            self._moved[chat] = moved.chat
            raise NotSent(f"{moved}; it goes there", 0) from None

    async def _attempt(self, op: Op, call: Call) -> Receipt:
        try:
            return receipt_of(op, await self._sent(op, call))
        except Caption:  # the message is a file: edit its caption instead
            return receipt_of(op, await self._sent(op, caption_instead(call)))

    async def _sent(self, op: Op, call: Call) -> Reply:
        if call.file is None:
            return await self._api.call(call.method, call.params)
        if op.file is None:
            raise Rejected("there is no file to send")
        try:
            content = await asyncio.to_thread(op.file.read_bytes)
        except OSError as gone:
            raise Rejected(f"the stored file cannot be read: {gone.strerror}") from None
        upload = uploaded(op, call.file, content)
        return await self._api.call(call.method, call.params, upload=upload, patience=len(content) / SLOWEST)

    def _remember(self, key: str) -> None:
        self._plain[key] = None
        while len(self._plain) > REMEMBERED:
            del self._plain[next(iter(self._plain))]

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Not supported: a bot cannot list its own messages."""
        raise NotImplementedError("Telegram does not tell a bot what it has sent")

    async def typing(self, address: str) -> None:
        """Show the typing indicator for five seconds. May raise; the indicator is best effort."""
        where = place(address)
        params: Json = {"chat_id": now(self._moved, where.chat), "action": "typing"}
        if where.topic is not None:
            params["message_thread_id"] = where.topic
        await self._api.call("sendChatAction", params)

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await self._receiver.run(inbox)
