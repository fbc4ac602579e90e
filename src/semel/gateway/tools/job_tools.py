"""The agent tools for background jobs: run_in_background, list_background, cancel_background."""

from __future__ import annotations

from semel.gateway.errors import BadRequest
from semel.gateway.ports import BY_AGENT
from semel.gateway.tools.jobs import JobManager, describe_state, format_job, format_jobs
from semel.gateway.tools.tool_calls import SilentTool, ToolRequest, make_refusal
from semel.ledger.delivery.claims import ClaimResult
from semel.ledger.storage.rows import SessionJob
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import jobs as rows
from semel.ledger.turns import tool_calls
from semel.text.json_types import Json
from semel.timing.durations import parse_duration

MAX_COMMAND_BYTES = 100_000  # bytes; kernels limit one argument to little more
MAX_JOB_NAME_CHARS = 80  # characters


def make_job_tools(jobs: JobManager) -> dict[str, SilentTool]:
    """Return the handlers of the job tools, by tool name, for `ToolCallHandler`."""
    handlers = _JobTools(jobs)
    return {"run_in_background": handlers.begin, "list_background": handlers.list, "cancel_background": handlers.cancel}


class _JobTools:
    """The handlers of the job tools. An agent sees and cancels only the jobs of its own session."""

    def __init__(self, jobs: JobManager) -> None:
        self.jobs = jobs
        self.clock = jobs.clock

    async def begin(self, call: ToolRequest) -> Json:
        command = call.text("command")
        name = " ".join(str(call.arguments.get("name") or "").split())[:MAX_JOB_NAME_CHARS]
        timeout = call.arguments.get("timeout")
        try:
            _check_command(command, call)
            time_limit = None if timeout is None else parse_timeout(str(timeout), self.jobs.settings.time_s)
        except ValueError as error:
            return make_refusal(f"{error}. Nothing was started.")
        try:
            outcome = await self.jobs.start_job(call.row, command, name, time_limit)
        except tool_calls.CallIdReused as error:
            raise BadRequest(str(error)) from None
        if isinstance(outcome, ClaimResult):
            return make_refusal(f"{outcome.reason}. Nothing was started.")
        return self._describe_begun(outcome)

    def _describe_begun(self, row: SessionJob) -> Json:
        job = rows.job_json(row)
        if row.state == "failed":
            return {"ok": False, "text": f"not started: {row.error}. Nothing runs.", "data": job}
        if row.ended is not None:  # a repeat of the call after the job ended
            text = f"started before as {row.run}, and over: it {describe_state(job, self.clock.now())}."
            return {"ok": True, "text": text, "data": job}
        text = (
            f"started in the background as {row.run}; it may run for {row.seconds:g} s. When it has ended you are told "
            "by an event, with its exit code and the end of its output. Do not wait for it, and do not start it again."
        )
        return {"ok": True, "text": text, "data": job}

    async def list(self, call: ToolRequest) -> Json:
        jobs = await self.jobs.list(call.caller.session)
        return {"ok": True, "text": format_jobs(jobs, self.clock.now()), "data": {"jobs": jobs}}

    async def cancel(self, call: ToolRequest) -> Json:
        run = call.text("id").strip()
        outcome = await self.jobs.record.write(
            tool_calls.perform, call.row, f"cancel background job {run}", lambda tx, who: _cancel_job(tx, who, run)
        )
        if isinstance(outcome, ClaimResult):
            return make_refusal(f"{outcome.reason}. Nothing was cancelled.")
        if outcome is None:
            return make_refusal(f"there is no background job {run!r} in this conversation. Nothing was cancelled.")
        before, row = outcome
        now_ms = self.clock.now()
        if before.ended is not None:
            text = f"nothing to cancel: {format_job(rows.job_json(before), now_ms)}."
            return {"ok": True, "text": text, "data": rows.job_json(before)}
        await self.jobs.end(row)
        job = await self.jobs.show(run)
        earlier = f"; {before.cancelled} had cancelled it before" if before.cancelled else ""
        if job["state"] in ("asked", "running"):
            text = f"cancelled, but it has not ended yet: {format_job(job, now_ms)}{earlier}. You are told when it has."
        else:
            text = f"{format_job(job, now_ms)}{earlier}."
        return {"ok": True, "text": text, "data": job}


def _cancel_job(tx: Tx, caller: tool_calls.CallingSpawn, run: str) -> tuple[SessionJob, SessionJob] | None:
    """Record the cancellation of a job. Return its row before and after; None if the session has no such job."""
    before = rows.get(tx, run)
    if before is None or before.session != caller.session:
        return None
    return before, rows.cancel(tx, run, BY_AGENT)


def parse_timeout(text: str, max_s: float) -> float:
    """Parse a time limit like "90", "90s", "10m" or "2h" into seconds. Raises ValueError.

    The message of the error says which values are allowed. `max_s`: the longest time limit, in seconds.
    """
    value = parse_duration(text)
    if not value:
        raise ValueError(f"timeout: {text[:40]!r} is not a duration: write seconds, or like '90s', '10m', '2h'")
    if value > max_s:
        raise ValueError(f"timeout: {text[:40]!r} is longer than a job may run here, {max_s:g} s")
    return value


def _check_command(command: str, call: ToolRequest) -> None:
    """Raise ValueError if the command cannot be run, or if the agent may run no commands."""
    if "\0" in command:
        raise ValueError("command: it holds a zero byte, which no shell can read")
    if len(command.encode("utf-8", "replace")) > MAX_COMMAND_BYTES:
        raise ValueError(f"command: at most {MAX_COMMAND_BYTES:,} bytes; write a longer one into a file, and run that")
    if call.agent.permissions == "deny":
        raise ValueError('this agent is allowed nothing that needs a permission (permissions = "deny")')
