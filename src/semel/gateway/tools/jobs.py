"""Background jobs: commands that agents run outside their turns. A job is first a row, then a process.

Each job has its own supervisor process, which outlives the gateway and reports the job's end as an event
(`ports.Background`). Jobs without a supervisor are found here: at the start, when a supervisor exits, and by a periodic
sweep while any job is open.
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
SWEEP_INTERVAL_S = 5.0  # seconds between sweeps: supervisors of earlier gateways are not our children
CANCEL_TIMEOUT_S = 12.0  # seconds a cancel waits for SIGTERM, the supervisor's grace, SIGKILL and its report
DEFAULT_CANCELLER = "the gateway"  # canceller if the row names nobody
Report = Callable[..., Awaitable[Heard]]


class Jobs:
    """The jobs of a gateway. `report` accepts an event (`Gateway.report`). Without a `port` no job can be run."""

    def __init__(
        self, record: Record, settings: BackgroundSettings, port: Background | None, report: Report, clock: Clock
    ) -> None:
        self.record = record
        self.settings = settings
        self.port = port
        self.clock = clock
        self._report = report
        self._starting: dict[str, asyncio.Event] = {}
        self._ends: dict[str, set[asyncio.Event]] = {}  # job id -> waiters for its end
        self._look = asyncio.Event()
        self._resumed = asyncio.Event()  # jobs left by earlier gateways are reported
        self._stopped = False
        self.doubtful_until = 0  # ms: jobs asked for up to then may have run, their reports lost (Law 14)

    def __repr__(self) -> str:
        return f"<Jobs {len(self._starting)} starting>"

    # ------------------------------------------------------------ starting one

    async def ask(self, call: Call, command: str, name: str, seconds: float | None) -> Row | Made:
        """Start the job of this tool call, once. Returns its row, or the refusal. Raises SameIdOtherCall."""
        limit = self.settings.time_s
        run = f"job-{secrets.token_hex(5)}"
        wanted = job_calls.JobRequest(run, command, name, limit if seconds is None else seconds)
        limits = job_calls.Limits(self.settings.jobs if self.port is not None else 0, self.settings.all)
        self._starting[run] = asyncio.Event()  # set before the row exists, so that a sweep does not report it as lost
        try:
            made = await self.record.write(job_calls.ask, call, wanted, limits)
            if isinstance(made, Made):
                return made
            if made.run == run:
                await self._begin(made)
            else:  # a repeat of the call: wait for the outcome of the first
                await self._resumed.wait()
                await self._started(made.run)
            return await self._row(made.run)
        finally:
            self._starting.pop(run).set()
            self._look.set()

    async def _started(self, run: str) -> None:
        """Wait until this gateway is no longer starting this job."""
        if (first := self._starting.get(run)) is not None:
            await first.wait()

    async def _begin(self, row: Row) -> None:
        assert self.port is not None
        job = Job(row.run, row.key, row.agent, row.command, row.name, row.seconds, self.settings.output, row.at)
        loop = asyncio.get_running_loop()

        def ended() -> None:
            with contextlib.suppress(RuntimeError):  # the loop of this gateway is closed
                loop.call_soon_threadsafe(self._look.set)

        try:
            await asyncio.to_thread(self.port.begin, job, ended)
        except CannotBegin as no:
            log.warning("a job could not be started", job=row.run, session=row.key, why=str(no))
            await self.record.write(rows.failed, row.run, str(no))

    # ------------------------------------------------------------ looking

    async def list(self, session: int | None = None) -> list[Json]:
        """The jobs of a session, newest first; without a session, all unfinished jobs."""
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
        """Cancel a job, wait a while for its end, and return its state then. Raises NotFound, Conflict."""
        if (row := await self._row(run)).ended is not None:
            raise Conflict(f"there is nothing to cancel: {line(rows.shown(row), self.clock.now())}")
        row = await self.record.write(rows.cancel, run, by)
        await self.end(row)
        return await self.show(run)

    async def end(self, row: Row) -> None:
        """End the job of this row. Returns when it has ended, or after a timeout of 12 seconds."""
        if row.ended is not None or self.port is None:
            return
        over = asyncio.Event()
        self._ends.setdefault(row.run, set()).add(over)
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT_S):
                await self._started(row.run)
                if not await asyncio.to_thread(self.port.cancel, row.run, row.cancelled or DEFAULT_CANCELLER):
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
        """Wake the waiters if this accepted event reports the end of a job."""
        if kind in ("exec.finished", "exec.lost"):
            for over in self._ends.get((key or "").removesuffix(f":{kind}"), ()):
                over.set()

    # ------------------------------------------------------------ what lost its supervisor

    async def run(self) -> None:
        """Sweep when a supervisor exits, and periodically while any job is open, until `stop`."""
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
                async with asyncio.timeout(SWEEP_INTERVAL_S if open_ else None):
                    await self._look.wait()

    async def stop(self) -> None:
        """Stop sweeping after the current sweep. Jobs keep running and report to the next gateway."""
        self._stopped = True
        self._look.set()

    async def _cancel_again(self) -> None:
        """At the start, repeat recorded cancellations: the earlier gateway may not have carried them out."""
        for row in await self.record.read(rows.not_over):
            if row.cancelled is not None and self.port is not None:
                await asyncio.to_thread(self.port.cancel, row.run, row.cancelled)
        self._resumed.set()

    async def sweep(self) -> bool:
        """Report each job without a supervisor, once. Returns whether any job is open afterwards."""
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
        """Report a job that has a row but no process: the gateway died between the two, so nothing was run.

        If the ledger was restored from a backup made before the job ended, the job may have run; the report says so.
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
    """A list of jobs as text for an agent."""
    return "\n".join(f"- {line(one, now)}: {one['command']!r}" for one in found) or "no background jobs here"


def line(job: Json, now: int) -> str:
    """A job and its state in one line."""
    name = f" ({job['name']})" if job.get("name") else ""
    return f"{job['id']}{name} {state(job, now)}"


def state(job: Json, now: int) -> str:
    """A job's state in words: "runs for 12 s, at most 3600 s", "ended with exit code 0", "is lost" ..."""
    by = f", cancelled by {job['cancelled_by']}" if job.get("cancelled_by") else ""
    if job["state"] in ("asked", "running"):
        return f"runs for {max(0, now - job['at']) // 1000} s, at most {job['seconds']:g} s{by}"
    if job["state"] == "failed":
        return f"could not be started: {job['error']}"
    if job["state"] == "lost":
        return f"is lost: what watched it was killed, or never came to start it{by}"
    return f"ended with exit code {job.get('exit')}{by}"
