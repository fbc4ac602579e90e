"""Heartbeats: prompts to sessions in which nothing has happened for a while.

The timer of `ScheduleManager` fires them. The due time is computed from the ledger: one interval after the session's
last entry or turn, moved into the active hours. Nothing else is stored (docs/decisions/heartbeats.md). The entry of a
heartbeat counts, too, so the next heartbeat comes a full interval later.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from semel.gateway.clock import Clock, find_zone
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import HeartbeatSettings
from semel.ledger.inbound import schedules as rows
from semel.timing.walltime import first_active_instant


class Heartbeats:
    """Fire heartbeats in the sessions that match `settings.sessions`. `wake`: wakes a session."""

    def __init__(
        self, record: LedgerAccess, clock: Clock, settings: HeartbeatSettings, wake: Callable[[int], None]
    ) -> None:
        self.record = record
        self.clock = clock
        self.settings = settings
        self.wake = wake
        self._every_ms = round(settings.every_s * 1000)
        self._due: dict[int, int] = {}  # session -> earliest due time (ms); activity only makes it later
        self._last_session = 0  # highest session id that was matched with the patterns

    async def fire_due(self) -> int | None:
        """Fire all heartbeats that are due. Return when to call this again (ms since the Unix epoch); None if never.

        No heartbeat becomes due before that time.
        """
        if not self.settings.sessions:
            return None
        now = self.clock.now()
        while sessions := await self.record.read(rows.list_sessions_after, self._last_session):
            matching = (
                id for id, key in sessions if any(fnmatchcase(key, pattern) for pattern in self.settings.sessions)
            )
            self._due.update(dict.fromkeys(matching, 0))
            self._last_session = sessions[-1][0]
        for session in [session for session, due in self._due.items() if due <= now]:
            await self._fire_if_idle(session, now)
        return min([now + self._every_ms, *self._due.values()])

    async def _fire_if_idle(self, session: int, now: int) -> None:
        pulse = await self.record.read(rows.read_activity, session)
        if pulse is None:
            del self._due[session]
            return
        self._due[session] = now + self._every_ms  # a busy or archived session cannot be due before that
        if not rows.is_idle(pulse):
            return
        due = -(-(pulse.quiet + self._every_ms) // 1000)
        at = first_active_instant(find_zone(self.settings.tz), max(due, now // 1000), self.settings.hours)
        if at * 1000 > now:
            self._due[session] = at * 1000
        elif await self.record.write(rows.fire_heartbeat, pulse, due, self.settings.text, [self.settings.quiet]):
            self.wake(session)
