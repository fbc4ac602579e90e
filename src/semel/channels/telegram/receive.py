"""Receive updates by long polling (getUpdates, held open).

Updates and the offset after them are put into the inbox in one transaction. Telegram treats updates as confirmed only
when the next request carries that offset (Law 1). If another program polls with the same token, a webhook is set, or
the token belongs to another bot, the receiver raises an error that says what to do.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from semel.channels.recent_map import RecentMap
from semel.channels.telegram.address import TelegramCursor
from semel.channels.telegram.downloads import TelegramFetcher
from semel.channels.telegram.parse import (
    REQUESTED_KINDS,
    GroupMigration,
    TelegramDraft,
    make_unparsable_draft,
    parse_update,
)
from semel.channels.telegram.parse_entities import BotIdentity
from semel.channels.telegram.receipts import TOKEN_REFUSED
from semel.channels.telegram.transport import MAX_UPDATES_BYTES, BotApi, TelegramReply
from semel.gateway.ports import Denied, Inbox, Incoming, NotSent, Offline, Unknown
from semel.text.json_types import Json

UPDATES_PER_REQUEST = 100
POLL_INTERVAL_S = 1.0
"""Minimum seconds between two requests while there are no updates."""
CONFLICT_WINDOW_S = 60.0
"""If two conflicts with another poller are at most this many seconds apart, the other poller is taken as permanent."""
MAX_REMEMBERED_TOPICS = 10_000
"""Number of newest topic messages whose addresses are remembered, in memory only."""
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
    "this token belongs to another bot, {}, than before. The messages of the two bots have the same numbers, so give "
    "this bot a section of its own, [channels.{}-2], or put the first bot's token back"
)

_log = logging.getLogger("semel.telegram")


class Topics:
    """Remembers which topic a message is in, because Telegram reports a reaction without the topic of its message."""

    def __init__(self) -> None:
        self._addresses = RecentMap[str, str](MAX_REMEMBERED_TOPICS)

    def __repr__(self) -> str:
        return f"<Topics of {len(self._addresses)} messages>"

    def learn(self, message: str, address: str) -> None:
        """Remember a message's address if it is in a topic."""
        if ":" in address:
            self._addresses[message] = address

    def place(self, incoming: Incoming) -> Incoming:
        """Return a reaction with the address of its message, if known. Return any other event unchanged, and remember
        its address."""
        if incoming.kind != "reaction":
            self.learn(incoming.key, incoming.address)
            return incoming
        return replace(incoming, address=self._addresses.get(incoming.of or "", incoming.address))


