"""Background jobs: commands that agents run outside their turns. A job is first a row, then a process.

Each job has a supervisor process, which outlives the gateway and reports the job's end as an event
(`ports.Background`). This module finds jobs without a supervisor: at the start, when a supervisor exits, and by a
periodic sweep while any job is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence

import structlog

from semel.gateway.clock import Clock
from semel.gateway.errors import Conflict, GatewayError, NotFound
from semel.gateway.ports import Background, CannotBegin, Heard, Job, Orphan
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import BackgroundSettings
from semel.ledger.delivery.claims import ClaimResult
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.rows import SessionJob
from semel.ledger.turns import job_calls
from semel.ledger.turns import jobs as rows
from semel.ledger.turns.tool_calls import ToolCallRequest
from semel.text.json_types import Json

log = structlog.get_logger("semel.jobs")

SWEEP_INTERVAL_S = 5.0  # seconds between sweeps; the exit of an earlier gateway's supervisor is not reported here
CANCEL_TIMEOUT_S = 12.0  # seconds a cancel waits for SIGTERM, the supervisor's grace, SIGKILL and its report
DEFAULT_CANCELLER = "the gateway"  # canceller if the row names nobody
Report = Callable[..., Awaitable[Heard]]


class JobManager:
    """The jobs of a gateway. `report`: accepts an event (`Gateway.report`). `port`: runs jobs; None if jobs are off.

    `gateway`: this gateway's name, if several share the ledger. Then the jobs of another one are left alone: its
    machine runs them, and tells their ends once it is active again.
    """

    def __init__(
        self,
        record: LedgerAccess,
        settings: BackgroundSettings,
        port: Background | None,
        report: Report,
        clock: Clock,
        gateway: str | None = None,
    ) -> None:
        self.record = record
        self.settings = settings
        self.port = port
        self.clock = clock
        self.gateway = gateway
        self._report = report
        self._starting: dict[str, asyncio.Event] = {}
        self._end_waiters: dict[str, set[asyncio.Event]] = {}  # job id -> waiters for its end
        self._sweep_now = asyncio.Event()
        self._resumed = asyncio.Event()  # set once the jobs that earlier gateways left have been swept
        self._stopped = False
        self.doubtful_until = 0  # ms: jobs from before this may have run, but their reports are lost (Law 14)

    # ------------------------------------------------------------ starting a job

    async def start_job(
        self, call: ToolCallRequest, command: str, name: str, seconds: float | None
    ) -> SessionJob | ClaimResult:
        """Start the job that a tool call asks for; a repeat of the call starts none.

        Return the job's row, or the refusal. `seconds`: its time limit; None takes the longest that is allowed. Raises
        CallIdReused, UnknownToken.
        """
        limit = self.settings.time_s
        run = f"job-{secrets.token_hex(5)}"
        request = job_calls.JobRequest(run, command, name, limit if seconds is None else seconds, self.gateway)
        limits = job_calls.JobLimits(self.settings.jobs if self.port is not None else 0, self.settings.all)
        self._starting[run] = asyncio.Event()  # set before the row exists, so that a sweep does not report it as lost
        try:
            outcome = await self.record.write(job_calls.request_job, call, request, limits)
            if isinstance(outcome, ClaimResult):
                return outcome
            if outcome.run == run:
                await self._start_process(outcome)
            else:  # a repeat of the call: wait for the outcome of the first
                await self._resumed.wait()
                await self._wait_until_started(outcome.run)
            return await self._find_row(outcome.run)
        finally:
            self._starting.pop(run).set()
            self._sweep_now.set()

    async def _wait_until_started(self, run: str) -> None:
        """If this gateway is starting the job right now, wait until that has succeeded or failed."""
        if (first := self._starting.get(run)) is not None:
            await first.wait()

    async def _start_process(self, row: SessionJob) -> None:
        assert self.port is not None
        job = Job(
            row.run, row.key, row.agent, row.command, row.name, row.seconds, self.settings.output, row.at, row.folder
        )  # fmt: skip
        loop = asyncio.get_running_loop()

        def ended() -> None:
            with contextlib.suppress(RuntimeError):  # the loop of this gateway is closed
                loop.call_soon_threadsafe(self._sweep_now.set)

        try:
            await asyncio.to_thread(self.port.begin, job, ended)
        except CannotBegin as error:
            log.warning("a job could not be started", job=row.run, session=row.key, why=str(error))
            await self.record.write(rows.mark_failed, row.run, str(error))

    # ------------------------------------------------------------ queries

    async def list(
        self, session: int | None = None, limit: int = rows.MAX_JOBS_LISTED, after: str | None = None
    ) -> list[Json]:
        """Return a page of a session's jobs, newest first; if `session` is None, return all unfinished jobs.

        `after`: the id of a job; only older jobs of the session are returned.
        """
        return await self.record.read(rows.list_json, session, limit, after)

    async def show(self, run: str) -> Json:
        """Return one job. Raises NotFound."""
        return rows.job_json(await self._find_row(run))

    async def _find_row(self, run: str) -> SessionJob:
        row = await self.record.read(rows.get, run)
        if row is None:
            raise NotFound(f"there is no job {run!r}")
        return row

    # ------------------------------------------------------------ cancelling a job

    async def cancel(self, run: str, by: str) -> Json:
        """Cancel a job, wait for its end as `end` does, and return its state.

        Raises NotFound, or Conflict if it has ended. `by`: who cancels it.
        """
        if (row := await self._find_row(run)).ended is not None:
            raise Conflict(f"there is nothing to cancel: {format_job(rows.job_json(row), self.clock.now())}")
        row = await self.record.write(rows.cancel, run, by)
        await self.end(row)
        return await self.show(run)

    async def end(self, row: SessionJob) -> None:
        """End a job, and return when it has ended, at the latest after CANCEL_TIMEOUT_S seconds.

        A job of another gateway ends once that one is active again.
        """
        if row.ended is not None or self.port is None or not self._is_ours(row):
            return
        over = asyncio.Event()
        self._end_waiters.setdefault(row.run, set()).add(over)
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT_S):
                await self._wait_until_started(row.run)
                if not await asyncio.to_thread(self.port.cancel, row.run, row.cancelled or DEFAULT_CANCELLER):
                    await self.sweep()
                if (await self._find_row(row.run)).ended is None:
                    await over.wait()
        except TimeoutError:
            log.warning("a job that was cancelled does not end", job=row.run, session=row.key)
        finally:
            self._end_waiters[row.run].discard(over)
            if not self._end_waiters[row.run]:
                del self._end_waiters[row.run]

    def _is_ours(self, row: SessionJob) -> bool:
        return row.gateway is None or row.gateway == self.gateway

    def note_end(self, kind: str, key: str | None) -> None:
        """Wake the callers of `end` if this event reports the end of their job. Call this for each accepted event."""
        if kind in ("exec.finished", "exec.lost"):
            for over in self._end_waiters.get((key or "").removesuffix(f":{kind}"), ()):
                over.set()

    # ------------------------------------------------------------ jobs without a supervisor

    async def run(self) -> None:
        """Sweep when a supervisor exits, and periodically while any job is open, until `stop`."""
        while not self._stopped:
            self._sweep_now.clear()
            try:
                any_open = await self.sweep()
                if not self._resumed.is_set():
                    await self._repeat_cancellations()
            except (LedgerError, GatewayError, OSError) as error:
                log.warning("jobs are looked at later", why=str(error))
                any_open = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_INTERVAL_S if any_open else None):
                    await self._sweep_now.wait()

    async def stop(self) -> None:
        """Stop sweeping after the current sweep. Jobs keep running and report to the next gateway."""
        self._stopped = True
        self._sweep_now.set()

    async def _repeat_cancellations(self) -> None:
        """Cancel again the jobs that an earlier gateway recorded as cancelled: it may have died before they ended."""
        for row in await self.record.read(rows.list_open):
            if row.cancelled is not None and self.port is not None and self._is_ours(row):
                await asyncio.to_thread(self.port.cancel, row.run, row.cancelled)
        self._resumed.set()

    async def sweep(self) -> bool:
        """Report the end of each job that has no supervisor, once. Return whether any job is open afterwards."""
        if self.port is None:
            return False
        rows_open = [
            row
            for row in await self.record.read(rows.list_open)
            if row.run not in self._starting and self._is_ours(row)
        ]
        present = await asyncio.to_thread(self.port.present)
        for orphan in await asyncio.to_thread(self.port.orphans):
            await self._deliver_reports(orphan)
        for row in rows_open:
            if row.run not in present and (await self._find_row(row.run)).ended is None:
                await self._report_unstarted(row)
        return bool(await self.record.read(rows.count_open))

    async def _deliver_reports(self, orphan: Orphan) -> None:
        delivered = 0
        try:
            for body in orphan.reports():
                await self._report(
                    orphan.session, body["kind"], body["text"], key=body["key"], data=body.get("data"),
                    wakes=body.get("wakes"),
                )  # fmt: skip
                delivered += 1
        finally:
            await asyncio.to_thread(orphan.release, delivered)

    async def _report_unstarted(self, row: SessionJob) -> None:
        """Report a job that has a row but no run, because the gateway died before it began one.

        So no command was run. But the command may have run, and the report says so, if the ledger was restored from a
        backup made before the job ended; or if the job had started, so that its files were removed or are elsewhere.
        """
        name, doubtful = f", {row.name}" if row.name else "", row.at <= self.doubtful_until
        text = (
            f"`{row.command}` was not started (background job {row.run}{name}): the gateway ended before it "
            "could start it. Nothing was run."
        )
        if doubtful:
            text = (
                f"It is not known how `{row.command}` ended (background job {row.run}{name}): the ledger was restored "
                "from a copy that was made before it ended. The command may have finished."
            )
        elif row.state == "running":
            text = (
                f"It is not known how `{row.command}` ended (background job {row.run}{name}): it had started, and its "
                "files are not in this gateway's data directory. The command may have finished, or still run."
            )
        await self._report(
            row.key, "exec.lost", text, key=f"{row.run}:exec.lost", data={"run": row.run, "running": False},
            wakes=False if doubtful else None,
        )  # fmt: skip


def format_jobs(jobs: Sequence[Json], now: int) -> str:
    """Return a list of jobs as text for an agent. `now`: in ms since the epoch."""
    return "\n".join(f"- {format_job(job, now)}: {job['command']!r}" for job in jobs) or "no background jobs here"


def format_job(job: Json, now: int) -> str:
    """Return a job and its state in one line. `now`: in ms since the epoch."""
    name = f" ({job['name']})" if job.get("name") else ""
    return f"{job['id']}{name} {describe_state(job, now)}"


def describe_state(job: Json, now: int) -> str:
    """Return a job's state in words: "runs for 12 s, at most 3600 s", "ended with exit code 0", "is lost" ..."""
    by = f", cancelled by {job['cancelled_by']}" if job.get("cancelled_by") else ""
    if job["state"] in ("asked", "running"):
        return f"runs for {max(0, now - job['at']) // 1000} s, at most {job['seconds']:g} s{by}"
    if job["state"] == "failed":
        return f"could not be started: {job['error']}"
    if job["state"] == "lost":
        return f"is lost: its supervisor was killed, or never started it{by}"
    return f"ended with exit code {job.get('exit')}{by}"
