"""Tool calls that ask for a background job: at most one job per call, within limits, while the turn runs.

One transaction judges the call and records the job. The process is started after the commit (Laws 9, 10).
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.law import echo
from semel.ledger.delivery import claims
from semel.ledger.storage.rows import ClaimRow, Row, SessionJob, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import tool_calls


class JobOfCall(Row):
    """The job that a call asked for, and the digest of the call's arguments."""

    run: str
    args: bytes


class EqualJobCall(Row):
    """An earlier tool call for a job, with the same arguments.

    `again`: the id of the call that this earlier call repeated; None if it repeated none.
    """

    id: int
    job: int
    conn: str | None
    tool: str | None
    answered: int
    again: int | None


@dataclass(frozen=True)
class JobRequest:
    """The job that an agent asks for. `run`: the id for a new job. `seconds`: its time limit.

    `gateway`: the name of the gateway that starts it, if several share the ledger.
    """

    run: str
    command: str
    name: str
    seconds: float
    gateway: str | None = None


@dataclass(frozen=True)
class JobLimits:
    """The maximum of open jobs in one session, and in all sessions together."""

    max_per_session: int
    max_all: int


def request_job(
    tx: Tx, call: tool_calls.ToolCallRequest, request: JobRequest, limits: JobLimits
) -> SessionJob | claims.ClaimResult:
    """Return the job for this call, or, if the call is refused, the refusal, which is recorded as a claim.

    The job is new, or the same as before if the call is repeated. Raises CallIdReused, UnknownToken.
    """
    caller = tool_calls.identify_spawn(tx, call.token)
    earlier = tx.one(JobOfCall, "job_by_call", spawn=caller.spawn, call=call.call)
    if earlier is not None:
        if bytes(earlier.args) != call.args:
            raise tool_calls.CallIdReused(
                f"call id {call.call!r} was another call; give each tools/call an id of its own"
            )
        return _get_job(tx, earlier.run)
    action = f"run in background: {request.command}"
    if tx.one(ClaimRow, "claim_by_call", spawn=caller.spawn, call=call.call) is not None:  # the call was refused
        return tool_calls.record_call(tx, call, claims.ClaimRequest("tool", action, None))
    return tool_calls.perform(tx, call, action, lambda tx, who: _add_job(tx, who, call, request, limits, action))


def _add_job(
    tx: Tx,
    caller: tool_calls.CallingSpawn,
    call: tool_calls.ToolCallRequest,
    request: JobRequest,
    limits: JobLimits,
    action: str,
) -> SessionJob | claims.ClaimResult:
    turn = tool_calls.find_turn(tx, caller, call)
    assert turn is not None  # a call without a turn was fenced off
    equal_calls = tx.all(EqualJobCall, "job_calls_equal", spawn=caller.spawn, args=call.args, turn=turn.id)
    earlier = [echo.EarlierCall(r.id, r.conn, r.tool, bool(r.answered), r.again) for r in equal_calls]
    original = echo.find_reissued_call(conn=call.conn, tool=call.tool, earlier=earlier)
    if original is not None:
        job = next(r.job for r in equal_calls if r.id == original)
    else:
        if problem := _explain_lateness(turn) or _limit_problem(tx, caller, limits):
            return tool_calls.record_call(tx, call, claims.ClaimRequest("tool", action, None, problem=problem))
        job = tx.number(
            "job_add", run=request.run, session=caller.session, agent=caller.agent, turn=turn.id,
            command=request.command, name=request.name, seconds=request.seconds, at=tx.now,
            gateway=request.gateway,
        )  # fmt: skip
    tx.run(
        "job_call_add", job=job, spawn=caller.spawn, turn=turn.id, conn=call.conn, call=call.call, tool=call.tool,
        args=call.args, again=original,
    )  # fmt: skip
    row = tx.get(JobOfCall, "job_by_call", spawn=caller.spawn, call=call.call)
    return _get_job(tx, row.run)


def _explain_lateness(turn: TurnRow) -> str:
    """Return why a call comes too late; "" if it does not. A job is only started while its turn runs (Law 9)."""
    return "" if turn.state == "running" else "its turn is over; ask again in the next one, if it is still wanted"


def _limit_problem(tx: Tx, caller: tool_calls.CallingSpawn, limits: JobLimits) -> str:
    if not limits.max_per_session or not limits.max_all:
        return "this gateway runs no commands in the background (jobs = 0 under [background] in its configuration)"
    tx.lock("ledger_lock")
    if (open_jobs := tx.number("jobs_open_of_session", session=caller.session)) >= limits.max_per_session:
        return (
            f"{_job_count(open_jobs)} of this conversation already run in the background, which is the most; wait for "
            "the end of one, or cancel one"
        )
    if (open_jobs := tx.number("jobs_open_count")) >= limits.max_all:
        return (
            f"{_job_count(open_jobs)} already run in the background here, which is the most for all conversations "
            "together; try again when some have ended"
        )
    return ""


def _job_count(n: int) -> str:
    return "1 job" if n == 1 else f"{n} jobs"


def _get_job(tx: Tx, run: str) -> SessionJob:
    return tx.get(SessionJob, "job_get", run=run)
