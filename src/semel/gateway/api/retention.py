"""Erase old content in the background, in short transactions (docs/retention.md).

A pattern in the configuration says how long a session's content is kept; if none matches the session's key, the channel
of its home does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import structlog

from semel.gateway.activity import log_activity
from semel.gateway.clock import Clock
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import GatewaySettings
from semel.ledger.admin import age_out
from semel.ledger.admin.age_out import AgingSession
from semel.ledger.storage.errors import LedgerError
from semel.text.json_types import Json

log = structlog.get_logger("semel.retention")

RUN_INTERVAL_S = 3600.0
PAGE = 200  # sessions read at a time


class Retention:
    """Erase content that is too old.

    Run `run` as a task. `clean_files`: removes the files that no entry holds any more.
    """

    def __init__(
        self, record: LedgerAccess, settings: GatewaySettings, clock: Clock, clean_files: Callable[[], None]
    ) -> None:
        self.record = record
        self.settings = settings
        self.clock = clock
        self.clean_files = clean_files

    def retain_ms(self, session: AgingSession) -> int | None:
        """Return how long this session's content is kept, in ms; None if it is kept for ever."""
        retain_s = self.settings.session(session.key).retain_s
        if retain_s is None and session.home is not None:
            channel = self.settings.channels.get(session.home.partition(":")[0])
            retain_s = channel.retain_s if channel is not None else None
        return None if retain_s is None else round(retain_s * 1000)

    def is_configured(self) -> bool:
        """Return whether any content is ever erased for its age."""
        channels, sessions = self.settings.channels.values(), self.settings.sessions.values()
        return any(row.retain_s is not None for row in channels) or any(row.retain_s is not None for row in sessions)

    async def run(self) -> None:
        """Erase old content now and then every hour, until cancelled."""
        while self.is_configured():
            try:
                steps = await self.run_once()
                if steps:
                    log.info("old content was removed", steps=steps)
            except LedgerError as error:
                log.warning("removing old content is put off", why=str(error))
            await self.clock.sleep(RUN_INTERVAL_S)

    async def run_once(self) -> int:
        """Erase old content. Return the number of transactions after which more was left to erase."""
        steps = 0
        async for session, retain_ms in self._list_sessions():
            before = steps
            while await self.record.write(age_out.age_step, session.id, retain_ms):
                steps += 1
            if steps > before:
                log_activity("old content was removed", session=session.key)
        for name, channel in self.settings.channels.items():
            while channel.retain_s is not None and await self.record.write(
                age_out.age_unreadable, name, round(channel.retain_s * 1000)
            ):
                steps += 1
        if steps:
            self.clean_files()
        return steps

    async def plan(self) -> list[Json]:
        """Return, for each session, what the next run would erase, and what old content it would keep and why."""
        plans = []
        async for session, retain_ms in self._list_sessions():
            plan = await self.record.read(age_out.plan_session, session.id, retain_ms)
            if plan is not None:
                plans.append(_plan_json(plan, retain_ms))
        return plans

    async def _list_sessions(self) -> AsyncIterator[tuple[AgingSession, int]]:
        """Yield each session whose content may be erased, with the time for which it is kept (ms)."""
        page = await self.record.read(age_out.list_sessions, 0, PAGE) if self.is_configured() else []
        while page:
            for session in page:
                if (retain_ms := self.retain_ms(session)) is not None:
                    yield session, retain_ms
            page = await self.record.read(age_out.list_sessions, page[-1].id, PAGE)


def _plan_json(plan: age_out.AgingPlan, retain_ms: int) -> Json:
    stopped = {"stopped_by": plan.stopped_by} if plan.stopped_by is not None else {}
    return {
        "session": plan.key, "retain": retain_ms / 1000, "entries": plan.size.entries, "upto": plan.seq,
        "bytes": plan.size.bytes, "file_bytes": plan.size.file_bytes, **stopped,
    }  # fmt: skip
