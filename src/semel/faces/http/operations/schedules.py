"""Operations: list, add, remove, pause, resume and run schedules."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct
from starlette.responses import Response

from semel.faces.http.operations.messages import IDEMPOTENCY_KEY, read_event_key
from semel.faces.http.routing import (
    ApiCall,
    Page,
    Param,
    RequestBody,
    Returns,
    Router,
    complete_response,
    json_response,
)
from semel.ledger.inbound.schedules import default_session_key

router = Router("schedules")


class NewSchedule(RequestBody):
    """Exactly one of `cron`, `at` and `every` is needed. `session`: default: a session of its own, `schedule:NAME`.
    `downtime`: `skip`, `once` or `all` of the firings that were missed while the gateway was down. `replace`: replace
    an existing schedule of this name. `paused`: a new schedule does not fire until it is resumed.
    """

    name: str
    text: str
    session: str | None = None
    cron: str | None = None
    at: str | None = None
    every: str | None = None
    tz: str = "UTC"
    downtime: str = "once"
    replace: bool = False
    paused: bool = False


class Firing(Struct, omit_defaults=True):
    """The last firing: when it was due and when it ran (milliseconds since 1970), its event, and the turn that took the
    event. `by`: who ran it, if it was not due by itself.
    """

    due: int
    ran: int
    event: int
    turn: int | None
    state: str
    by: str | None = None


class Schedule(Struct, omit_defaults=True):
    """`next`: the next firing in milliseconds since 1970, null if the schedule is paused, over or not configured.
    `home`: where the answers go, like `telegram:7`; `web:...` is the page and the terminal, null the session's
    transcript alone. `error`: why the gateway paused it. `unconfigured`: `semel.toml` named it earlier and does not any
    more; it does not fire until it is named again.
    """

    name: str
    session: str
    text: str
    tz: str
    downtime: Literal["skip", "once", "all"]
    source: Literal["config", "api", "agent"]
    enabled: bool
    next: int | None
    last: Firing | None
    home: str | None = None
    cron: str | None = None
    at: str | None = None
    every: str | None = None
    error: str | None = None
    unconfigured: bool = False


class MadeSchedule(Schedule, omit_defaults=True):
    """`note`: what its maker should know: no agent has the name with which the key of `session` begins."""

    note: str | None = None


class Schedules(Page):
    schedules: list[Schedule]


Name = Annotated[str, Param("Name of the schedule.")]
THE_SCHEDULE = Returns("The schedule.", Schedule)


@router.route("GET", "/v1/schedules", Returns("The schedules.", Schedules))
async def list_schedules(
    call: ApiCall, session: Annotated[str | None, Param("Only schedules of this session.")] = None
) -> Response:
    """List all schedules by name, with their next and last firing."""
    return complete_response("schedules", await call.gateway.schedules.list(session))


@router.route("POST", "/v1/schedules", Returns("The schedule.", MadeSchedule), errors=("wrong-state",))
async def add_schedule(call: ApiCall, body: NewSchedule) -> Response:
    """Create a schedule. Repeating the request changes nothing."""
    schedule = await call.gateway.schedules.add(
        body.name, body.text, session=body.session, cron=body.cron, at=body.at, every=body.every, tz=body.tz,
        downtime=body.downtime, replace=body.replace, paused=body.paused,
    )  # fmt: skip
    is_own = body.session in (None, default_session_key(body.name))
    note = None if is_own else await call.gateway.explain_default_agent(schedule["session"])
    return json_response(schedule | ({"note": note} if note else {}))


@router.route("GET", "/v1/schedules/{name}", THE_SCHEDULE, errors=("not-found",))
async def read_schedule(call: ApiCall, name: Name) -> Response:
    """Read one schedule."""
    return json_response(await call.gateway.schedules.show(name))


@router.route(
    "DELETE",
    "/v1/schedules/{name}",
    Returns("It was removed.", status=204),
    errors=("not-found", "wrong-state"),
)
async def remove_schedule(call: ApiCall, name: Name) -> Response:
    """Remove a schedule that the configuration does not name (any more). Its past events stay."""
    await call.gateway.schedules.remove(name)
    return Response(status_code=204)


@router.route("POST", "/v1/schedules/{name}/pause", THE_SCHEDULE, errors=("not-found",))
async def pause_schedule(call: ApiCall, name: Name) -> Response:
    """Pause a schedule until it is resumed."""
    return json_response(await call.gateway.schedules.pause(name))


@router.route("POST", "/v1/schedules/{name}/resume", THE_SCHEDULE, errors=("not-found", "wrong-state"))
async def resume_schedule(call: ApiCall, name: Name) -> Response:
    """Resume a schedule. It fires next at its next due time."""
    return json_response(await call.gateway.schedules.resume(name))


@router.route(
    "POST",
    "/v1/schedules/{name}/run",
    THE_SCHEDULE,
    headers=(IDEMPOTENCY_KEY,),
    errors=("not-found", "two-keys", "wrong-state"),
)
async def run_schedule(call: ApiCall, name: Name) -> Response:
    """Fire a schedule now, once, even if it is paused or over. Its next due time stays. Each request is a firing of its
    own; with an Idempotency-Key, a repeat fires nothing.
    """
    return json_response(await call.gateway.schedules.run_now(name, read_event_key(call)))
