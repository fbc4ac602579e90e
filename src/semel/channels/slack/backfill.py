"""Read what was written while nobody listened, from the history of each conversation.

Slack repeats an event that was not acknowledged for some minutes only, and Socket Mode queues nothing while no
connection is open. So after each connect, the history is read from the cursor on: of each conversation that the bot is
in, and of the threads that it takes part in (conversations.history does not show replies). It begins OVERLAP_S before
the cursor, because Slack may deliver an event minutes late; the inbox drops what it knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from semel.channels.slack.account import SlackDirectory, classify_read_error
from semel.channels.slack.address import SlackCursor
from semel.channels.slack.transport import SlackApi, SlackReply
from semel.gateway.ports import NotSent, Offline, Unknown
from semel.text.json_types import Json, objects_in, text_at

PAGE_SIZE = 100
"""Messages of one page; Slack recommends no more than 200."""
OVERLAP_S = 600.0
"""How far before the cursor the history is read: longer than Slack repeats an event that was not acknowledged."""
MAX_WAIT_S = 120.0
"""The longest Retry-After that is waited for; a longer one ends the run."""
_GONE = frozenset(
    {
        "channel_not_found", "not_in_channel", "thread_not_found", "missing_scope", "is_archived", "no_permission",
        "access_denied",
    }
)  # fmt: skip
"""Errors of a conversation that the bot cannot read (any more)."""

_log = logging.getLogger("semel.slack")


class SlackBackfill:
    """Reads missed messages. `sleep` waits for a rate limit."""

    def __init__(
        self, api: SlackApi, directory: SlackDirectory, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._api = api
        self._directory = directory
        self._sleep = sleep

    async def read(self, cursor: SlackCursor, channels: list[str]) -> AsyncIterator[tuple[str, list[Json]]]:
        """Yield (channel, messages in the order in which they were written) for each conversation and thread.

        Raises Offline or Denied.
        """
        oldest = max(cursor.first, cursor.at - OVERLAP_S)
        for channel in channels:
            messages = await self._read_all("conversations.history", oldest, channel=channel)
            roots = [ts for message in messages if (ts := _newer_thread(message, oldest)) is not None]
            threads = dict.fromkeys([*roots, *(ts for place, ts in cursor.threads if place == channel)])
            known = {str(message.get("ts")) for message in messages}
            for thread in threads:
                replies = await self._read_all("conversations.replies", oldest, channel=channel, ts=thread)
                messages += [reply for reply in replies if str(reply.get("ts")) not in known and reply["ts"] != thread]
                known.update(str(reply.get("ts")) for reply in replies)
            if messages:
                yield channel, sorted(messages, key=lambda message: float(message["ts"]))

    async def _read_all(self, method: str, oldest: float, **arguments: str) -> list[Json]:
        """Return all messages after `oldest`, to the last page; [] if the bot cannot read there."""
        messages: list[Json] = []
        cursor: str | None = None
        while True:
            reply = await self._call(
                method, oldest=f"{oldest:.6f}", limit=PAGE_SIZE, include_all_metadata=True, cursor=cursor, **arguments
            )
            if reply.error in _GONE:
                _log.info("%s of %s cannot be read: %s", method, arguments["channel"], reply.describe())
                return messages
            if not reply.ok or not isinstance(reply.data.get("messages"), list):
                raise classify_read_error(reply)
            messages += [message for message in objects_in(reply.data["messages"]) if text_at(message, "ts")]
            if not (cursor := reply.next_cursor):
                return messages

    async def _call(self, method: str, **arguments: Any) -> SlackReply:
        """Make a call, and wait as long as Slack says if there were too many. Raises Offline."""
        while True:
            try:
                reply = await self._api.call(method, **arguments)
            except (NotSent, Unknown) as error:
                raise Offline(str(error)) from None
            if reply.status != 429 or not 0 < (reply.retry_after or 0) <= MAX_WAIT_S:
                return reply
            await self._sleep(reply.retry_after or 1.0)


def _newer_thread(message: Json, oldest: float) -> str | None:
    """Return the thread that a message begins, if it has replies that were written after `oldest`."""
    ts, latest = text_at(message, "ts"), text_at(message, "latest_reply")
    return ts if ts is not None and latest is not None and float(latest) > oldest else None
