"""Operations: list and cancel background jobs, the commands that agents run in the background."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from semel.faces.http import shapes
from semel.faces.http.table import Answers, Call, Operation, json


async def running(call: Call) -> Response:
    return json({"jobs": await call.gateway.jobs_of(None)})


async def of_session(call: Call) -> Response:
    return json({"jobs": await call.gateway.jobs_of(call.session)})


async def cancel(call: Call) -> Response:
    told: shapes.Stop = call.body
    return json(await call.gateway.cancel_job(call.path("id"), told.by or "a person"))


_JOBS: dict[int, Any] = {200: Answers("The jobs.", shapes.Jobs)}

OPERATIONS = [
    Operation(
        "GET", "/v1/jobs", "listJobs", "The background jobs of all sessions that are not over.", running, _JOBS, "jobs"
    ),
    Operation(
        "GET",
        "/v1/sessions/{key}/jobs",
        "listSessionJobs",
        "The background jobs of a session, newest first; the last 50.",
        of_session,
        _JOBS,
        "jobs",
        errors=("no-such-session",),
    ),
    Operation(
        "POST",
        "/v1/jobs/{id}/cancel",
        "cancelJob",
        "End a background job, its whole process group. Answers when it has ended, or after 12 s.",
        cancel,
        {200: Answers("The job as it is then.", shapes.Job)},
        "jobs",
        body=shapes.Stop,
        body_optional=True,
        errors=("not-found", "wrong-state"),
    ),
]
