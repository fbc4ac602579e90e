"""Refused senders: counts by reason, and the latest senders of each channel, so that the owner can add them.

Kept in memory only, bounded, and without the refused text: a flood of strangers must not fill the ledger or the memory
(docs/laws.md).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass

from semel.gateway.ports import Person

MAX_SENDERS = 50  # senders remembered per channel
MAX_FIELD_CHARS = 500  # characters of an id or a name that are kept


@dataclass
class Stranger:
    """A sender who may not speak. `first` and `last` are milliseconds since the epoch."""

    channel: str
    id: str
    name: str
    first: int
    last: int
    times: int = 1


class Strangers:
    """Refusals since the gateway started."""

    def __init__(self) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()  # by channel and reason
        self._latest: dict[str, OrderedDict[str, Stranger]] = {}

    def __repr__(self) -> str:
        return f"<Strangers {self.refused.total()} refusals>"

    def count(self, channel: str, reason: str) -> None:
        """Count one refusal."""
        self.refused[channel, reason] += 1

    def met(self, channel: str, who: Person, now: int) -> None:
        """Remember an unknown sender who was refused."""
        here = self._latest.setdefault(channel, OrderedDict())
        id = who.id[:MAX_FIELD_CHARS]
        known = here.get(id)
        if known is None:
            here[id] = Stranger(channel, id, who.name[:MAX_FIELD_CHARS], now, now)
        else:
            known.name, known.last, known.times = who.name[:MAX_FIELD_CHARS], now, known.times + 1
            here.move_to_end(id)
        if len(here) > MAX_SENDERS:
            here.popitem(last=False)

    def forget(self, channel: str, id: str) -> None:
        """Forget a sender, who is known now."""
        if channel in self._latest:
            self._latest[channel].pop(id, None)

    def latest(self) -> list[Stranger]:
        """The remembered senders, newest first."""
        everybody = [one for here in self._latest.values() for one in reversed(here.values())]
        return sorted(everybody, key=lambda one: -one.last)
