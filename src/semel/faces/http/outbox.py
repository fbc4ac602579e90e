"""Operations: list outgoing parts, and decide about held ones (Law 7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, get_args

from starlette.responses import Response

from semel.faces.http import shapes
from semel.faces.http.table import Answers, Call, Operation, Param, json


async def parts(call: Call) -> Response:
    query = call.query
    return json({"parts": await call.gateway.parts(query["state"], query["limit"], query["before"])})


async def part(call: Call) -> Response:
    return json(await call.gateway.part(call.number("id")))


async def resend(call: Call) -> Response:
    return json(await call.gateway.resend(call.number("id")))


async def arrived(call: Call) -> Response:
    return json(await call.gateway.arrived(call.number("id")))


async def drop(call: Call) -> Response:
    return json(await call.gateway.drop(call.number("id")))


def _verdict(name: str, what: str, handler: Callable[[Call], Awaitable[Response]]) -> Operation:
    answers: dict[int, Answers] = {200: Answers("The part as it is now.", shapes.Part)}
    path = f"/v1/parts/{{id:int}}/{name}"
    return Operation("POST", path, f"{name}Part", what, handler, answers, "outbox", errors=("not-found", "wrong-state"))


_STATES: tuple[str, ...] = get_args(shapes.PartState)
_QUERY: tuple[Param, ...] = (
    Param("state", str, "Only parts in this state.", one_of=_STATES),
    Param("limit", int, "At most so many, newest first.", default=100, most=1000),
    Param("before", int, "Only parts with a smaller id."),
)
_PART: dict[int, Any] = {200: Answers("The part.", shapes.Part)}

OPERATIONS = [
    Operation(
        "GET",
        "/v1/parts",
        "listParts",
        "What leaves for platforms, newest first.",
        parts,
        {200: Answers("The parts.", shapes.Parts)},
        "outbox",
        query=_QUERY,
    ),
    Operation(
        "GET",
        "/v1/parts/{id:int}",
        "readPart",
        "One part.",
        part,
        _PART,
        "outbox",
        errors=("not-found",),
    ),
    _verdict("resend", "Send a held part again, at the tail of its line, marked as a repeat.", resend),
    _verdict("arrived", "A held part did arrive: it is marked sent and not sent again.", arrived),
    _verdict("drop", "Give a held part up.", drop),
]
