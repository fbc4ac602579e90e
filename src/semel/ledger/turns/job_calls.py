"""Tool calls that ask for a background job: at most one job per call, within limits, while the turn runs.

One transaction judges the call and records the job; the process is started after the commit (Laws 9, 10).
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.law import echo
from semel.ledger.delivery import claims
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.turns import tool_calls


@dataclass(frozen=True)
class JobRequest:
    """A job that an agent asks for. `run` is the id that it gets if it is new."""

    run: str
    command: str
    name: str
    seconds: float


@dataclass(frozen=True)
class Limits:
    """How many jobs may be open: in one session, and in all together."""

    session: int
    all: int


def ask(tx: Tx, made: tool_calls.Call, wanted: JobRequest, limits: Limits) -> Row | claims.Made:
    """The job of this call, however often the call is repeated; or the recorded refusal."""
    who = tool_calls.spawned(tx, made.token)
    before = tx.one("job_by_call", spawn=who.spawn, call=made.call)
    if before is not None:
        if bytes(before.args) != made.args:
            raise tool_calls.SameIdOtherCall(
                f"call id {made.call!r} names another call; mint a new id for each tools/call"
            )
        return _job(tx, before.run)
    what = f"run in background: {wanted.command}"
    if tx.one("claim_by_call", spawn=who.spawn, call=made.call) is not None:  # it was refused
        return tool_calls.call(tx, made, claims.Say("tool", what, None))
    return tool_calls.act(tx, made, what, lambda tx, who: _begin(tx, who, made, wanted, limits, what))


def _begin(
    tx: Tx, who: tool_calls.Spawned, made: tool_calls.Call, wanted: JobRequest, limits: Limits, what: str
) -> Row | claims.Made:
    turn = tool_calls.turn_of(tx, who, made)
    assert turn is not None  # a call without a turn was fenced off
    known = tx.all("job_calls_equal", spawn=who.spawn, args=made.args, turn=turn.id)
    earlier = [echo.EarlierCall(r.id, r.conn, r.tool, bool(r.answered), r.again) for r in known]
    first = echo.reissue_of(conn=made.conn, tool=made.tool, earlier=earlier)
    if first is not None:
        job = next(r.job for r in known if r.id == first)
    else:
        if problem := _late(turn) or _too_many(tx, who, limits):
            return tool_calls.call(tx, made, claims.Say("tool", what, None, problem=problem))
        job = tx.value(
            "job_add", run=wanted.run, session=who.session, agent=who.agent, turn=turn.id, command=wanted.command,
            name=wanted.name, seconds=wanted.seconds, at=tx.now,
        )  # fmt: skip
    tx.run(
        "job_call_add", job=job, spawn=who.spawn, turn=turn.id, conn=made.conn, call=made.call, tool=made.tool,
        args=made.args, again=first,
    )  # fmt: skip
    row = tx.one("job_by_call", spawn=who.spawn, call=made.call)
    assert row is not None
    return _job(tx, row.run)


def _late(turn: Row) -> str:
    """Why a call came too late, "" if it did not: a job is only started while its turn runs (Law 9)."""
    return "" if turn.state == "running" else "its turn is over; ask again in the next one, if it is still wanted"


def _too_many(tx: Tx, who: tool_calls.Spawned, limits: Limits) -> str:
    if not limits.session or not limits.all:
        return "this gateway runs no commands in the background (jobs = 0 under [background] in its configuration)"
    if (n := int(tx.value("jobs_open_of_session", session=who.session))) >= limits.session:
        return (
            f"{_jobs(n)} of this conversation already run in the background, which is the most; wait for the end "
            "of one, or cancel one"
        )
    if (n := int(tx.value("jobs_open_count"))) >= limits.all:
        return (
            f"{_jobs(n)} already run in the background here, which is the most for all conversations together; try "
            "again when some have ended"
        )
    return ""


def _jobs(n: int) -> str:
    return "1 job" if n == 1 else f"{n} jobs"


def _job(tx: Tx, run: str) -> Row:
    row = tx.one("job_get", run=run)
    assert row is not None
    return row
