"""How often something may happen within an hour. In memory, and bounded whoever tries how often (Law 11)."""

from __future__ import annotations

from collections import Counter, deque

HOUR_MS = 3_600_000


class Hourly:
    """At most `each` times an hour for one of many, and at most `all` for all of them together.

    What is counted is known by its key: a repeat of it is not counted again. Times are milliseconds.
    """

    def __init__(self, each: int, all: int) -> None:
        self.each = each
        self.all = all
        self._line: deque[tuple[int, str, str]] = deque()  # when, whose, what: never more than `all`
        self._times: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Hourly {len(self._line)} of {self.all}, of {len(self._times)} names>"

    def full(self, name: str, now: int) -> bool:
        """Whether it was as often as may be."""
        while self._line and self._line[0][0] <= now - HOUR_MS:
            self._forget()
        return len(self._line) >= self.all or self._times[name] >= self.each

    def _forget(self) -> None:
        _, name, _ = self._line.popleft()
        self._times[name] -= 1
        if not self._times[name]:
            del self._times[name]

    def count(self, name: str, key: str, now: int) -> None:
        """It happened once more; `full` was asked before."""
        self._line.append((now, name, key))
        self._times[name] += 1

    def counted(self, name: str, key: str) -> bool:
        """Whether this very thing was counted: it is a repeat."""
        return name in self._times and any((whose, what) == (name, key) for _, whose, what in self._line)
