"""Background jobs: what agents run beside their turns. Each is a row, then a process; its reports are events.

A supervisor of its own watches each job and reports it, whatever becomes of this gateway (`ports.Background`). What
lost its supervisor is found here: at the start, when one ends, and in a sweep while any job is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from semel.gateway.clock import Clock
from semel.gateway.errors import Conflict, GatewayError, NotFound
from semel.gateway.ports import Background, CannotBegin, Heard, Job, Orphan
from semel.gateway.settings import BackgroundSettings
from semel.gateway.transactions import Record
from semel.ledger.delivery.claims import Made
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.sql import Row
from semel.ledger.turns import job_calls
from semel.ledger.turns import jobs as rows
from semel.ledger.turns.tool_calls import Call

log = structlog.get_logger("semel.jobs")

Json = dict[str, Any]
SWEEP = 5.0  # seconds between two looks at supervisors that are not our children
ENDING = 12.0  # seconds a cancel waits for the end: SIGTERM, the supervisor's grace, SIGKILL, and its report
NOBODY = "the gateway"  # who cancels, where the row names nobody
Report = Callable[..., Awaitable[Heard]]


class Jobs:
    """The jobs of a gateway. `report` hears an event as `Gateway.report` does; `port` None: none can be run."""

    def __init__(
        self, record: Record, settings: BackgroundSettings, port: Background | None, report: Report, clock: Clock
    ) -> None:
        self.record = record
        self.settings = settings
        self.port = port
        self.clock = clock
        self._report = report
        self._starting: dict[str, asyncio.Event] = {}
        self._ends: dict[str, set[asyncio.Event]] = {}  # of jobs whose end somebody waits for
        self._look = asyncio.Event()
        self._resumed = asyncio.Event()  # what earlier gateways left is reported
        self._stopped = False
        self.doubtful_until = 0  # ms: what was asked for until then may have run, and its reports are lost (Law 14)

    def __repr__(self) -> str:
        return f"<Jobs {len(self._starting)} starting>"

    # ------------------------------------------------------------ starting one

    async def ask(self, call: Call, command: str, name: str, seconds: float | None) -> Row | Made:
        """The job of this tool call, started once; or why there is none. Raises calls.SameIdOtherCall."""
        limit = self.settings.time_s
        run = f"job-{secrets.token_hex(5)}"
        wanted = job_calls.Wanted(run, command, name, limit if seconds is None else seconds)
        limits = job_calls.Limits(self.settings.jobs if self.port is not None else 0, self.settings.all)
        self._starting[run] = asyncio.Event()  # before its row: a sweep does not take it for one that was left behind
        try:
            made = await self.record.write(job_calls.ask, call, wanted, limits)
            if isinstance(made, Made):
                return made
            if made.run == run:
                await self._begin(made)
            else:  # the same call once more: what came of it first must be known
                await self._resumed.wait()
                await self._started(made.run)
            return await self._row(made.run)
        finally:
            self._starting.pop(run).set()
            self._look.set()

    async def _started(self, run: str) -> None:
        """Returns when this gateway is not starting this job any more."""
        if (first := self._starting.get(run)) is not None:
            await first.wait()

    async def _begin(self, row: Row) -> None:
        assert self.port is not None
        job = Job(row.run, row.key, row.agent, row.command, row.name, row.seconds, self.settings.output, row.at)
        loop = asyncio.get_running_loop()

        def ended() -> None:
            with contextlib.suppress(RuntimeError):  # this gateway has ended
                loop.call_soon_threadsafe(self._look.set)

        try:
            await asyncio.to_thread(self.port.begin, job, ended)
        except CannotBegin as no:
            log.warning("a job could not be started", job=row.run, session=row.key, why=str(no))
            await self.record.write(rows.failed, row.run, str(no))

    # ------------------------------------------------------------ looking

    async def list(self, session: int | None = None) -> list[Json]:
        """The jobs of a session, newest first; without one, all that are not over."""
        return await self.record.read(rows.listed, session)

    async def show(self, run: str) -> Json:
        """One job. Raises NotFound."""
        return rows.shown(await self._row(run))

    async def _row(self, run: str) -> Row:
        row = await self.record.read(rows.get, run)
        if row is None:
            raise NotFound(f"there is no job {run!r}")
        return row

    # ------------------------------------------------------------ cancelling one

    async def cancel(self, run: str, by: str) -> Json:
        """Have a job ended, and wait for a while until it has. The job as it is then. Raises NotFound, Conflict."""
        if (row := await self._row(run)).ended is not None:
            raise Conflict(f"there is nothing to cancel: {line(rows.shown(row), self.clock.now())}")
        row = await self.record.write(rows.cancel, run, by)
        await self.end(row)
        return await self.show(run)

    async def end(self, row: Row) -> None:
        """End a job that somebody cancelled, by its row. Returns when it is over, or after `ENDING` seconds."""
        if row.ended is not None or self.port is None:
            return
        over = asyncio.Event()
        self._ends.setdefault(row.run, set()).add(over)
        try:
            async with asyncio.timeout(ENDING):
                await self._started(row.run)
                if not await asyncio.to_thread(self.port.cancel, row.run, row.cancelled or NOBODY):
                    await self.sweep()
                if (await self._row(row.run)).ended is None:
                    await over.wait()
        except TimeoutError:
            log.warning("a job that was cancelled does not end", job=row.run, session=row.key)
        finally:
            self._ends[row.run].discard(over)
            if not self._ends[row.run]:
                del self._ends[row.run]

    def heard(self, kind: str, key: str | None) -> None:
        """An event was heard: perhaps the end of a job that somebody waits for."""
        if kind in ("exec.finished", "exec.lost"):
            for over in self._ends.get((key or "").removesuffix(f":{kind}"), ()):
                over.set()

    # ------------------------------------------------------------ what lost its supervisor

    async def run(self) -> None:
        """Sweep when a supervisor ended, and now and then while any job is open. Until `stop`."""
        while not self._stopped:
            self._look.clear()
            try:
                open_ = await self.sweep()
                if not self._resumed.is_set():
                    await self._cancel_again()
            except (LedgerError, GatewayError, OSError) as fault:
                log.warning("jobs are looked at later", why=str(fault))
                open_ = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP if open_ else None):
                    await self._look.wait()

    async def stop(self) -> None:
        """No more sweeps; the one under way ends. Jobs go on, and their ends are told to the next gateway."""
        self._stopped = True
        self._look.set()

    async def _cancel_again(self) -> None:
        """At the start: those that were to be cancelled are told again, as their gateway may not have come to it."""
        for row in await self.record.read(rows.not_over):
            if row.cancelled is not None and self.port is not None:
                await asyncio.to_thread(self.port.cancel, row.run, row.cancelled)
        self._resumed.set()

    async def sweep(self) -> bool:
        """Report each job whose supervisor is gone, once. Whether any job is open afterwards."""
        if self.port is None:
            return False
        known = [row for row in await self.record.read(rows.not_over) if row.run not in self._starting]
        present = await asyncio.to_thread(self.port.present)
        for orphan in await asyncio.to_thread(self.port.orphans):
            await self._hear(orphan)
        for row in known:
            if row.run not in present and (await self._row(row.run)).ended is None:
                await self._never_started(row)
        return bool(await self.record.read(rows.count))

    async def _hear(self, orphan: Orphan) -> None:
        heard = 0
        try:
            for body in orphan.reports():
                await self._report(
                    orphan.session, body["kind"], body["text"], key=body["key"], data=body.get("data"),
                    wakes=body.get("wakes"),
                )  # fmt: skip
                heard += 1
        finally:
            await asyncio.to_thread(orphan.release, heard)

    async def _never_started(self, row: Row) -> None:
        """Its row was committed, and the gateway died before anything else was done: so it did nothing at all.

        Where the ledger was put back from a copy, it may have run since, and its reports went with what was replaced.
        """
        name, doubtful = f", {row.name}" if row.name else "", row.at <= self.doubtful_until
        text = (
            f"`{row.command}` was not started (background job {row.run}{name}): the gateway ended before it came to "
            "it. Nothing of it was run."
        )
        if doubtful:
            text = (
                f"It is not known how `{row.command}` ended (background job {row.run}{name}): the ledger was restored "
                "from a copy that was made before it ended. The command may have finished."
            )
        await self._report(
            row.key, "exec.lost", text, key=f"{row.run}:exec.lost", data={"run": row.run, "running": False},
            wakes=False if doubtful else None,
        )  # fmt: skip


def lines(found: Sequence[Json], now: int) -> str:
    """Jobs, for an agent to read."""
    return "\n".join(f"- {line(one, now)}: {one['command']!r}" for one in found) or "no background jobs here"


def line(job: Json, now: int) -> str:
    """One job and how it is, in a few words."""
    name = f" ({job['name']})" if job.get("name") else ""
    return f"{job['id']}{name} {state(job, now)}"


def state(job: Json, now: int) -> str:
    """How a job is: "runs for 12 s, at most 3600 s", "ended with exit code 0", "is lost" ..."""
    by = f", cancelled by {job['cancelled_by']}" if job.get("cancelled_by") else ""
    if job["state"] in ("asked", "running"):
        return f"runs for {max(0, now - job['at']) // 1000} s, at most {job['seconds']:g} s{by}"
    if job["state"] == "failed":
        return f"could not be started: {job['error']}"
    if job["state"] == "lost":
        return f"is lost: what watched it was killed, or never came to start it{by}"
    return f"ended with exit code {job.get('exit')}{by}"
