"""Who was refused: counted, and the latest of them remembered, so that the owner can let them in.

Never a row, never their words (docs/laws.md): however many come, the ledger and the memory stay as they are.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass

from semel.gateway.ports import Person

LATEST = 50  # of each channel
LONGEST = 500  # characters of an id or a name that are kept


@dataclass
class Stranger:
    """Somebody who may not speak. Times are milliseconds since the epoch."""

    channel: str
    id: str
    name: str
    first: int
    last: int
    times: int = 1


class Strangers:
    """The refusals of this run of the gateway."""

    def __init__(self) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()  # by channel and reason
        self._latest: dict[str, OrderedDict[str, Stranger]] = {}

    def __repr__(self) -> str:
        return f"<Strangers {self.refused.total()} refusals>"

    def count(self, channel: str, reason: str) -> None:
        """Something was refused."""
        self.refused[channel, reason] += 1

    def met(self, channel: str, who: Person, now: int) -> None:
        """This one is not known."""
        here = self._latest.setdefault(channel, OrderedDict())
        id = who.id[:LONGEST]
        known = here.get(id)
        if known is None:
            here[id] = Stranger(channel, id, who.name[:LONGEST], now, now)
        else:
            known.name, known.last, known.times = who.name[:LONGEST], now, known.times + 1
            here.move_to_end(id)
        if len(here) > LATEST:
            here.popitem(last=False)

    def forget(self, channel: str, id: str) -> None:
        """They are known now."""
        if channel in self._latest:
            self._latest[channel].pop(id, None)

    def latest(self) -> list[Stranger]:
        """Newest first."""
        everybody = [one for here in self._latest.values() for one in reversed(here.values())]
        return sorted(everybody, key=lambda one: -one.last)
