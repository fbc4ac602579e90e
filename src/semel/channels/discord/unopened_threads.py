"""Conversations with `threads = "open"` whose thread the bot may not open: they are held in their channels.

Which messages belong to them is stored in the cursor, with the event that tells of the message: the part's nonce, which
is noted before the part leaves, says which conversation it is from. After a restart, the bot tries to open the thread
again.
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
MAX_MESSAGES = 500
"""Newest messages in channels of which it is known which conversation they belong to."""
_MAX_LEAVING = 2_000

_log = logging.getLogger("semel.discord")


class UnopenedThreads:
    """The channels where the bot may not open threads, and its messages there that belong into threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused_at: dict[str, float] = {}
        self._threads: dict[str, str] = {}  # message id -> the id that its thread would have, the oldest first
        self._leaving = RecentMap[str, DiscordPlace](_MAX_LEAVING)  # nonce -> place

    def __repr__(self) -> str:
        return f"<UnopenedThreads in {len(self._refused_at)} channels>"

    def may_open(self, channel: str) -> bool:
        """Return whether to try to open a thread there now."""
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

    def restore(self, threads: dict[str, str]) -> dict[str, str]:
        """Take over what was stored, and return what is to be stored: message id -> the id that its thread would have.

        The returned map grows as messages are noted.
        """
        self._threads = {**threads, **self._threads}
        return self._threads

    def note_leaving(self, nonce: str, place: DiscordPlace) -> None:
        """Remember that a part of the conversation at `place` leaves for the channel now."""
        self._leaving[nonce] = place

    def note_nonce(self, nonce: str, message: str) -> None:
        """Remember whose message this is, if the part with this nonce left for a channel."""
        if (place := self._leaving.get(nonce)) is not None:
            self.note_message(message, place)

    def note_message(self, message: str, place: DiscordPlace) -> None:
        """Remember that a message, which was sent to the channel, belongs to the conversation at `place`."""
        self._threads[message] = place.thread
        for oldest in list(self._threads)[:-MAX_MESSAGES]:
            del self._threads[oldest]

    def find_place(self, channel: str, message: str) -> DiscordPlace | None:
        """Return the conversation that a message in a channel belongs to; None if it is not known."""
        thread = self._threads.get(message)
        return DiscordPlace(channel, thread) if thread is not None else None
