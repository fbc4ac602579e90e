"""Operations: list and cancel background jobs, the commands that agents run in the background."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct
from starlette.responses import Response

from semel.faces.http.operations.messages import OWNER, Stop
from semel.faces.http.routing import (
    ApiCall,
    Cursor,
    Page,
    Param,
    Returns,
    Router,
    SessionKey,
    complete_response,
    json_response,
    page_response,
)

router = Router("jobs")


class Job(Struct, omit_defaults=True):
    """A command that an agent runs in the background. `seconds`: its time limit; `at`, `ended`: milliseconds since
    1970; `event`: the event that reported its end.

    `asked`: it is about to start. `lost`: the process that watched it was killed. `failed`: it could not be started
    (`error`).
    """

    id: str
    session: str
    agent: str
    state: Literal["asked", "running", "finished", "lost", "failed"]
    command: str
    seconds: float
    at: int
    name: str | None = None
    turn: int | None = None
    cancelled_by: str | None = None
    exit: int | None = None
    error: str | None = None
    event: int | None = None
    ended: int | None = None


class Jobs(Page):
    jobs: list[Job]


@router.route("GET", "/v1/jobs", Returns("The jobs.", Jobs))
async def list_jobs(call: ApiCall) -> Response:
    """List all background jobs that are not over."""
    return complete_response("jobs", await call.gateway.jobs_of(None))


@router.route("GET", "/v1/sessions/{key}/jobs", Returns("The jobs.", Jobs), errors=("no-such-session",))
async def list_session_jobs(
    call: ApiCall,
    key: SessionKey,
    limit: Annotated[int, Param("Maximum number of jobs.", minimum=1, maximum=1000)] = 50,
    after: Cursor = None,
) -> Response:
    """List the background jobs of a session, newest first."""
    return page_response("jobs", await call.gateway.jobs_of(key, limit + 1, after), limit, "id")


@router.route(
    "POST",
    "/v1/jobs/{id}/cancel",
    Returns("The job after the cancellation.", Job),
    errors=("not-found", "wrong-state"),
    body_optional=True,
)
async def cancel_job(call: ApiCall, id: Annotated[str, Param("Id of the job.")], body: Stop) -> Response:
    """Cancel a background job with its whole process group. Answers when the job has ended, or after 12 s."""
    return json_response(await call.gateway.jobs.cancel(id, body.by or OWNER))