class TelegramReceiver:
    """The receiving half of one bot.

    `moved`: the first ids of groups, mapped to their current ids. `topics`: the topics of messages. The sending half
    uses the same two objects.
    """

    def __init__(
        self,
        name: str,
        api: BotApi,
        fetcher: TelegramFetcher,
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
        self._acknowledging: set[asyncio.Task[None]] = set()
        self._last_conflict: float | None = None
        """Time of the last conflict with another poller, by `clock`."""
        self.another_bot: str | None = None
        """Why the channel is blocked: the token belongs to another bot than the cursor. `None` if it is not blocked."""

    def __repr__(self) -> str:
        return f"<TelegramReceiver of {self._name} at {self._api.host}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        me = await self._call_for_result("getMe", {})
        us = BotIdentity(int(me["id"]), str(me.get("username") or ""))
        text = await inbox.cursor()
        if text is None:
            cursor = await self._start_at_present()
            cursor.bot = us.id
            await inbox.put((), cursor.dump())
        else:
            cursor = TelegramCursor.load(text)
            self._check_bot(cursor, us)
        self._moved.update(cursor.moved)
        online = False
        while True:
            polled_at = self._clock()
            updates = await self._poll(cursor.offset, self._poll_s if online else 0.0)
            if updates:
                await self._put(updates, us, inbox, cursor)
            elif not online:
                online = True
                inbox.online()
            else:  # a server that answers at once must not cause a busy loop
                await asyncio.sleep(max(0.0, POLL_INTERVAL_S - (self._clock() - polled_at)))

    async def check_webhook(self) -> None:
        """Raise Denied if updates go to a webhook, for then Telegram gives none to who asks; Offline."""
        webhook = await self._call_for_result("getWebhookInfo", {})
        if isinstance(webhook, dict) and webhook.get("url"):
            raise Denied(_WEBHOOK)

    def _check_bot(self, cursor: TelegramCursor, us: BotIdentity) -> None:
        """Check that the cursor belongs to this bot. Raises Denied.

        Message numbers are per bot, so messages of another bot would be taken for duplicates of earlier ones.
        """
        is_other_bot = cursor.bot is not None and cursor.bot != us.id
        self.another_bot = _ANOTHER.format(f"@{us.username}", self._name) if is_other_bot else None
        if self.another_bot is not None:
            raise Denied(self.another_bot)
        cursor.bot = us.id

    async def _start_at_present(self) -> TelegramCursor:
        """Return the cursor for a first run: after all pending updates, so that older messages are not reported."""
        newest = await self._call_for_result(
            "getUpdates", {"offset": -1, "limit": 1, "timeout": 0, "allowed_updates": REQUESTED_KINDS}
        )
        return TelegramCursor(int(newest[-1]["update_id"]) + 1 if newest else 0)

    async def _poll(self, offset: int, wait: float) -> list[Json | bytes]:
        """Request the updates from this offset on; this confirms all earlier ones. An update that is not valid JSON is
        returned as bytes. `wait`: seconds for which Telegram may hold the request."""
        params = {
            "offset": offset,
            "limit": UPDATES_PER_REQUEST,
            "timeout": int(wait),
            "allowed_updates": REQUESTED_KINDS,
        }
        reply = await self._call("getUpdates", params, wait)
        if reply.is_bot_api:
            return list(_checked_updates(reply))
        reply = await self._call("getUpdates", {**params, "limit": 1, "timeout": 0}, 0.0)
        if reply.is_bot_api:
            return list(_checked_updates(reply))
        if not reply.is_complete:
            raise Offline(f"{self._api.host} broke off in the middle of an answer")
        if _ID.search(reply.raw) is None:
            raise Offline(f"{self._api.host} answers with something that is not the Bot API: check the setting `api`")
        return [reply.raw]

    async def _put(
        self, updates: Sequence[Json | bytes], us: BotIdentity, inbox: Inbox, cursor: TelegramCursor
    ) -> None:
        """Put the updates and the offset after them into the inbox. The updates before the first one with files are put
        separately, so that they do not wait for downloads."""
        drafts: list[TelegramDraft] = []
        no_files_yet = True
        for update in updates:
            parsed, id = self._parse_update(update, us)
            if no_files_yet and drafts and any(draft.files for draft in parsed):
                await inbox.put([draft.incoming for draft in drafts], cursor.dump())
                self._acknowledge_presses(drafts)
                drafts = []
            no_files_yet = no_files_yet and not any(draft.files for draft in parsed)
            drafts += parsed
            # Follows Telegram's numbering even if it restarts lower. All drafts so far are committed with this offset.
            cursor.offset = id + 1
            cursor.moved = dict(self._moved)
        await inbox.put(await self._fetcher.complete(drafts, inbox), cursor.dump())
        self._acknowledge_presses(drafts)

    def _acknowledge_presses(self, drafts: Sequence[TelegramDraft]) -> None:
        """Tell Telegram that presses of buttons were heard, after the commit (Law 1): until then it shows a spinner."""
        for draft in drafts:
            if draft.press is not None:
                task = asyncio.create_task(self._acknowledge_press(draft.press))
                self._acknowledging.add(task)
                task.add_done_callback(self._acknowledging.discard)

    async def _acknowledge_press(self, press: str) -> None:
        try:
            reply = await self._api.call("answerCallbackQuery", {"callback_query_id": press})
        except (NotSent, Unknown) as error:
            _log.info("a press was heard, and Telegram was not told so: %s", error)
        else:
            if not reply.ok:  # it was acknowledged before, or is too old: the press counts all the same
                _log.info("a press was heard, and its acknowledgement came to nothing: %s", reply.error_text)

    def _parse_update(self, update: Json | bytes, us: BotIdentity) -> tuple[list[TelegramDraft], int]:
        """Parse one update. Returns (its drafts, its update id). A group's new id is recorded in `self._moved`."""
        if isinstance(update, bytes):
            match = _ID.search(update)
            id = int(match[1]) if match is not None else 0
            return [make_unparsable_draft(id, update)], id
        if "my_chat_member" in update:
            self._log_membership(update["my_chat_member"])
        drafts = []
        for item in parse_update(update, us, self._moved):
            if isinstance(item, GroupMigration):
                self._moved[item.old] = item.new
            else:
                drafts.append(replace(item, incoming=self._topics.place(item.incoming)))
        return drafts, int(update["update_id"])

    def _log_membership(self, change: Any) -> None:
        """Log a change of the bot's membership in a chat; it is not a message."""
        try:
            status, chat = change["new_chat_member"]["status"], change["chat"]["id"]
        except (TypeError, KeyError):
            return
        _log.info("the bot of channel %s is now %s in chat %s", self._name, status, chat)

    async def _call_for_result(self, method: str, params: Json) -> Any:
        """Call a method and return the `result` of its answer. Raises Offline or Denied."""
        reply = await self._call(method, params, 0.0)
        if not reply.is_bot_api:
            raise Offline(f"{self._api.host} answers with something that is not the Bot API: check the setting `api`")
        return reply.result

    async def _call(self, method: str, params: Json, wait: float) -> TelegramReply:
        """Make a call. Returns a successful answer, or one with status 200 that is not from the Bot API.

        Raises Offline or Denied for all other answers.
        """
        try:
            reply = await self._api.call(method, params, patience=wait, max_bytes=MAX_UPDATES_BYTES)
        except (NotSent, Unknown) as error:
            raise Offline(str(error)) from None
        if reply.ok or (reply.status == 200 and not reply.is_bot_api):
            return reply
        if reply.status in (401, 404) and reply.is_bot_api:
            raise Denied(TOKEN_REFUSED)
        if reply.status == 409:
            raise self._classify_conflict(reply)
        if not reply.is_bot_api and 300 <= reply.status < 500:
            raise Offline(f"{self._api.host} is not the Bot API (HTTP {reply.status}): check the setting `api`")
        raise Offline(f"Telegram: {reply.error_text or f'HTTP {reply.status}'}", reply.retry_after)

    def _classify_conflict(self, reply: TelegramReply) -> Offline | Denied:
        if "webhook" in reply.error_text.lower():
            return Denied(_WEBHOOK)
        previous, self._last_conflict = self._last_conflict, self._clock()
        if previous is None or self._last_conflict - previous > CONFLICT_WINDOW_S:  # perhaps one call by hand
            return Offline(_CONFLICT)
        return Denied(_CONFLICT)


def _checked_updates(reply: TelegramReply) -> Sequence[Json]:
    """Return the updates in an answer to getUpdates. Raises Offline if the result is malformed."""
    updates = reply.result
    if not isinstance(updates, list) or not all(
        isinstance(update, dict) and isinstance(update.get("update_id"), int) for update in updates
    ):
        raise Offline("Telegram's answer holds no updates")
    return updates
