"""Background jobs as rows: the state of each job, how it ended, and the one event that reported its end.

A job is over in the same transaction that accepts the report of its end. So no view of a job contradicts the
transcript.
"""

from __future__ import annotations

from semel.ledger.storage.rows import SessionJob
from semel.ledger.storage.sql import Tx
from semel.text.json_types import Json
from semel.timing.late_reports import read_end

STATE_BY_REPORT = {"exec.started": "running", "exec.finished": "finished", "exec.lost": "lost"}
"""The state of a job after a report of each kind."""
MAX_JOBS_LISTED = 50  # jobs of a session that are listed


def apply_report(tx: Tx, source: str, kind: str, key: str | None, event: int, data: Json) -> None:
    """Update a job from an accepted event, if the event is a report about it.

    The key of a report is JOB:KIND, and its source is `api:` and the key of the job's session.
    """
    job_run = (key or "").removesuffix(f":{kind}")
    row = tx.one(SessionJob, "job_get", run=job_run) if kind in STATE_BY_REPORT and job_run != key else None
    if row is None or source != f"api:{row.key}":
        return
    if kind == "exec.started":
        tx.run("job_running", run=job_run)
        return
    code = data.get("exit")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    ended = read_end(kind, data)  # the report may come much later, for example after an outage of the gateway
    at = tx.now if ended is None else min(max(ended, row.at), tx.now)
    tx.run("job_over", run=job_run, state=STATE_BY_REPORT[kind], code=code, event=event, at=at)


def is_report_of(tx: Tx, kind: str, key: str | None, session: int) -> bool:
    """Return whether an event is a report about a job of this session."""
    row = tx.one(SessionJob, "job_get", run=(key or "").removesuffix(f":{kind}")) if kind in STATE_BY_REPORT else None
    return row is not None and row.session == session


def list_open_of_session(tx: Tx, session: int) -> list[SessionJob]:
    """Return the jobs of a session whose end has not been reported."""
    return [row for row in list_open(tx) if row.session == session]


def get(tx: Tx, run: str) -> SessionJob | None:
    """Return the job with the id `run`, or None."""
    return tx.one(SessionJob, "job_get", run=run)


def list_open(tx: Tx) -> list[SessionJob]:
    """Return the jobs whose end has not been reported."""
    return tx.all(SessionJob, "jobs_open")


def count_open(tx: Tx) -> int:
    """Return the number of jobs whose end has not been reported."""
    return tx.number("jobs_open_count")


def mark_failed(tx: Tx, run: str, error: str) -> None:
    """Record that a job could not be started, with the reason `error`."""
    tx.run("job_failed", run=run, error=error, at=tx.now)


def cancel(tx: Tx, run: str, by: str) -> SessionJob:
    """Record that `by` cancels an existing job, before the job gets a signal. Return the job's row."""
    tx.run("job_cancel", run=run, by=by)
    return tx.get(SessionJob, "job_get", run=run)


def list_json(tx: Tx, session: int | None = None, limit: int = MAX_JOBS_LISTED, after: str | None = None) -> list[Json]:
    """Return a page of a session's jobs, newest first, as JSON objects. Without a session, return all open jobs.

    `after`: only jobs of the session that are older than the job with this id (`run`); [] if there is no such job.
    """
    if session is None:
        return [job_json(row) for row in list_open(tx)]
    before = 1 << 62
    if after is not None:
        before = known.id if (known := get(tx, after)) is not None else 0
    rows = tx.all(SessionJob, "jobs_of_session", session=session, before=before, limit=limit)
    return [job_json(row) for row in rows]


def job_json(row: SessionJob) -> Json:
    """Return a job as a JSON object. Times are in ms; "seconds" is its time limit."""
    fields: Json = {
        "id": row.run, "session": row.key, "agent": row.agent, "state": row.state, "command": row.command,
        "seconds": row.seconds, "at": row.at,
    }  # fmt: skip
    optional = {
        "name": row.name or None, "turn": row.turn, "cancelled_by": row.cancelled, "exit": row.code,
        "error": row.error, "event": row.event, "ended": row.ended, "gateway": row.gateway,
    }  # fmt: skip
    return {**fields, **{name: value for name, value in optional.items() if value is not None}}
