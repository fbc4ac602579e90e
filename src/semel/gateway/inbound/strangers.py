"""A bounded memory of strangers: refusals by reason, the latest refused senders, hourly limits, and lines of the log.

Its size does not grow with the number of refusals, and it contains no refused text: a flood of strangers must not fill
the ledger or the memory (Law 11). The owner sees the latest senders of each channel, and can add them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass

from semel.gateway.activity import log_activity
from semel.gateway.ports import Person
from semel.text.wellformed import shorten_to_line

MAX_SENDERS = 50  # senders remembered per channel
MAX_FIELD_CHARS = 500  # characters of an id or a name that are kept
HOUR_MS = 3_600_000
MAX_LINES_PER_HOUR = 30  # of the log, about refused senders of a channel; one of each sender
MAX_LOGGED_CHARS = 80  # characters of a sender


@dataclass
class Stranger:
    """A refused sender.

    `first`, `last`: the times of the first and last refusal (ms). `times`: the number of refusals.
    """

    channel: str
    id: str
    name: str
    first: int
    last: int
    times: int = 1


class Strangers:
    """The refusals since the gateway started."""

    def __init__(self) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()  # by channel and reason
        self._latest: dict[str, OrderedDict[str, Stranger]] = {}

    def __repr__(self) -> str:
        return f"<Strangers {self.refused.total()} refusals>"

    def count(self, channel: str, reason: str) -> None:
        """Count one refusal."""
        self.refused[channel, reason] += 1

    def remember(self, channel: str, sender: Person, now: int) -> None:
        """Remember an unknown sender who was just refused. `now`: in ms since the Unix epoch."""
        senders = self._latest.setdefault(channel, OrderedDict())
        id = sender.id[:MAX_FIELD_CHARS]
        stranger = senders.get(id)
        if stranger is None:
            senders[id] = Stranger(channel, id, sender.name[:MAX_FIELD_CHARS], now, now)
        else:
            stranger.name, stranger.last, stranger.times = sender.name[:MAX_FIELD_CHARS], now, stranger.times + 1
            senders.move_to_end(id)
        if len(senders) > MAX_SENDERS:
            senders.popitem(last=False)

    def forget(self, channel: str, id: str) -> None:
        """Forget a refused sender, because they have become known."""
        if channel in self._latest:
            self._latest[channel].pop(id, None)

    def list_latest(self) -> list[Stranger]:
        """Return the remembered senders of all channels, newest first."""
        strangers = [stranger for senders in self._latest.values() for stranger in reversed(senders.values())]
        return sorted(strangers, key=lambda stranger: -stranger.last)


class HourlyLimit:
    """A limit per hour: at most `max_each` occurrences of each name, and `max_all` of all names together.

    Each occurrence has a key, by which a repeat is recognised (`is_counted`). Times are in milliseconds.
    """

    def __init__(self, max_each: int, max_all: int) -> None:
        self.max_each = max_each
        self.max_all = max_all
        self._occurrences: deque[tuple[int, str, str]] = (
            deque()
        )  # (time, name, key), oldest first; at most `max_all` of them
        self._counts: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<HourlyLimit {len(self._occurrences)} of {self.max_all}, of {len(self._counts)} names>"

    def is_full(self, name: str, now: int) -> bool:
        """Return whether the limit of this name, or the overall limit, is reached.

        Drop occurrences older than an hour.
        """
        while self._occurrences and self._occurrences[0][0] <= now - HOUR_MS:
            self._drop_oldest()
        return len(self._occurrences) >= self.max_all or self._counts[name] >= self.max_each

    def _drop_oldest(self) -> None:
        _, name, _ = self._occurrences.popleft()
        self._counts[name] -= 1
        if not self._counts[name]:
            del self._counts[name]

    def count(self, name: str, key: str, now: int) -> None:
        """Count one occurrence. Call `is_full` first."""
        self._occurrences.append((now, name, key))
        self._counts[name] += 1

    def is_counted(self, name: str, key: str) -> bool:
        """Return whether this occurrence is a repeat: one with this name and key was counted within the last hour."""
        return name in self._counts and any(
            (counted_name, counted_key) == (name, key) for _, counted_name, counted_key in self._occurrences
        )


class RefusalLog:
    """Logs whom the gateway refused: each sender once an hour, and no more than MAX_LINES_PER_HOUR of a channel.

    Anybody can send what is refused, and must not drown the log.
    """

    def __init__(self) -> None:
        self._limits: dict[str, HourlyLimit] = {}

    def __repr__(self) -> str:
        return f"<RefusalLog of {len(self._limits)} channels>"

    def note(self, channel: str, sender: Person, why: str, now: int) -> None:
        """Log a refusal, unless that would be too many lines.

        `channel`: its name, or "api", whose sender is an address. `now`: in ms since the Unix epoch.
        """
        limit = self._limits.setdefault(channel, HourlyLimit(1, MAX_LINES_PER_HOUR))
        if limit.is_full(sender.id, now):
            return
        limit.count(sender.id, "", now)
        name = f" ({shorten_to_line(sender.name, MAX_LOGGED_CHARS)})" if sender.name else ""
        by = f"{shorten_to_line(sender.id, MAX_LOGGED_CHARS)}{name}"
        log_activity("sender refused", channel=channel, by=by, why=why)
        if limit.is_full("", now):
            log_activity("more senders may be refused, which are not logged in this hour", channel=channel)
