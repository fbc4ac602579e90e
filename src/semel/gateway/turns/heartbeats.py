"""Heartbeats: start a turn in a session after nothing happened there for a while.

The due time follows from the ledger alone: an interval after the session's last entry or turn, moved into the active
hours. Nothing else is stored. A heartbeat's own entry counts, too, so the next one is a full interval later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import structlog

from semel.gateway.clock import Clock
from semel.gateway.settings import HeartbeatSettings
from semel.gateway.transactions import Record
from semel.gateway.zones import zone
from semel.ledger.inbound import schedules as rows
from semel.ledger.storage.errors import LedgerError
from semel.ledger.turns.turns import Bound
from semel.timing.walltime import active

log = structlog.get_logger("semel.heartbeats")

RETRY_MS = 2000  # after the ledger could not be used


class Heartbeats:
    """The heartbeats of the sessions that are listed, or match a pattern."""

    def __init__(self, record: Record, clock: Clock, settings: HeartbeatSettings, wake: Callable[[int], None]) -> None:
        self.record = record
        self.clock = clock
        self.settings = settings
        self.wake = wake
        self._due: dict[int, int] = {}  # session -> earliest due time (ms); activity only makes it later
        self._seen = 0  # highest session id looked at

    async def run(self) -> None:
        """Run until cancelled. A session created during a sleep cannot be due before the sleep ends."""
        while True:
            start = self.clock.now()
            try:
                await self._newcomers()
                for session in [s for s, due in self._due.items() if due <= start]:
                    await self._look(session)
                until = min([start + round(self.settings.every_s * 1000), *self._due.values()])
            except LedgerError as fault:
                log.warning("heartbeats put off", why=str(fault))
                until = start + RETRY_MS
            await self.clock.sleep_until(until)

    async def _newcomers(self) -> None:
        while fresh := await self.record.read(rows.newcomers, self._seen):
            for row in fresh:
                if any(fnmatchcase(row.key, pattern) for pattern in self.settings.sessions):
                    self._due[row.id] = 0
            self._seen = fresh[-1].id

    async def _look(self, session: int) -> None:
        """Fire the heartbeat if it is due, and note when to check again."""
        row = await self.record.read(rows.pulse, session)
        if row is None:
            del self._due[session]
            return
        now, every = self.clock.now(), round(self.settings.every_s * 1000)
        if row.away or row.turn is not None or row.wake_at is not None:
            self._due[session] = now + every  # it cannot be idle long enough before that
            return
        due = -(-(row.quiet + every) // 1000)
        at = active(zone(self.settings.tz), max(due, now // 1000), self.settings.hours)
        if at * 1000 > now:
            self._due[session] = at * 1000
            return
        words = (self.settings.quiet,)
        if await self.record.write(rows.hear_heartbeat, session, row.quiet, due, self.settings.text, words):
            self.wake(session)
        self._due[session] = now + every


def quiet_words(events: Sequence[Bound]) -> tuple[str, ...]:
    """The replies that count as quiet in a turn over these events; each heartbeat carries its own."""
    found: list[str] = []
    for event in events:
        if is_heartbeat(event):
            data = event.data.get("data") or {}
            found += [word for word in data.get("quiet") or () if isinstance(word, str)]
    return tuple(dict.fromkeys(found))


def is_heartbeat(event: Bound) -> bool:
    """Whether the event is a heartbeat of the gateway, not one reported with this kind."""
    return event.kind == "heartbeat" and event.source.startswith("heartbeat:")
