"""Schedules: events that fire by the clock (Laws 1, 2). One timer waits for the next due time of all schedules."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from semel.gateway.clock import Clock
from semel.gateway.errors import BadRequest, Conflict, NotFound
from semel.gateway.inbound.inbox import TEXT_LIMIT
from semel.gateway.settings import ScheduleSettings
from semel.gateway.transactions import Record
from semel.gateway.zones import zone
from semel.law import identity
from semel.ledger.inbound import schedules as rows
from semel.ledger.inbound.hear import To
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.sql import Row
from semel.timing import schedule
from semel.timing.walltime import BadSchedule

log = structlog.get_logger("semel.schedules")

Json = dict[str, Any]
RETRY_MS = 2000  # delay after a ledger error
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
FORMS: tuple[schedule.Form, ...] = ("cron", "at", "every")


class Schedules:
    """The schedules of a gateway. `target` resolves a session key's agent and home; `wake` starts a session's turn."""

    def __init__(
        self, record: Record, clock: Clock, target: Callable[[str], To], wake: Callable[[int], None], agent: str
    ) -> None:
        self.record = record
        self.clock = clock
        self.wake = wake
        self._target = target
        self._agent = agent  # the agent of schedules' own sessions
        self._changed = asyncio.Event()
        self.doubtful_until = 0  # ms: firings due up to then may have happened before a restore (Law 14)

    # ------------------------------------------------------------ the timer

    async def configure(self, told: Mapping[str, ScheduleSettings]) -> None:
        """Apply the configured schedules. A one-shot that was already past when it was first configured never fires."""
        meant = [
            self._told(s.name, s.session, s.text, s.form, s.spec, s.tz, s.downtime, "config") for s in told.values()
        ]
        await self.record.write(rows.configure, meant)

    async def run(self) -> None:
        """Fire what is due, then sleep until the next due time or a change. Until cancelled."""
        while True:
            self._changed.clear()
            try:
                following = await self._round()
            except LedgerError as fault:
                log.warning("schedules put off", why=str(fault))
                following = self.clock.now() + RETRY_MS
            await self._rest(following)

    async def _round(self) -> int | None:
        """Fire everything that is due. Returns the next due time in ms; None if there is none."""
        while True:
            now = self.clock.now()
            ready, following = await self.record.read(rows.due, now)
            if not ready:
                return following
            for row in ready:
                await self._fire(row, now // 1000)

    async def _fire(self, row: Row, now: int) -> None:
        try:
            what, following = await asyncio.to_thread(_decide, row, now, self.doubtful_until)
            woken = await self.record.write(rows.fire, row, self._to(row.name, row.session), what, following)
        except LedgerError:
            raise
        except Exception as fault:  # e.g. a zone missing from the tz database; the other schedules go on
            log.exception("a schedule cannot fire; it is paused", schedule=row.name)
            await self.record.write(rows.pause, row.name, str(fault) or repr(fault))
            return
        for session in woken:
            self.wake(session)

    async def _rest(self, until: int | None) -> None:
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if until is not None:
            waits.append(asyncio.ensure_future(self.clock.sleep_until(until)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    def _to(self, name: str, session: str) -> To:
        """The session of a schedule. A schedule's own session has no home: the transcript is the delivery."""
        if session == rows.own_session(name):
            return To(session, self._agent, None)
        return self._target(session)

    # ------------------------------------------------------------ what people and agents ask for

    async def list(self, session: str | None = None) -> list[Json]:
        """All schedules by name, or those of one session."""
        return await self.record.read(rows.listed, session)

    async def show(self, name: str) -> Json:
        """One schedule. Raises NotFound."""
        found = await self.record.read(rows.one, name)
        if found is None:
            raise _no_such_schedule(name)
        return found

    async def add(
        self, name: str, text: str, *, session: str | None = None, cron: str | None = None, at: str | None = None,
        every: str | None = None, tz: str = "UTC", downtime: str = "once", replace: bool = False,
    ) -> Json:  # fmt: skip
        """Create a schedule. Creating the same schedule again changes nothing. Raises BadRequest, Conflict."""
        given = {form: spec for form, spec in zip(FORMS, (cron, at, every), strict=True) if spec is not None}
        if len(given) != 1:
            raise BadRequest("a schedule has exactly one of cron, at and every")
        [(form, spec)] = given.items()
        try:
            told = self._told(name, session, text, form, spec, tz, downtime, "api")
            if told.due is None:
                raise BadSchedule(f"{form}: {spec!r} is in the past")
            await self.record.write(rows.add, told, replace)
        except ValueError as bad:
            raise BadRequest(str(bad)) from None
        except rows.ScheduleRefused as taken:
            raise Conflict(str(taken)) from None
        self._changed.set()
        return await self.show(name)

    async def remove(self, name: str) -> None:
        """Remove a schedule. Raises NotFound, or Conflict if it comes from the configuration."""
        try:
            if not await self.record.write(rows.remove, name):
                raise _no_such_schedule(name)
        except rows.ScheduleRefused as taken:
            raise Conflict(str(taken)) from None
        self._changed.set()

    async def pause(self, name: str) -> Json:
        """Pause a schedule until `resume`. Firings during the pause do not count as missed. Raises NotFound."""
        if not await self.record.write(rows.pause, name):
            raise _no_such_schedule(name)
        self._changed.set()
        return await self.show(name)

    async def resume(self, name: str) -> Json:
        """Resume a paused schedule from its next due time on. Raises NotFound, Conflict."""
        found = await self.show(name)
        form = next(one for one in FORMS if one in found)
        try:
            anchor = await self.record.read(_anchor, name)
            due = schedule.read(form, found[form], zone(found["tz"]), anchor).next(self.clock.now() // 1000)
        except BadSchedule as bad:
            raise Conflict(str(bad)) from None
        await self.record.write(rows.resume, name, due)
        self._changed.set()
        return await self.show(name)

    def of_agent(self, session: str, spec: str, text: str, tz: str) -> rows.ScheduleDefinition:
        """Build a schedule that an agent asked for. `spec`: a cron, or a date and time. Raises BadSchedule."""
        form: schedule.Form = "at" if re.match(r"\s*\d{4}-\d\d-", spec) else "cron"
        told = self._told(f"agent-{secrets.token_hex(3)}", session, text, form, spec, tz, "once", "agent")
        if told.due is None:
            raise BadSchedule(f"{spec!r} is in the past")
        return told

    def changed(self) -> None:
        """Recompute the next due time after a schedule was written elsewhere."""
        self._changed.set()

    def _told(
        self, name: str, session: str | None, text: str, form: schedule.Form, spec: str, tz: str, downtime: str, by: str
    ) -> rows.ScheduleDefinition:
        if not NAME.fullmatch(name):
            raise BadSchedule(f"name: {name!r} is not 1 to 64 letters, digits, '_' or '-'")
        if not text.strip():
            raise BadSchedule("text: a schedule needs a text that is not blank: what the agent is asked")
        if len(text) > TEXT_LIMIT:
            raise BadSchedule(f"text: at most {TEXT_LIMIT:,} characters")
        if downtime not in ("skip", "once", "all"):
            raise BadSchedule(f"downtime: {downtime!r} is not skip, once or all")
        key = identity.check_session_key(session) if session else rows.own_session(name)
        now = self.clock.now() // 1000
        due = schedule.read(form, spec, zone(tz), now).next(now)
        return rows.ScheduleDefinition(name, key, text, form, spec.strip(), tz, downtime, by, due)  # type: ignore[arg-type]


def _decide(row: Row, now: int, doubtful_until: int) -> tuple[schedule.Firings, int | None]:
    """(firings that are due now, next due time). CPU-bound; runs in a thread."""
    series = schedule.read(row.form, row.spec, zone(row.tz), row.anchor // 1000)
    if row.due <= doubtful_until:
        until = doubtful_until // 1000
        return schedule.doubtful(series, row.due // 1000, until), series.next(until)
    return schedule.decide_firings(series, row.due // 1000, now, row.downtime), series.next(now)


def _anchor(tx: Any, name: str) -> int:
    row = tx.one("schedule_get", name=name)
    return 0 if row is None else int(row.anchor) // 1000


def _no_such_schedule(name: str) -> NotFound:
    return NotFound(f"there is no schedule {name!r}; `semel schedules list` names those there are")
