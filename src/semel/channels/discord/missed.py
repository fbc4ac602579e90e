"""Read what was written while no session could be resumed, from the history of each channel, page by page.

Snowflakes grow with time in all channels alike, so one of them, the newest message before the gap, bounds the gap
everywhere. Messages of different channels may have come in another order than their ids; so reading begins a minute
earlier, and the inbox recognises repeats. Discord names a channel's newest message when it lists a server's channels:
channels without a newer one are not asked. Direct conversations are not listed, so all that the cursor remembers are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

from semel.channels.discord.address import DiscordCursor, snowflake_at, time_of
from semel.channels.discord.places import DiscordChannelInfo
from semel.channels.discord.receipts import TOKEN_REFUSED
from semel.channels.discord.transport import DiscordApi, DiscordReply
from semel.gateway.ports import Denied, NotSent, Offline, Unknown
from semel.text.json_types import Json

MESSAGES_PER_PAGE = 100
ORDER_MARGIN_S = 60.0
"""Seconds by which messages of different channels may come out of order."""

MAX_WAIT_S = 60.0
"""Longest rate limit in seconds that is waited for in the middle of a history."""
MAX_WAITS = 5

EMPTY_HISTORY_CAUSES = "it was deleted, or the bot's role lacks Read Message History"
"""Why a channel may show no message although Discord names its newest one."""

_log = logging.getLogger("semel.discord")


def find_start(cursor: DiscordCursor) -> int:
    """Return the snowflake after which a gap that begins now may have messages; 0 if nothing was ever read."""
    if not cursor.newest:
        return 0
    return max(snowflake_at(time_of(cursor.newest) - ORDER_MARGIN_S), cursor.began)


def list_channels_to_read(channels: Sequence[DiscordChannelInfo], after: int) -> list[str]:
    """Return the ids of the channels that have messages after this snowflake."""
    return [channel.id for channel in channels if channel.last > after]


async def read_missed(api: DiscordApi, channel: str, after: int) -> AsyncIterator[list[Json]]:
    """Yield the pages of a channel's messages after a snowflake, the oldest message first. Raises Offline or Denied.

    A history without such messages is one empty page. A channel that the bot may not read, or that is gone, has none.
    """
    while True:
        reply = await _ask(api, f"/channels/{channel}/messages?after={after}&limit={MESSAGES_PER_PAGE}")
        if reply.status in (403, 404) and reply.is_error:
            _log.info("channel %s has no readable history: %s", channel, reply.error_text)
            return
        if reply.status == 401:
            raise Denied(TOKEN_REFUSED)
        if not reply.ok:
            raise Offline(f"Discord does not show a channel's history: {reply.error_text}", reply.retry_after)
        page = sort_page(reply.data)
        if page is None:
            raise Offline("Discord's answer is no page of messages")
        yield page
        if len(page) < MESSAGES_PER_PAGE:
            return
        after = int(page[-1]["id"])


async def _ask(api: DiscordApi, path: str) -> DiscordReply:
    """Ask for a page, and again after a rate limit. Raises Offline."""
    waits = iter([True] * MAX_WAITS)
    while True:
        try:
            reply = await api.call("GET", path)
            retry_after = reply.retry_after if reply.status == 429 else None
        except NotSent as error:
            retry_after = error.retry_after
            if retry_after is None or retry_after > MAX_WAIT_S or not next(waits, False):
                raise Offline(str(error), retry_after) from None
        except Unknown as error:
            raise Offline(str(error)) from None
        else:
            if retry_after is None or retry_after > MAX_WAIT_S or not next(waits, False):
                return reply
        await asyncio.sleep(retry_after)


def sort_page(data: object) -> list[Json] | None:
    """Return the messages of a page, the oldest first; None if it is not one."""
    if not isinstance(data, list):
        return None
    if not all(isinstance(each, dict) and str(each.get("id")).isdigit() for each in data):
        return None
    return sorted(data, key=lambda each: int(each["id"]))
