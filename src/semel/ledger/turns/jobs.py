"""Background jobs as rows: what runs, how it ended, and the one event that reported its end.

A job is over in the transaction that accepts the report of its end, so no view of it contradicts the transcript.
"""

from __future__ import annotations

from typing import Any

from semel.ledger.storage.sql import Row, Tx

Json = dict[str, Any]

KINDS = {"exec.started": "running", "exec.finished": "finished", "exec.lost": "lost"}
"""The state of a job after a report of each kind."""
MAX_JOBS_LISTED = 50  # jobs of a session that are listed


def heard(tx: Tx, source: str, kind: str, key: str | None, event: int, data: Json) -> None:
    """Apply an accepted event if it is the report of a job: its key is JOB:KIND, and its source is the job's
    session."""
    run = (key or "").removesuffix(f":{kind}")
    row = tx.one("job_get", run=run) if kind in KINDS and run != key else None
    if row is None or source != f"api:{row.key}":
        return
    if kind == "exec.started":
        tx.run("job_running", run=run)
        return
    code = data.get("exit")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    tx.run("job_over", run=run, state=KINDS[kind], code=code, event=event, at=tx.now)


def reports(tx: Tx, kind: str, key: str | None, session: int) -> bool:
    """Whether an event is a report about a job of this session."""
    row = tx.one("job_get", run=(key or "").removesuffix(f":{kind}")) if kind in KINDS else None
    return row is not None and row.session == session


def of_session(tx: Tx, session: int) -> list[Row]:
    """The jobs of a session that are not over."""
    return [row for row in not_over(tx) if row.session == session]


def get(tx: Tx, run: str) -> Row | None:
    """One job."""
    return tx.one("job_get", run=run)


def not_over(tx: Tx) -> list[Row]:
    """The jobs whose end has not been reported."""
    return tx.all("jobs_open")


def count(tx: Tx) -> int:
    """The number of jobs whose end has not been reported."""
    return int(tx.value("jobs_open_count"))


def failed(tx: Tx, run: str, why: str) -> None:
    """Record that a job could not be started."""
    tx.run("job_failed", run=run, error=why, at=tx.now)


def cancel(tx: Tx, run: str, by: str) -> Row:
    """Record who cancels an existing job, before the signal is sent. Returns the job's row."""
    tx.run("job_cancel", run=run, by=by)
    row = tx.one("job_get", run=run)
    assert row is not None
    return row


def listed(tx: Tx, session: int | None = None) -> list[Json]:
    """The jobs of a session, newest first, or all that are not over, as JSON objects."""
    if session is None:
        return [shown(row) for row in not_over(tx)]
    return [shown(row) for row in tx.all("jobs_of_session", session=session, limit=MAX_JOBS_LISTED)]


def shown(row: Row) -> Json:
    """A job as a JSON object; times in ms, `seconds` is its time limit."""
    out: Json = {
        "id": row.run, "session": row.key, "agent": row.agent, "state": row.state, "command": row.command,
        "seconds": row.seconds, "at": row.at,
    }  # fmt: skip
    more = {
        "name": row.name or None, "turn": row.turn, "cancelled_by": row.cancelled, "exit": row.code,
        "error": row.error, "event": row.event, "ended": row.ended,
    }  # fmt: skip
    return {**out, **{name: value for name, value in more.items() if value is not None}}
