"""A Telegram bot as a channel.

Each attempt to send makes one request that can take effect. Telegram has no idempotency keys, and bots cannot list
their own messages. So the safety class is at-most-once: a part with an unknown outcome is held until a person decides.
Receiving is in `semel.channels.telegram.receive`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from semel.channels.http import CONNECT_TIMEOUT_S
from semel.channels.recent_map import RecentMap
from semel.channels.telegram.address import current_chat, parse_address
from semel.channels.telegram.downloads import TelegramFetcher
from semel.channels.telegram.receipts import (
    TOKEN_REFUSED,
    TOKEN_RETRY_DELAY_S,
    CaptionNeeded,
    DocumentNeeded,
    GroupMigrated,
    PlainNeeded,
    TopicGone,
    receipt_of,
)
from semel.channels.telegram.receive import TelegramReceiver, Topics
from semel.channels.telegram.send import (
    MAX_CAPTION_UNITS,
    MAX_TEXT_UNITS,
    BotApiCall,
    edit_caption_instead,
    make_call,
    make_upload,
)
from semel.channels.telegram.settings import TelegramSettings
from semel.channels.telegram.transport import BotApi, TelegramReply
from semel.channels.uploads import limit_upload_time, read_file
from semel.gateway.ports import REPEAT_PREFIX, Caps, Inbox, NotSent, Op, Receipt, Rejected, Safety
from semel.text.json_types import Json

MAX_UPLOAD_BYTES = 50_000_000
"""Maximum size in bytes of a file that a bot may send."""
MAX_PLAIN_KEYS = 500


class TelegramChannel:
    """One bot. `run` receives, `send` makes one attempt."""

    def __init__(self, name: str, settings: TelegramSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.settings = settings
        spare = len(REPEAT_PREFIX)
        self.caps = Caps(
            safety=Safety.AT_MOST_ONCE,
            max_len=MAX_TEXT_UNITS - spare,
            unit="utf16",
            pace=settings.pace,
            timeout=2 * CONNECT_TIMEOUT_S + settings.timeout + limit_upload_time(MAX_UPLOAD_BYTES) + 5,
            edits=True,
            button_edits=True,
            deletes=True,
            reactions=True,
            typing=True,
            threads=True,
            files=True,
            file_limit=MAX_UPLOAD_BYTES,
            empty_files=False,
            caption_len=MAX_CAPTION_UNITS - spare,
            dialect="telegram",
            numbered=True,
            account_refusals=(TOKEN_REFUSED,),
        )
        self._api = BotApi(settings)
        self._moved: dict[int, int] = {}
        self._plain_keys = RecentMap[str, None](MAX_PLAIN_KEYS)  # keys of parts to send without formatting
        self._document_keys = RecentMap[str, None](MAX_PLAIN_KEYS)  # keys of parts whose file goes as a document
        self._topicless_keys = RecentMap[str, None](MAX_PLAIN_KEYS)  # keys of parts whose private topic is gone
        self._topics = Topics()
        self._receiver = TelegramReceiver(
            name,
            self._api,
            TelegramFetcher(self._api, settings.fetch),
            poll_s=settings.poll,
            moved=self._moved,
            topics=self._topics,
            clock=clock,
        )

    def __repr__(self) -> str:
        return f"<TelegramChannel {self.name} at {self._api.host}>"

    async def check(self) -> None:
        """See `semel.gateway.ports.Channel`."""
        await self._receiver.check_webhook()

    async def send(self, op: Op) -> Receipt:
        """See `semel.gateway.ports.Channel.send`."""
        if self._receiver.another_bot is not None:
            raise NotSent(self._receiver.another_bot, TOKEN_RETRY_DELAY_S)
        sent = replace(op, address=str(parse_address(op.address).chat)) if op.key in self._topicless_keys else op
        call = make_call(
            sent, self._moved, plain=op.key in self._plain_keys, previews=self.settings.previews,
            as_document=op.key in self._document_keys,
        )  # fmt: skip
        try:
            receipt = await self._attempt(sent, call)
            self._topics.learn(receipt.id, op.address)
            return receipt
        except (PlainNeeded, DocumentNeeded) as refusal:
            keys, how = (
                (self._plain_keys, "without formatting")
                if isinstance(refusal, PlainNeeded)
                else (self._document_keys, "as a document")
            )
            if op.key in keys:
                raise Rejected(f"Telegram: {refusal}") from None
            keys[op.key] = None
            raise NotSent(f"Telegram refuses it as it is ({refusal}); the next attempt goes {how}", 0) from None
        except TopicGone as refusal:
            if op.key in self._topicless_keys:
                raise Rejected(f"Telegram: {refusal}") from None
            self._topicless_keys[op.key] = None
            raise NotSent(f"Telegram: {refusal}; the next attempt goes to the chat itself", 0) from None
        except GroupMigrated as move:
            if self._moved.get(chat := parse_address(op.address).chat) == move.chat:
                raise Rejected(f"Telegram says that {move}, and says the same of that group") from None
            self._moved[chat] = move.chat
            raise NotSent(f"{move}; the next attempt goes there", 0) from None

    async def _attempt(self, op: Op, call: BotApiCall) -> Receipt:
        try:
            return receipt_of(op, await self._make_call(op, call))
        except CaptionNeeded:  # the message is a file: edit its caption instead
            return receipt_of(op, await self._make_call(op, edit_caption_instead(call)))

    async def _make_call(self, op: Op, call: BotApiCall) -> TelegramReply:
        if call.file is None:
            return await self._api.call(call.method, call.params)
        content = await read_file(op)
        upload = make_upload(op, call.file, content)
        return await self._api.call(call.method, call.params, upload=upload, patience=limit_upload_time(len(content)))

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Not supported: a bot cannot list its own messages."""
        raise NotImplementedError("Telegram does not tell a bot what it has sent")

    async def typing(self, address: str) -> None:
        """Show the typing indicator for five seconds. May raise; the indicator is best effort."""
        where = parse_address(address)
        if not where.is_direct:  # sendChatAction takes no such topic
            params: Json = {"chat_id": current_chat(self._moved, where.chat), "action": "typing", **where.topic_params}
            await self._api.call("sendChatAction", params)

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await self._receiver.run(inbox)
