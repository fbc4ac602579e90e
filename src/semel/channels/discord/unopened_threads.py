"""Conversations with `threads = "open"` whose thread the bot may not open: they are held in their channels.

What is known of them is kept in memory. After a restart, the bot tries to open the thread again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from semel.channels.discord.address import DiscordPlace
from semel.channels.recent_map import RecentMap

RETRY_DELAY_S = 600.0
"""Seconds after which the bot tries again to open threads in a channel where it may not."""
MISSING_PERMISSIONS, MISSING_ACCESS = 50013, 50001
_MAX_REMEMBERED = 10_000

_log = logging.getLogger("semel.discord")


class UnopenedThreads:
    """The channels where the bot may not open threads, and its messages there that belong into threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused_at: dict[str, float] = {}
        self._places = RecentMap[str, DiscordPlace](_MAX_REMEMBERED)

    def __repr__(self) -> str:
        return f"<UnopenedThreads in {len(self._refused_at)} channels>"

    def may_open(self, channel: str) -> bool:
        """Return whether it is worth while to try."""
        at = self._refused_at.get(channel)
        return at is None or self._clock() >= at + RETRY_DELAY_S

    def note_refusal(self, channel: str) -> None:
        """Remember that the bot may not open threads in this channel."""
        _log.warning(
            "no thread can be opened in channel %s: give the bot's role Create Public Threads and Send Messages in "
            "Threads there; until then it answers in the channel",
            channel,
        )
        self._refused_at[channel] = self._clock()

    def note_message(self, message: str, place: DiscordPlace) -> None:
        """Remember that a message, which was sent to the channel, belongs to the conversation at `place`."""
        self._places[message] = place

    def find_place(self, message: str) -> DiscordPlace | None:
        """Return the conversation that a message in a channel belongs to; None if it is the channel's."""
        return self._places.get(message)
