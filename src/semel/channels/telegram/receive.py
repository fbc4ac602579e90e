"""Receive updates by long polling (getUpdates, held open).

The updates of an answer and the offset after them are put in one transaction. Telegram regards them as confirmed only
by the next request, which carries that offset (Law 1). If another program polls with the same token, a webhook is set,
or the token belongs to another bot, the receiver ends with a message that says what to do.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

from semel.channels.telegram.address import Cursor
from semel.channels.telegram.downloads import Fetcher
from semel.channels.telegram.parse import ALLOWED, Draft, Move, heard, torn
from semel.channels.telegram.parse_entities import BotIdentity
from semel.channels.telegram.receipts import TOKEN
from semel.channels.telegram.topic_memory import Topics
from semel.channels.telegram.transport import MAX_UPDATES_BYTES, Api, Reply
from semel.gateway.ports import Denied, Inbox, NotSent, Offline, Unknown

Json = dict[str, Any]
UPDATES_PER_REQUEST = 100
POLL_INTERVAL_S = 1.0
"""Minimum seconds between two requests while there are no updates."""
CONFLICT_WINDOW_S = 60.0
"""If another poller ends our request twice within these seconds, it is permanent and not a single manual call."""
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


class Receiver:
    """The receiving half of one bot. `moved` and `topics` are shared with the sending half."""

    def __init__(
        self,
        name: str,
        api: Api,
        fetcher: Fetcher,
        *,
        poll_s: float,
        moved: dict[int, int],
        topics: Topics,
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._api = api
        self._fetcher = fetcher
        self._poll_s = poll_s
        self._moved = moved
        self._topics = topics
        self._clock = clock
        self._conflict: float | None = None
        """Time of the last conflict with another poller, by `clock`."""
        self.another_bot: str | None = None
        """Why the channel is blocked: the token belongs to another bot than the cursor. `None` if it is not blocked."""

    def __repr__(self) -> str:
        return f"<Receiver of {self._name} at {self._api.host}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        me = await self._ask("getMe", {})
        us = BotIdentity(int(me["id"]), str(me.get("username") or ""))
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
            updates = await self._news(cursor.offset, self._poll_s if online else 0.0)
            if updates:
                await self._put(updates, us, inbox, cursor)
            elif not online:
                online = True
                inbox.online()
            else:  # a server that answers at once must not cause a busy loop
                await asyncio.sleep(max(0.0, POLL_INTERVAL_S - (self._clock() - asked)))

    def _is_ours(self, cursor: Cursor, us: BotIdentity) -> None:
        """Check that the cursor belongs to this bot. Raises Denied.

        Message numbers are per bot, so messages of another bot would be taken for duplicates of earlier ones.
        """
        another = cursor.bot is not None and cursor.bot != us.id
        self.another_bot = _ANOTHER.format(f"@{us.username}", self._name) if another else None
        if self.another_bot is not None:
            raise Denied(self.another_bot)
        cursor.bot = us.id

    async def _present(self) -> Cursor:
        """The cursor for a first run, after all pending updates: earlier messages are not reported."""
        last = await self._ask("getUpdates", {"offset": -1, "limit": 1, "timeout": 0, "allowed_updates": ALLOWED})
        return Cursor(int(last[-1]["update_id"]) + 1 if last else 0)

    async def _news(self, offset: int, wait: float) -> list[Json | bytes]:
        """The updates from this offset on; the request confirms all earlier ones. An update that is not valid JSON is
        returned as bytes."""
        params = {"offset": offset, "limit": UPDATES_PER_REQUEST, "timeout": int(wait), "allowed_updates": ALLOWED}
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

    async def _put(self, updates: Sequence[Json | bytes], us: BotIdentity, inbox: Inbox, cursor: Cursor) -> None:
        """Put the updates and the offset after them. Updates before the first one with files are put at once, without
        waiting for downloads."""
        drafts: list[Draft] = []
        plain = True  # no files so far
        for update in updates:
            found, id = self._read(update, us)
            if plain and drafts and any(draft.files for draft in found):
                await inbox.put([draft.what for draft in drafts], cursor.text())
                drafts = []
            plain = plain and not any(draft.files for draft in found)
            drafts += found
            # Follows Telegram's numbering even if it restarts lower. All drafts so far are committed with this offset.
            cursor.offset = id + 1
            cursor.moved = dict(self._moved)
        await inbox.put(await self._fetcher.complete(drafts, inbox), cursor.text())

    def _read(self, update: Json | bytes, us: BotIdentity) -> tuple[list[Draft], int]:
        """Parse one update: (its drafts, its id)."""
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
        """Log a change of the bot's membership in a chat; it is not a message."""
        try:
            status, chat = told["new_chat_member"]["status"], told["chat"]["id"]
        except (TypeError, KeyError):
            return
        _log.info("the bot of channel %s is now %s in chat %s", self._name, status, chat)

    async def _ask(self, method: str, params: Json) -> Any:
        """The result. Raises Offline, Denied."""
        reply = await self._reply(method, params, 0.0)
        if not reply.read:
            raise Offline(f"{self._api.host} answers with something that is not the Bot API: check the setting `api`")
        return reply.result

    async def _reply(self, method: str, params: Json, wait: float) -> Reply:
        """Make a call and return its answer, a success or an unreadable 200 (not `read`). Raises Offline, Denied."""
        try:
            reply = await self._api.call(method, params, patience=wait, most=MAX_UPDATES_BYTES)
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
        if before is None or self._conflict - before > CONFLICT_WINDOW_S:  # a single call, perhaps by hand
            return Offline(_CONFLICT)
        return Denied(_CONFLICT)


def _checked(reply: Reply) -> Sequence[Json]:
    """The updates of an answer. Raises Offline if the result is malformed."""
    found = reply.result
    if not isinstance(found, list) or not all(
        isinstance(u, dict) and isinstance(u.get("update_id"), int) for u in found
    ):
        raise Offline("Telegram's answer holds no updates")
    return found
