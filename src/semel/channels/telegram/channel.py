"""A Telegram bot as a channel.

In: getUpdates, held open. What one answer holds is put with the offset behind it in one transaction; only the next
request, with that offset, confirms it to Telegram. Out: one request for each attempt. Telegram folds no repeated
message, and tells a bot nothing of its own ones: what may have been sent is held for a person to decide.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from semel.channels.http import CONNECT
from semel.channels.telegram.api import NEWS, Api, Reply
from semel.channels.telegram.calls import CAPTION, TEXT, Call, call_of, caption_instead, uploaded
from semel.channels.telegram.fetch import Fetcher
from semel.channels.telegram.hear import ALLOWED, Draft, Move, heard, torn
from semel.channels.telegram.marked import Us
from semel.channels.telegram.outcome import TOKEN, TOKEN_WAIT, Caption, Moved, Plain, receipt_of
from semel.channels.telegram.places import Cursor, now, place
from semel.channels.telegram.settings import TelegramSettings
from semel.channels.telegram.topics import Topics
from semel.channels.words import REPEAT
from semel.gateway.ports import Caps, Denied, Inbox, NotSent, Offline, Op, Receipt, Rejected, Safety, Unknown

Json = dict[str, Any]
BATCH = 100
UPLOAD = 50_000_000
"""Bytes of a file that a bot may send."""
SLOWEST = 100_000
"""Bytes a second: an upload may take its time-out, and so long."""
LEAST = 1.0
"""Seconds between two requests for news where there is none."""
TWICE = 60.0
"""Seconds: a second poller that ends ours twice within them is no accident."""
REMEMBERED = 500
_ID = re.compile(rb'"update_id"\s*:\s*(\d{1,18})')
_CONFLICT = (
    "another program asks Telegram for this bot's messages: stop it (a second gateway?), or make a bot of your own "
    "with BotFather"
)
_WEBHOOK = (
    "a webhook is set for this bot: another program uses it; stop that, and call deleteWebhook, "
    "or make a bot of your own"
)
_ANOTHER = (
    "this token is of another bot, {}, than the one that was here before, whose messages have the same numbers: put it "
    "into a section of its own, [channels.{}-2], or put the first bot's token back"
)

_log = logging.getLogger("semel.telegram")


class TelegramChannel:
    """One bot. `run` hears, `send` makes one attempt."""

    def __init__(self, name: str, settings: TelegramSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.settings = settings
        spare = len(REPEAT)
        self.caps = Caps(
            safety=Safety.AT_MOST_ONCE,
            max_len=TEXT - spare,
            unit="utf16",
            pace=settings.pace,
            timeout=2 * CONNECT + settings.timeout + UPLOAD / SLOWEST + 5,
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
        self._fetcher = Fetcher(self._api, settings.fetch)
        self._clock = clock
        self._moved: dict[int, int] = {}
        self._plain: dict[str, None] = {}  # keys of parts that go without formatting, the newest last
        self._topics = Topics()
        self._conflict: float | None = None  # when another poller ended ours
        self._another: str | None = None  # why nothing is said or heard as this bot

    def __repr__(self) -> str:
        return f"<TelegramChannel {self.name} at {self._api.host}>"

    # ------------------------------------------------------------ out

    async def send(self, op: Op) -> Receipt:
        """See `semel.gateway.ports.Channel.send`."""
        if self._another is not None:
            raise NotSent(self._another, TOKEN_WAIT)
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
        except Caption:  # nothing was changed: the same edit by its other name
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
        """A bot cannot see what it said."""
        raise NotImplementedError("Telegram does not tell a bot what it has sent")

    async def typing(self, address: str) -> None:
        """Show "typing" for five seconds. May fail."""
        where = place(address)
        params: Json = {"chat_id": now(self._moved, where.chat), "action": "typing"}
        if where.topic is not None:
            params["message_thread_id"] = where.topic
        await self._api.call("sendChatAction", params)

    # ------------------------------------------------------------ in

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        me = await self._ask("getMe", {})
        us = Us(int(me["id"]), str(me.get("username") or ""))
        text = await inbox.cursor()
        if text is None:
            cursor = await self._present()
            cursor.bot = us.id
            await inbox.put((), cursor.text())
        else:
            cursor = Cursor.read(text)
            self._is_ours(cursor, us)
        self._moved.update(cursor.moved)
        online = False
        while True:
            asked = self._clock()
            updates = await self._news(cursor.offset, self.settings.poll if online else 0.0)
            if updates:
                await self._put(updates, us, inbox, cursor)
            elif not online:
                online = True
                inbox.online()
            else:  # whoever answers at once is not asked at once again
                await asyncio.sleep(max(0.0, LEAST - (self._clock() - asked)))

    def _is_ours(self, cursor: Cursor, us: Us) -> None:
        """Each bot numbers its chats' messages by itself: what another one hears would be taken for what was heard
        before. Raises Denied."""
        another = cursor.bot is not None and cursor.bot != us.id
        self._another = _ANOTHER.format(f"@{us.username}", self.name) if another else None
        if self._another is not None:
            raise Denied(self._another)
        cursor.bot = us.id

    async def _present(self) -> Cursor:
        """The first time: what was written before is not heard. Telegram forgets all but the last update, which is
        behind the cursor, too."""
        last = await self._ask("getUpdates", {"offset": -1, "limit": 1, "timeout": 0, "allowed_updates": ALLOWED})
        return Cursor(int(last[-1]["update_id"]) + 1 if last else 0)

    async def _news(self, offset: int, wait: float) -> list[Json | bytes]:
        """Updates from this offset on: all before it are confirmed. One that is no JSON comes as its bytes."""
        params = {"offset": offset, "limit": BATCH, "timeout": int(wait), "allowed_updates": ALLOWED}
        reply = await self._reply("getUpdates", params, wait)
        if reply.read:
            return list(_checked(reply))
        reply = await self._reply("getUpdates", {**params, "limit": 1, "timeout": 0}, 0.0)
        if reply.read:
            return list(_checked(reply))
        if not reply.whole:
            raise Offline(f"{self._api.host} broke off in the middle of an answer")
        if _ID.search(reply.raw) is None:
            raise Offline(f"{self._api.host} answers with something that is not the Bot API: check the setting `api`")
        return [reply.raw]

    async def _put(self, updates: Sequence[Json | bytes], us: Us, inbox: Inbox, cursor: Cursor) -> None:
        """Put what was told, and the offset behind it; what has no files does not wait for what has."""
        drafts: list[Draft] = []
        plain = True  # so far without files
        for update in updates:
            found, id = self._read(update, us)
            if plain and drafts and any(draft.files for draft in found):
                await inbox.put([draft.what for draft in drafts], cursor.text())
                drafts = []
            plain = plain and not any(draft.files for draft in found)
            drafts += found
            # As Telegram counts, also where ids begin anew, lower. Drafts up to here are put before this is committed.
            cursor.offset = id + 1
            cursor.moved = dict(self._moved)
        await inbox.put(await self._fetcher.complete(drafts, inbox), cursor.text())

    def _read(self, update: Json | bytes, us: Us) -> tuple[list[Draft], int]:
        """What an update tells, and its id."""
        if isinstance(update, bytes):
            found = _ID.search(update)
            id = int(found[1]) if found is not None else 0
            return [torn(id, update)], id
        if "my_chat_member" in update:
            self._stands(update["my_chat_member"])
        drafts = []
        for each in heard(update, us, self._moved):
            if isinstance(each, Move):
                self._moved[each.old] = each.new
            else:
                drafts.append(Draft(self._topics.placed(each.what), each.files))
        return drafts, int(update["update_id"])

    def _stands(self, told: Any) -> None:
        """How the bot stands in a chat has changed: nobody said anything, so it is told in the log alone."""
        try:
            status, chat = told["new_chat_member"]["status"], told["chat"]["id"]
        except (TypeError, KeyError):
            return
        _log.info("the bot of channel %s is now %s in chat %s", self.name, status, chat)

    async def _ask(self, method: str, params: Json) -> Any:
        """The result. Raises Offline, Denied."""
        reply = await self._reply(method, params, 0.0)
        if not reply.read:
            raise Offline(f"{self._api.host} answers with something that is not the Bot API: check the setting `api`")
        return reply.result

    async def _reply(self, method: str, params: Json, wait: float) -> Reply:
        """An answer that is no error; `read` may be false. Raises Offline, Denied."""
        try:
            reply = await self._api.call(method, params, patience=wait, most=NEWS)
        except (NotSent, Unknown) as lost:
            raise Offline(str(lost)) from None
        if reply.ok or (reply.status == 200 and not reply.read):
            return reply
        if reply.status in (401, 404) and reply.read:
            raise Denied(TOKEN)
        if reply.status == 409:
            raise self._conflicted(reply)
        if not reply.read and 300 <= reply.status < 500:
            raise Offline(f"{self._api.host} is not the Bot API (HTTP {reply.status}): check the setting `api`")
        raise Offline(f"Telegram: {reply.said or f'HTTP {reply.status}'}", reply.retry_after)

    def _conflicted(self, reply: Reply) -> Offline | Denied:
        if "webhook" in reply.said.lower():
            return Denied(_WEBHOOK)
        before, self._conflict = self._conflict, self._clock()
        if before is None or self._conflict - before > TWICE:  # somebody looked once, by hand
            return Offline(_CONFLICT)
        return Denied(_CONFLICT)


def _checked(reply: Reply) -> Sequence[Json]:
    """The updates of an answer. Raises Offline for what is none."""
    found = reply.result
    if not isinstance(found, list) or not all(
        isinstance(u, dict) and isinstance(u.get("update_id"), int) for u in found
    ):
        raise Offline("Telegram's answer holds no updates")
    return found
