"""An hourly rate limit per name and overall. In memory, with a bounded size whatever the number of tries (Law 11)."""

from __future__ import annotations

from collections import Counter, deque

HOUR_MS = 3_600_000


class HourlyLimit:
    """Allows `each` occurrences per hour and name, and `all` per hour for all names together.

    Each occurrence has a key, by which a caller can recognise a repeat (`counted`). Times are in milliseconds.
    """

    def __init__(self, each: int, all: int) -> None:
        self.each = each
        self.all = all
        self._line: deque[tuple[int, str, str]] = deque()  # (time, name, key), oldest first; at most `all` of them
        self._times: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Hourly {len(self._line)} of {self.all}, of {len(self._times)} names>"

    def full(self, name: str, now: int) -> bool:
        """Whether the limit of this name, or the overall one, is reached. Drops occurrences older than an hour."""
        while self._line and self._line[0][0] <= now - HOUR_MS:
            self._forget()
        return len(self._line) >= self.all or self._times[name] >= self.each

    def _forget(self) -> None:
        _, name, _ = self._line.popleft()
        self._times[name] -= 1
        if not self._times[name]:
            del self._times[name]

    def count(self, name: str, key: str, now: int) -> None:
        """Count one occurrence. The caller has checked `full` before."""
        self._line.append((now, name, key))
        self._times[name] += 1

    def counted(self, name: str, key: str) -> bool:
        """Whether the occurrence with this name and key was counted within the hour, so that this one is a repeat."""
        return name in self._times and any((whose, what) == (name, key) for _, whose, what in self._line)
