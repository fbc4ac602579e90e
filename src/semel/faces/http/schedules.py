"""Operations: list, add, remove, pause and resume schedules."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from semel.faces.http import shapes
from semel.faces.http.table import Answers, Call, Operation, Param, json


async def schedules(call: Call) -> Response:
    return json({"schedules": await call.gateway.schedules.list(call.query["session"])})


async def schedule(call: Call) -> Response:
    return json(await call.gateway.schedules.show(call.path("name")))


async def add(call: Call) -> Response:
    told: shapes.NewSchedule = call.body
    made = await call.gateway.schedules.add(
        told.name, told.text, session=told.session, cron=told.cron, at=told.at, every=told.every, tz=told.tz,
        downtime=told.downtime, replace=told.replace,
    )  # fmt: skip
    return json(made)


async def remove(call: Call) -> Response:
    await call.gateway.schedules.remove(call.path("name"))
    return Response(status_code=204)


async def pause(call: Call) -> Response:
    return json(await call.gateway.schedules.pause(call.path("name")))


async def resume(call: Call) -> Response:
    return json(await call.gateway.schedules.resume(call.path("name")))


_ONE: dict[int, Any] = {200: Answers("The schedule.", shapes.Schedule)}
_PATH = "/v1/schedules/{name}"

OPERATIONS = [
    Operation(
        "GET",
        "/v1/schedules",
        "listSchedules",
        "All schedules, by name, with their next and last firing.",
        schedules,
        {200: Answers("The schedules.", shapes.Schedules)},
        "schedules",
        query=(Param("session", str, "Only those of this session."),),
    ),
    Operation(
        "POST",
        "/v1/schedules",
        "addSchedule",
        "Make a schedule. The same once more changes nothing.",
        add,
        _ONE,
        "schedules",
        body=shapes.NewSchedule,
        errors=("bad-request", "wrong-state"),
    ),
    Operation("GET", _PATH, "readSchedule", "One schedule.", schedule, _ONE, "schedules", errors=("not-found",)),
    Operation(
        "DELETE",
        _PATH,
        "removeSchedule",
        "Remove a schedule that does not come from the configuration. What it fired stays.",
        remove,
        {204: Answers("It is no more.")},
        "schedules",
        errors=("not-found", "wrong-state"),
    ),
    Operation(
        "POST",
        f"{_PATH}/pause",
        "pauseSchedule",
        "Do not fire it until it is resumed.",
        pause,
        _ONE,
        "schedules",
        errors=("not-found",),
    ),
    Operation(
        "POST",
        f"{_PATH}/resume",
        "resumeSchedule",
        "Fire it again, from its next due time on.",
        resume,
        _ONE,
        "schedules",
        errors=("not-found", "wrong-state"),
    ),
]
