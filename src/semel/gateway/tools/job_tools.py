"""The agent tools for background jobs: run_in_background, list_background, cancel_background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from semel.gateway.ports import BY_AGENT
from semel.gateway.tools.jobs import Jobs, line, lines, state
from semel.gateway.tools.rpc import RpcError
from semel.gateway.tools.tool_calls import Asked
from semel.ledger.delivery.claims import Made
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.turns import jobs as rows
from semel.ledger.turns import tool_calls
from semel.timing.durations import parse_duration

Json = dict[str, Any]
COMMAND_LIMIT = 100_000  # bytes; kernels limit one argument to little more
NAME_LIMIT = 80  # characters


def tools(jobs: Jobs) -> dict[str, Callable[[Asked], Awaitable[Json]]]:
    """The handlers by tool name, for `ToolCalls.acts`."""
    mine = _JobTools(jobs)
    return {"run_in_background": mine.begin, "list_background": mine.list, "cancel_background": mine.cancel}


class _JobTools:
    """The handlers. An agent sees and cancels only the jobs of its own session."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self.clock = jobs.clock

    async def begin(self, asked: Asked) -> Json:
        command = _text(asked, "command")
        name = " ".join(str(asked.arguments.get("name") or "").split())[:NAME_LIMIT]
        timeout = asked.arguments.get("timeout")
        try:
            _check(command, asked)
            within = None if timeout is None else seconds(str(timeout), self.jobs.settings.time_s)
        except ValueError as no:
            return _refused(f"{no}. Nothing was started.")
        try:
            made = await self.jobs.ask(asked.call, command, name, within)
        except tool_calls.SameIdOtherCall as bad:
            raise RpcError("bad-call", str(bad)) from None
        if isinstance(made, Made):
            return _refused(f"{made.reason}. Nothing was started.")
        return self._begun(made)

    def _begun(self, row: Row) -> Json:
        job = rows.shown(row)
        if row.state == "failed":
            return {"ok": False, "text": f"not started: {row.error}. Nothing runs.", "data": job}
        if row.ended is not None:  # a repeat of the call after the job ended
            text = f"started before as {row.run}, and over: it {state(job, self.clock.now())}."
            return {"ok": True, "text": text, "data": job}
        text = (
            f"started in the background as {row.run}; it may run for {row.seconds:g} s. When it has ended you are told "
            "by an event, with its exit code and the end of its output. Do not wait for it, and do not start it again."
        )
        return {"ok": True, "text": text, "data": job}

    async def list(self, asked: Asked) -> Json:
        found = await self.jobs.list(asked.who.session)
        return {"ok": True, "text": lines(found, self.clock.now()), "data": {"jobs": found}}

    async def cancel(self, asked: Asked) -> Json:
        run = _text(asked, "id").strip()
        deed = await self.jobs.record.write(
            tool_calls.act, asked.call, f"cancel background job {run}", lambda tx, who: _cancel(tx, who, run)
        )
        if isinstance(deed, Made):
            return _refused(f"{deed.reason}. Nothing was cancelled.")
        if deed is None:
            return _refused(f"there is no background job {run!r} in this conversation. Nothing was cancelled.")
        before, row = deed
        now = self.clock.now()
        if before.ended is not None:
            text = f"nothing to cancel: {line(rows.shown(before), now)}."
            return {"ok": True, "text": text, "data": rows.shown(before)}
        await self.jobs.end(row)
        job = await self.jobs.show(run)
        again = f"; {before.cancelled} had cancelled it before" if before.cancelled else ""
        if job["state"] in ("asked", "running"):
            text = f"cancelled, but it has not ended yet: {line(job, now)}{again}. You are told when it has."
        else:
            text = f"{line(job, now)}{again}."
        return {"ok": True, "text": text, "data": job}


def _cancel(tx: Tx, who: tool_calls.Spawned, run: str) -> tuple[Row, Row] | None:
    """The job's row before and after the cancellation; None if this session has no such job."""
    before = rows.get(tx, run)
    if before is None or before.session != who.session:
        return None
    return before, rows.cancel(tx, run, BY_AGENT)


def seconds(told: str, most: float) -> float:
    """Parse a duration: "90", "90s", "10m", "2h". Raises ValueError, whose message says what is allowed."""
    value = parse_duration(told)
    if not value:
        raise ValueError(f"timeout: {told[:40]!r} is no time: write seconds, or like '90s', '10m', '2h'")
    if value > most:
        raise ValueError(f"timeout: {told[:40]!r} is longer than a job may run here, {most:g} s")
    return value


def _check(command: str, asked: Asked) -> None:
    """Raise ValueError for a command that is never run, or an agent that may run none."""
    if "\0" in command:
        raise ValueError("command: it holds a zero byte, which no shell can read")
    if len(command.encode("utf-8", "replace")) > COMMAND_LIMIT:
        raise ValueError(f"command: at most {COMMAND_LIMIT:,} bytes; write a longer one into a file, and run that")
    if asked.agent.permissions == "deny":
        raise ValueError('this agent is allowed nothing that needs a permission (permissions = "deny")')


def _text(asked: Asked, name: str) -> str:
    value = asked.arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RpcError("bad-call", f"{name!r} must be a text that is not empty")
    return value


def _refused(why: str) -> Json:
    return {"ok": False, "text": f"refused: {why}", "data": {"outcome": "refused", "reason": why}}
