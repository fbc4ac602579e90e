"""Settings of sessions: when turns start, schedules, heartbeats and background jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from semel.gateway.clock import find_zone
from semel.gateway.settings.tables import (
    Conflict,
    Duration,
    Hours,
    NamedTable,
    Pause,
    Size,
    Strings,
    Table,
    Text,
    Zone,
    raise_conflicts,
)
from semel.law import identity
from semel.law.echo import QUIET_WORD
from semel.law.wake import Busy
from semel.timing import schedule
from semel.timing.walltime import BadSchedule, read_moment

HEARTBEAT_TEXT = "Nothing happened here for a while. If something needs to be done or said, do it."


def _check_cron(text: str) -> str:
    schedule.read_cron(text)
    return text


def _check_moment(text: str) -> str:
    read_moment(text, UTC)
    return text


def _check_interval(text: str) -> str:
    schedule.read_every(text)
    return text


def _check_session(key: str) -> str:
    identity.check_session_key(key)
    return key


class ScheduleSettings(NamedTable):
    """The table `[schedules.NAME]`: a schedule."""

    cron: Annotated[str, AfterValidator(_check_cron)] | None = Field(default=None, examples=["30 7 * * MON-FRI"])
    """Five fields, like "30 7 * * MON-FRI", or "@daily"."""
    at: Annotated[Text, AfterValidator(_check_moment)] | None = Field(default=None, examples=["2030-03-29 07:30"])
    """A single date and time, like "2030-03-29 07:30", in `tz` unless it has an offset."""
    every: Annotated[Text, AfterValidator(_check_interval)] | None = Field(default=None, examples=["2h"])
    """An interval, like "90s", "10m", "2h" or "1d". The first one starts when the gateway first reads the schedule."""
    tz: Zone = "UTC"
    """The time zone of `cron` and `at`, like "Europe/Berlin"."""
    session: Annotated[str, AfterValidator(_check_session)] | None = Field(default=None, examples=["main:web:me"])
    """The session that gets the event. Default: a session of its own, schedule:NAME, without a home."""
    text: str = Field(min_length=1, examples=["Look at the calendar and summarise today."])
    """The prompt for the agent."""
    downtime: Literal["skip", "once", "all"] = "once"
    """What happens to firings that were missed while the gateway was down: skip them, fire once for all, or fire
    all (at most the newest 100)."""

    @model_validator(mode="after")
    def _check_time(self) -> Self:
        raise_conflicts(self, self._find_conflicts())
        return self

    def _find_conflicts(self) -> Iterator[Conflict]:
        forms = [form for form in ("cron", "at", "every") if getattr(self, form) is not None]
        if len(forms) != 1:
            given = ", ".join(forms) or "none"
            yield "cron at every", f"a schedule has exactly one of cron, at and every; here: {given}"
            return
        try:
            schedule.read_schedule(self.form, self.spec, find_zone(self.tz))
        except BadSchedule as error:  # a time at the end of the calendar that this zone does not reach
            yield f"{self.form} tz", str(error)

    def find_next(self, after: int) -> int | None:
        """Return the first instant later than `after` at which it fires, in s since the epoch; None if there is none.

        An interval is counted from the epoch.
        """
        return schedule.read_schedule(self.form, self.spec, find_zone(self.tz)).next(after)

    @property
    def form(self) -> schedule.ScheduleKind:
        return "cron" if self.cron is not None else "at" if self.at is not None else "every"

    @property
    def spec(self) -> str:
        return str(getattr(self, self.form))


class HeartbeatSettings(Table):
    """The table `[heartbeat]`: prompts to idle sessions."""

    sessions: Strings = Field(default=(), examples=[["main:*"]])
    """The sessions that get heartbeats, as patterns like "main:*". Default: none."""
    every_s: Duration = Field(default=1800.0, ge=1)
    """A session that was idle for this long gets a turn."""
    text: str = Field(default=HEARTBEAT_TEXT, min_length=1)
    """The prompt for the agent. Semel also tells it to answer with the word in `quiet` if it has nothing to say."""
    quiet: str = Field(default=QUIET_WORD, min_length=1)
    """An answer of exactly this word is recorded, but not shown."""
    hours: Hours | None = Field(default=None, examples=["08:00-22:00"])
    """Active hours, like "08:00-22:00"; heartbeats due outside them wait. Default: always."""
    tz: Zone = "UTC"
    """The time zone of `hours`."""


class BackgroundSettings(Table):
    """The table `[background]`: the limits of background jobs."""

    jobs: int = Field(default=4, ge=0)
    """The most jobs running at once in one session; 0 allows no jobs."""
    all: int = Field(default=16, ge=0)
    """The most jobs running at once in all sessions; 0 allows no jobs."""
    time_s: Duration = 3600.0
    """A job is ended when it has run for this long."""
    output: Size = 10_000_000
    """How many bytes of a job's output are kept, like "500kB" or "10MB"."""


class WakeSettings(Table):
    """The table `[sessions.PATTERN.wake]`: how long to collect messages before a turn begins."""

    debounce_s: Pause = 0.0
    """A turn starts when no event has come for this long. Default: at once."""
    max_wait_s: Duration | None = Field(default=None, examples=["10s"])
    """A turn starts at the latest this long after the first event. Default: five times `debounce`."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.max_wait_s is not None and self.max_wait_s < self.debounce_s:
            problem = f"max_wait is {self.max_wait_s:g} s, and should be at least debounce, {self.debounce_s:g} s"
            raise_conflicts(self, [("debounce max_wait", problem)])
        return self

    @property
    def longest_s(self) -> float:
        return self.max_wait_s if self.max_wait_s is not None else 5 * self.debounce_s


class SessionSettings(Table):
    """The table `[sessions."PATTERN"]`: the settings of all sessions whose key matches the pattern."""

    busy: Busy = "queue"
    """What happens to a message that comes during a turn: queue, steer, interrupt or collect (`semel docs busy`)."""
    wake: WakeSettings = Field(default=WakeSettings(), examples=[{"debounce": "2s", "max_wait": "10s"}])
    """How long a turn waits for further events, like { debounce = "2s", max_wait = "10s" }."""
    automatic: Literal["wait", "wake"] = "wait"
    """Messages that programs send (bots, auto-replies) wait for the next turn, or wake the agent."""
    retain_s: Duration | None = Field(default=None, examples=["30d"])
    """How long its content is kept (`semel docs retention`). Default: as the session's channel says, else for ever."""
