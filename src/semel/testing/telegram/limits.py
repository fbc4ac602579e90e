"""How many messages a bot may send (https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this).

In one chat, a message a second; a short burst may go over that. In a group, 20 a minute. In all chats together, 30 a
second. A message above that gets 429 with the seconds to wait.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque

from semel.testing.telegram.model import ApiError

CHAT_BURST, CHAT_INTERVAL_S = 3, 1.0
"""The burst is not documented; the interval is."""
GROUP_MESSAGES, GROUP_WINDOW_S = 20, 60.0
ALL_MESSAGES, ALL_WINDOW_S = 30, 1.0


class FloodLimits:
    """The times of the messages that were sent, by chat."""

    def __init__(self) -> None:
        self._sent: defaultdict[tuple[int, float], deque[float]] = defaultdict(deque)

    def __repr__(self) -> str:
        return f"<FloodLimits {len(self._sent)} counts>"

    def count(self, chat: int, is_group: bool, now: float) -> None:
        """Count a message. `now`: seconds since the epoch. Raises ApiError 429 if there are too many."""
        limits = [(chat, CHAT_BURST, CHAT_BURST * CHAT_INTERVAL_S), (0, ALL_MESSAGES, ALL_WINDOW_S)]
        if is_group:
            limits.append((chat, GROUP_MESSAGES, GROUP_WINDOW_S))
        counts = [self._sent[place, window_s] for place, _, window_s in limits]
        wait_s = 0.0
        for times, (_, most, window_s) in zip(counts, limits, strict=True):
            while times and times[0] <= now - window_s:
                times.popleft()
            if len(times) >= most:
                wait_s = max(wait_s, times[0] + window_s - now)
        if wait_s > 0:
            seconds = math.ceil(wait_s)
            raise ApiError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
        for times in counts:
            times.append(now)
