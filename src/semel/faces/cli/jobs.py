"""`semel jobs`: list and cancel the commands that agents run in the background."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from semel.faces.cli.app import Config, DataDir, Json, app, ask_gateway
from semel.faces.cli.offline import OfflineLedger, Reader, ask_or_read
from semel.faces.cli.printing import format_time, print_json, print_remark, print_table
from semel.faces.client import quote_segment, session_path
from semel.text.wellformed import shorten_to_line

MAX_JOB_CHARS = 80
MAX_SHOWN_FAILURES = 3  # of the jobs that were not started, the newest

jobs = typer.Typer(help="List and cancel the commands that agents run in the background.", no_args_is_help=True)
app.add_typer(jobs, name="jobs")


@jobs.command("list")
def list_(
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="A session's key. Default: all sessions, running jobs only."),
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List the last 50 background jobs of a session, newest first, or all that run now.

    If no gateway runs, the ledger itself is read.
    """
    job_list = ask_or_read(config, data_dir, partial(_read_jobs, session))
    if json:
        print_json(job_list)
        return
    print_table(
        ("JOB", "STATE", "EXIT", "BEGAN", "ENDED", "SESSION", "COMMAND"),
        (
            (
                job["id"],
                job["state"],
                job.get("exit"),
                format_time(job["at"]),
                format_time(job.get("ended")),
                job["session"],
                shorten_to_line(
                    f"{job['name']}: {job['command']}" if job.get("name") else job["command"], MAX_JOB_CHARS
                ),
            )
            for job in job_list
        ),
        f"no background jobs in {session}" if session else "no background job runs now",
        wrapped_columns=("JOB",),
    )
    failed = [job for job in job_list if job.get("error")]
    for job in failed[:MAX_SHOWN_FAILURES]:
        print_remark(f"{job['id']} was not started: {job['error']}")
    if len(failed) > MAX_SHOWN_FAILURES:
        print_remark(f"{len(failed) - MAX_SHOWN_FAILURES} more were not started: semel why JOB says why")


async def _read_jobs(session: str | None, reader: Reader) -> list[dict[str, Any]]:
    if isinstance(reader, OfflineLedger):
        return await reader.list_jobs(session)
    path = f"{session_path(session)}/jobs" if session else "/v1/jobs"
    job_list: list[dict[str, Any]] = (await reader.get(path))["jobs"]
    return job_list


@jobs.command()
def cancel(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id, as `semel jobs list` prints it.")],
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """End a background job with its whole process group."""
    job_state = ask_gateway(config, data_dir, lambda client: client.post(f"/v1/jobs/{quote_segment(job)}/cancel", {}))
    if json:
        print_json(job_state)
    elif "ended" in job_state:
        exit_code = f" with exit code {job_state['exit']}" if "exit" in job_state else ""
        print_remark(f"{job} has ended{exit_code}; it was cancelled by {job_state['cancelled_by']}")
    else:
        print_remark(f"{job} was told to end, and has not ended yet")
