"""The part of `semel why` about background jobs: what was asked for, and how far it came."""

from __future__ import annotations

from semel.ledger.admin.explain_part import make_line
from semel.ledger.storage.rows import SessionJob
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import jobs
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line
from semel.timing.durations import format_duration

QUOTED_CHARS = 80


def list_job_lines(tx: Tx, run: str) -> list[Json]:
    """Return the lines of a story about the job with the id `run`; [] if there is none."""
    row = jobs.get(tx, run)
    if row is None:
        return []
    name = f" {row.name!r}" if row.name else ""
    command = repr(shorten_to_line(row.command, QUOTED_CHARS)) if row.command else "its content was removed"
    turn = f", by t{row.turn}" if row.turn is not None else ""
    lines = [make_line(row.at, f"{row.run}: a background job{name} was asked for in {row.key}{turn}: {command}")]
    if row.cancelled is not None:
        lines.append(make_line(row.ended or row.at, f"{row.run}: cancelled by {row.cancelled}"))
    return [*lines, make_line(row.ended or row.at, f"{row.run}: {_describe_state(row)}")]


def _describe_state(row: SessionJob) -> str:
    if row.state == "asked":
        return "it is to be started; no report of its start has come"
    if row.state == "running":
        return f"it was started, and no report of its end has come; it may run for {format_duration(row.seconds)}"
    if row.state == "failed":
        return f"it could not be started{f': {row.error}' if row.error else ''}"
    if row.state == "lost":
        return "it is lost: its supervisor was killed, or never started it"
    return "it ended" if row.code is None else f"it ended with exit code {row.code}"
