"""Receive events: first those that were missed, then each as it comes.

The WebSocket is opened before the history is read, so that nothing falls between the two; a repeat is known by its
post's id. What was put is remembered as the time of the newest post (`MattermostCursor.at`), and the history is read
from OVERLAP_MS before it, because posts do not come in the order of their times, nor do the clocks of a cluster agree.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from semel.channels.mattermost.address import MattermostCursor
from semel.channels.mattermost.directory import ArchivedUnreadable, MattermostDirectory, MattermostIdentity
from semel.channels.mattermost.downloads import MattermostFetcher
from semel.channels.mattermost.history import NotAPage, list_posts, read_page
from semel.channels.mattermost.parse import MattermostDraft, MattermostParser
from semel.channels.mattermost.settings import MattermostSettings
from semel.channels.mattermost.sockets import MattermostSocket, open_socket
from semel.channels.mattermost.transport import MattermostApi, MattermostReply
from semel.gateway.ports import Denied, Inbox, Offline
from semel.text.json_types import Json

OVERLAP_MS = 60_000
"""How far before the cursor the history is read."""
CLOCK_TOLERANCE_MS = 5_000
"""How far the cursor may be ahead of the server's clock, whatever a post says: less than OVERLAP_MS."""
MAX_EVENTS_PER_PUT = 200
MAX_WAIT_S = 120.0
"""The longest wait for a rate limit while the history is read; a longer one ends the run."""

_log = logging.getLogger("semel.mattermost")


class MattermostReceiver:
    """The receiving half of one account.

    `another_bot`: why the channel is blocked: its cursor is another bot's. `is_known_bot`: the token was found to be
    that of the cursor's bot.
    """

    def __init__(
        self, name: str, settings: MattermostSettings, api: MattermostApi, directory: MattermostDirectory,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self.another_bot: str | None = None
        self.is_known_bot = False
        self._name = name
        self._settings = settings
        self._api = api
        self._directory = directory
        self._fetcher = MattermostFetcher(api, settings.fetch, settings.file_limit)
        self._sleep = sleep
        self._is_doubted = asyncio.Event()  # set if the token was refused

    def __repr__(self) -> str:
        return f"<MattermostReceiver of {self._name} at {self._api.host}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        us = await self._directory.identify()
        await self._directory.check_membership()
        self._is_doubted.clear()
        tasks = [asyncio.create_task(self._receive(us, inbox)), asyncio.create_task(self._check_doubted_token())]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def doubt_token(self) -> None:
        """Ask the server about the token, which it has refused: a WebSocket may stay open although it was revoked."""
        self._is_doubted.set()

    async def _check_doubted_token(self) -> None:
        """Ask who the bot is whenever its token was refused. Raises Denied if it is refused again, or Offline."""
        while True:
            await self._is_doubted.wait()
            self._is_doubted.clear()
            await self._directory.identify()

    async def _receive(self, us: MattermostIdentity, inbox: Inbox) -> None:
        async with open_socket(self._settings) as socket:
            cursor = await self._load_cursor(us, inbox)
            parser = MattermostParser(us, cursor, self._directory, self._settings.threads)
            await self._catch_up(parser, cursor, inbox)
            inbox.online()
            while True:
                await self._listen(socket, parser, cursor, inbox)

    async def _load_cursor(self, us: MattermostIdentity, inbox: Inbox) -> MattermostCursor:
        """Load the cursor; on the first run, begin at the present. Raises Denied if it belongs to another bot."""
        text = await inbox.cursor()
        if text is None:
            now = self._now_ms()
            cursor = MattermostCursor(us.user, now, now)
            await inbox.put((), cursor.dump())
            self.is_known_bot = True
            return cursor
        cursor = MattermostCursor.load(text)
        self.another_bot = None
        if cursor.bot != us.user:
            self.another_bot = (
                f"this token belongs to another account ({us.username}, {us.user}) than before ({cursor.bot}): give it "
                f"a section of its own, [channels.{self._name}-2], or put the first one back"
            )
            raise Denied(self.another_bot)
        self.is_known_bot = True
        return cursor

    async def _listen(
        self, socket: MattermostSocket, parser: MattermostParser, cursor: MattermostCursor, inbox: Inbox
    ) -> None:
        drafts: list[MattermostDraft] = []
        for event in await socket.next_batch():
            drafts += await parser.parse_event(event, f"{socket.id}.{event.get('seq')}")
        await self._put(drafts, cursor, inbox, moves=True)

    # ------------------------------------------------------------ what was missed

    async def _catch_up(self, parser: MattermostParser, cursor: MattermostCursor, inbox: Inbox) -> None:
        """Put what was missed, and then move the cursor. Raises Offline or Denied."""
        since = max(cursor.first, cursor.at - OVERLAP_MS)
        newest = cursor.at
        for channel in await self._directory.list_channels(since):
            try:
                posts, changed = await self._read_channel(channel, since)
            except ArchivedUnreadable as error:
                _log.warning("what was written in %s before it was archived may be missing: %s", channel, error)
                continue
            newest = max([newest, *(post["create_at"] for post in posts)])
            drafts: list[MattermostDraft] = []
            for post in [*posts, *changed]:
                drafts += await parser.parse_post(post, since)
            for start in range(0, len(drafts), MAX_EVENTS_PER_PUT):
                await self._put(drafts[start : start + MAX_EVENTS_PER_PUT], cursor, inbox, moves=False)
        cursor.advance(min(newest, self._now_ms() + CLOCK_TOLERANCE_MS))
        await inbox.put((), cursor.dump())

    async def _read_channel(self, channel: str, since: int) -> tuple[list[Json], list[Json]]:
        """Return (the posts after `since`, the older ones that were changed after it), each the oldest first."""
        try:
            posts = [post async for post in list_posts(self._read, channel, since)]
            known = {post["id"] for post in posts}
            changed = read_page(await self._read(f"/channels/{channel}/posts?since={since}"))
        except NotAPage as error:
            raise Offline(str(error)) from None
        changed = [
            post for post in changed
            if post["id"] not in known and (post.get("delete_at") or post["create_at"] <= since)
            and not post.get("original_id")  # the text before an edit, kept as a deleted post
        ]  # fmt: skip
        return posts[::-1], sorted(changed, key=lambda post: int(post["create_at"]))

    async def _read(self, path: str) -> MattermostReply:
        """Make a GET, and wait as long as Mattermost says if there were too many. Raises Offline or Denied."""
        while True:
            try:
                return await self._directory.read(path)
            except Offline as error:
                if not 0 < (error.retry_after or 0.0) <= MAX_WAIT_S:
                    raise
                await self._sleep(error.retry_after or 1.0)

    def _now_ms(self) -> int:
        """Return the time by the server's clock, as far as it is known."""
        return int((time.time() + (self._api.skew_s or 0.0)) * 1000)

    async def _put(
        self, drafts: Sequence[MattermostDraft], cursor: MattermostCursor, inbox: Inbox, *, moves: bool
    ) -> None:
        """Complete the drafts, and put them with the cursor. `moves`: whether it moves to the newest of them."""
        if not drafts:
            return
        events = await self._fetcher.complete(drafts, inbox)
        after = replace(cursor)
        times = [int(event.at * 1000) for event in events if event.kind == "message"]
        if moves and times:
            after.advance(min(max(times), self._now_ms() + CLOCK_TOLERANCE_MS))
        await inbox.put(events, after.dump())
        cursor.advance(after.at)
