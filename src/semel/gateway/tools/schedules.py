"""Schedules: events that fire at set times (Laws 1, 2).

One timer waits for the next schedule or heartbeat that is due.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from semel.gateway.clock import Clock, find_zone, format_local
from semel.gateway.errors import BadRequest, Conflict, NotFound
from semel.gateway.inbound.inbox import MAX_TEXT_CHARS
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import ScheduleSettings
from semel.gateway.tools.heartbeats import Heartbeats
from semel.law import identity
from semel.ledger.inbound import schedules as rows
from semel.ledger.inbound.hear import Addressee
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.rows import ScheduleRow
from semel.ledger.storage.sql import Tx
from semel.text.json_types import Json
from semel.timing import schedule
from semel.timing.walltime import BadSchedule

log = structlog.get_logger("semel.schedules")

RETRY_MS = 2000  # delay after a ledger error
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
FORMS: tuple[schedule.ScheduleKind, ...] = ("cron", "at", "every")


class ScheduleManager:
    """The schedules of a gateway. `target`: returns agent and home for a session key. `wake`: wakes a session.

    `agent`: the agent for schedules that have a session of their own. `tell_duties`: tells the gateway that fires them,
    if it is another one.
    """

    def __init__(
        self, record: LedgerAccess, clock: Clock, target: Callable[[str], Addressee], wake: Callable[[int], None],
        agent: str, heartbeats: Heartbeats, tell_duties: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self.record = record
        self.clock = clock
        self.wake = wake
        self._target = target
        self._agent = agent  # the agent of schedules' own sessions
        self._heartbeats = heartbeats
        self._tell_duties = tell_duties
        self._news = asyncio.Event()
        self.doubtful_until = 0  # ms: firings due up to then may have happened before a restore (Law 14)

    # ------------------------------------------------------------ the timer

    async def configure(self, configured: Mapping[str, ScheduleSettings]) -> None:
        """Make the ledger's schedules agree with the configured ones: add new ones, replace those that changed.

        A schedule that was configured earlier and is not any more stays, but does not fire until it is configured
        again. Schedules that people and agents made stay, unless a configured one has the same name. A one-shot
        schedule never fires if its time is past when it is first configured.
        """
        definitions = [
            self._define(s.name, s.session, s.text, s.form, s.spec, s.tz, s.downtime, "config")
            for s in configured.values()
        ]
        for remark in await self.record.write(rows.configure, definitions):
            log.warning("check the configuration", what=remark)

    async def run(self) -> None:
        """Fire everything that is due, then sleep until the next due time or a change; repeat until cancelled."""
        while True:
            self._news.clear()
            try:
                following = await self._fire_due()
            except LedgerError as error:
                log.warning("schedules put off", why=str(error))
                following = self.clock.now() + RETRY_MS
            await self._sleep_until(following)

    async def _fire_due(self) -> int | None:
        """Fire everything that is due. Return the next due time (ms); None if there is none."""
        while True:
            now = self.clock.now()
            ready, following = await self.record.read(rows.list_due, now)
            if not ready:
                heartbeat = await self._heartbeats.fire_due()
                return min((at for at in (following, heartbeat) if at is not None), default=None)
            for row in ready:
                await self._fire(row, now // 1000)

    async def _fire(self, row: ScheduleRow, now: int) -> None:
        try:
            firings, following = await asyncio.to_thread(_decide_firings, row, now, self.doubtful_until)
            woken = await self.record.write(rows.fire, row, self._target_of(row.name, row.session), firings, following)
        except LedgerError:
            raise
        except Exception as error:  # e.g. a zone missing from the tz database; the other schedules go on
            log.exception("a schedule cannot fire; it is paused", schedule=row.name)
            await self.record.write(rows.pause, row.name, str(error) or repr(error))
            return
        for session in woken:
            self.wake(session)

    async def _sleep_until(self, until: int | None) -> None:
        waiters: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._news.wait())]
        if until is not None:
            waiters.append(asyncio.ensure_future(self.clock.sleep_until(until)))
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()

    def _target_of(self, name: str, session: str) -> Addressee:
        """Return the session to which a schedule's events are addressed. A schedule's own session has no home."""
        if session == rows.default_session_key(name):
            return Addressee(session, self._agent, None)
        return self._target(session)

    # ------------------------------------------------------------ requests of people and agents

    async def list(self, session: str | None = None) -> list[Json]:
        """Return all schedules, or those of one session, sorted by name, as JSON objects."""
        return [self._add_home(schedule) for schedule in await self.record.read(rows.list_json, session)]

    async def show(self, name: str) -> Json:
        """Return one schedule. Raises NotFound."""
        schedule = await self.record.read(rows.get_json, name)
        if schedule is None:
            raise _no_such_schedule(name)
        return self._add_home(schedule)

    def _add_home(self, schedule: Json) -> Json:
        """Add the home that the schedule's session will have, if that session does not exist yet."""
        schedule.setdefault("home", self._target_of(schedule["name"], schedule["session"]).home)
        return schedule

    async def add(
        self, name: str, text: str, *, session: str | None = None, cron: str | None = None, at: str | None = None,
        every: str | None = None, tz: str = "UTC", downtime: str = "once", replace: bool = False, paused: bool = False,
    ) -> Json:  # fmt: skip
        """Create a schedule and return it. Creating the same schedule again changes nothing.

        Give exactly one of `cron`, `at` and `every`. `session`: None gives it a session of its own. `replace`: replace
        an existing schedule of this name; without it, such a schedule is a Conflict. `paused`: it does not fire until
        it is resumed. Raises BadRequest, Conflict.
        """
        specs = {form: spec for form, spec in zip(FORMS, (cron, at, every), strict=True) if spec is not None}
        if len(specs) != 1:
            raise BadRequest("a schedule has exactly one of cron, at and every")
        [(form, spec)] = specs.items()
        try:
            definition = self._define(name, session, text, form, spec, tz, downtime, "api")
            if definition.due is None:
                raise self._explain_past(spec, tz)
            await self.record.write(rows.add, definition, replace, paused)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        except rows.ScheduleRefused as error:
            raise Conflict(str(error)) from None
        self.wake_timer()
        return await self.show(name)

    async def remove(self, name: str) -> None:
        """Remove a schedule. Raises NotFound, or Conflict if it comes from the configuration."""
        try:
            if not await self.record.write(rows.remove, name):
                raise _no_such_schedule(name)
        except rows.ScheduleRefused as error:
            raise Conflict(str(error)) from None
        self.wake_timer()

    async def pause(self, name: str) -> Json:
        """Pause a schedule until `resume`. Firings during the pause do not count as missed. Raises NotFound."""
        if not await self.record.write(rows.pause, name):
            raise _no_such_schedule(name)
        self.wake_timer()
        return await self.show(name)

    async def resume(self, name: str) -> Json:
        """Resume a paused schedule with its next due time from now on. Raises NotFound; Conflict if it cannot fire."""
        shown = await self.show(name)
        form = next(form for form in FORMS if form in shown)
        try:
            anchor = await self.record.read(_read_anchor, name)
            due = schedule.read_schedule(form, shown[form], find_zone(shown["tz"]), anchor).next(
                self.clock.now() // 1000
            )
            await self.record.write(rows.resume, name, due)
        except (BadSchedule, rows.ScheduleRefused) as error:
            raise Conflict(str(error)) from None
        self.wake_timer()
        return await self.show(name)

    async def run_now(self, name: str, key: str | None = None) -> Json:
        """Fire a schedule now, even if it is paused or over. Its next due time stays. Raises NotFound, Conflict.

        `key`: an idempotency key, by which a repeat of the request fires nothing; None makes each request one more.
        """
        target = self._target_of(name, (await self.show(name))["session"])
        try:
            event_key = identity.check_event_key(f"run:{secrets.token_hex(8) if key is None else key}")
            woken = await self.record.write(rows.fire_now, name, target, self.clock.now() // 1000, event_key)
        except identity.BadKey as error:
            raise BadRequest(str(error)) from None
        except rows.ScheduleRefused as error:
            raise Conflict(str(error)) from None
        if woken is None:
            raise _no_such_schedule(name)
        for session in woken:
            self.wake(session)
        return await self.show(name)

    def define_for_agent(self, session: str, spec: str, text: str, tz: str) -> rows.ScheduleDefinition:
        """Return the definition of a schedule for an agent.

        `spec`: a cron expression, or a date and time. Raises BadSchedule.
        """
        form: schedule.ScheduleKind = "at" if re.match(r"\s*\d{4}-\d\d-", spec) else "cron"
        if form == "cron":
            self._check_cron(spec)
        definition = self._define(f"agent-{secrets.token_hex(3)}", session, text, form, spec, tz, "once", "agent")
        if definition.due is None:
            raise self._explain_past(spec, tz)
        return definition

    def _check_cron(self, spec: str) -> None:
        """Raise BadSchedule with what an agent needs to write a date and time instead: it may have no clock."""
        try:
            schedule.read_cron(spec)
        except BadSchedule as error:
            once = f"for once, write a date and time like 2030-03-29 07:30; it is {self.format_now()} now"
            raise BadSchedule(f"{error}; {once}") from None

    def _explain_past(self, spec: str, tz: str) -> BadSchedule:
        return BadSchedule(f"{spec!r} is in the past: it is {self.format_now(tz)} now")

    def format_now(self, tz: str = "UTC") -> str:
        """Format the present as local time of a zone. Raises BadSchedule if there is no such zone."""
        return format_local(self.clock.now() // 1000, tz)

    def wake_timer(self) -> None:
        """Make the timer compute the next due time again, because a schedule has changed."""
        self._news.set()
        self._tell_duties()

    def _define(
        self,
        name: str,
        session: str | None,
        text: str,
        form: schedule.ScheduleKind,
        spec: str,
        tz: str,
        downtime: str,
        by: str,
    ) -> rows.ScheduleDefinition:
        if not NAME_PATTERN.fullmatch(name):
            raise BadSchedule(f"name: {name!r} is not 1 to 64 letters, digits, '_' or '-'")
        if not text.strip():
            raise BadSchedule("text: a schedule needs a text that is not blank: what the agent is asked")
        if len(text) > MAX_TEXT_CHARS:
            raise BadSchedule(f"text: at most {MAX_TEXT_CHARS:,} characters")
        if downtime not in ("skip", "once", "all"):
            raise BadSchedule(f"downtime: {downtime!r} is not skip, once or all")
        key = identity.check_session_key(session) if session else rows.default_session_key(name)
        now = self.clock.now() // 1000
        due = schedule.read_schedule(form, spec, find_zone(tz), now).next(now)
        return rows.ScheduleDefinition(name, key, text, form, spec.strip(), tz, downtime, by, due)  # type: ignore[arg-type]


def _decide_firings(row: ScheduleRow, now: int, doubtful_until: int) -> tuple[schedule.Firings, int | None]:
    """Return (which of the due firings to run now, the next due time in seconds or None).

    `now`: in seconds. `doubtful_until` (ms): when the ledger was last restored from a backup; 0 if never. Firings that
    were due by then may have run already, so none of them runs now (Law 14). This can be slow, so call it in a thread.
    """
    assert row.due is not None  # it is due
    series = schedule.read_schedule(row.form, row.spec, find_zone(row.tz), row.anchor // 1000)
    if row.due <= doubtful_until:
        until = doubtful_until // 1000
        return schedule.doubtful_firings(series, row.due // 1000, until), series.next(until)
    return schedule.decide_firings(series, row.due // 1000, now, row.downtime), series.next(now)


def _read_anchor(tx: Tx, name: str) -> int:
    row = tx.one(ScheduleRow, "schedule_get", name=name)
    return 0 if row is None else row.anchor // 1000


def _no_such_schedule(name: str) -> NotFound:
    return NotFound(describe_missing(name))


def describe_missing(name: str) -> str:
    """Return a text for people which says that there is no schedule of this name."""
    return f"there is no schedule {name!r}; `semel schedules list` names those there are"
