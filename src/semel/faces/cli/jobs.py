"""`semel jobs`: list and cancel the commands that agents run in the background."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from semel.faces.cli.app import Config, DataDir, Json, app, ask
from semel.faces.cli.out import as_json, remark, rows, when
from semel.text.shorten import shorten_to_line

LINE_CHARS = 80
BY = "the owner"  # recorded as the person who cancelled the job

jobs = typer.Typer(help="What agents run in the background: list it, cancel it.", no_args_is_help=True)
app.add_typer(jobs, name="jobs")


@jobs.command("list")
def list_(
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="A session's key. Left out: what runs now, in all sessions.")
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List the background jobs of a session, or those that run now."""
    found = ask(config, data_dir, lambda client: client.jobs(session))
    if json:
        as_json(found)
        return
    rows(
        ("JOB", "STATE", "EXIT", "BEGAN", "ENDED", "SESSION", "COMMAND"),
        (
            (
                j["id"],
                j["state"],
                j.get("exit"),
                when(j["at"]),
                when(j.get("ended")),
                j["session"],
                shorten_to_line(_what(j), LINE_CHARS),
            )
            for j in found
        ),
        "no background jobs here",
    )


@jobs.command()
def cancel(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id, as `semel jobs list` tells it.")],
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """End a background job, with everything in its process group."""
    found = ask(config, data_dir, lambda client: client.cancel_job(job, BY))
    if json:
        as_json(found)
    elif "ended" in found:
        how = f" with exit code {found['exit']}" if "exit" in found else ""
        remark(f"{job} has ended{how}; it was cancelled by {found['cancelled_by']}")
    else:
        remark(f"{job} is told to end, and has not ended yet")


def _what(job: dict[str, Any]) -> str:
    return f"{job['name']}: {job['command']}" if job.get("name") else str(job["command"])
