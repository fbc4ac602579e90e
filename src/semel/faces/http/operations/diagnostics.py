"""Operations: trace an event, run the books, and read status, metrics and health of the gateway."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Struct
from starlette.responses import Response

from semel.faces.http.problems import Problem
from semel.faces.http.routing import ApiCall, Param, Returns, Router, json_response
from semel.faces.http.security import Access
from semel.faces.http.status_types import Gateways, Needs, Status, Story
from semel.gateway.metrics import METRICS, metric_name, metric_type

router = Router("books")


class Book(Struct):
    """One conservation law, described by `what`. `rows` are the rows that violate it."""

    name: str
    ok: bool
    rows: list[Any]
    what: str


class Doctor(Struct):
    ok: bool
    books: list[Book]
    ledger: dict[str, Any]


class Health(Struct):
    ok: bool


@router.route("GET", "/v1/why/{ref:path}", Returns("The story.", Story), errors=("not-found",))
async def why(
    call: ApiCall,
    ref: Annotated[
        str,
        Param(
            "Id of an event (e1), claim, part, turn, entry, job or run, an event's key, a platform's message id, or "
            "a schedule's name."
        ),
    ],
) -> Response:
    """Tell the story of one event, claim, part, turn, entry or platform message."""
    return json_response(await call.gateway.why(ref))


@router.route("GET", "/v1/doctor", Returns("Each law, and the rows that violate it.", Doctor))
async def doctor(call: ApiCall) -> Response:
    """Check every conservation law with a query over the live ledger."""
    return json_response(await call.gateway.doctor())


@router.route("GET", "/v1/status", Returns("What an operator looks at.", Status))
async def status(call: ApiCall) -> Response:
    """Version, uptime, agents, turns, sessions that need someone, channels, parts, disk, last backup and books."""
    return json_response(await call.gateway.overview())


@router.route("GET", "/v1/needs", Returns("What needs somebody.", Needs))
async def list_needs(call: ApiCall) -> Response:
    """What needs somebody, over all sessions: open requests and questions, failed turns, held parts, used up limits."""
    return json_response({"needs": await call.gateway.needs()})


@router.route("GET", "/v1/gateways", Returns("Who lives, and who is missed.", Gateways))
async def gateways(call: ApiCall) -> Response:
    """The gateways of the cluster. Any of them answers this from the ledger, also while the active one does not."""
    return json_response(await call.gateway.gateways())


@router.route(
    "GET", "/healthz", Returns("Both answer.", Health), tag="doors", errors=("unavailable",), access=Access.OPEN
)
async def health(call: ApiCall) -> Response:
    """Whether the gateway and its ledger answer."""
    try:
        async with asyncio.timeout(5):
            await call.gateway.status()
    except TimeoutError:
        raise Problem("unavailable", "The ledger does not answer.", headers={"Retry-After": "5"}) from None
    return json_response(Health(True))


@router.route(
    "GET",
    "/readyz",
    Returns("Messages are accepted.", Health),
    tag="doors",
    errors=("unavailable",),
    access=Access.OPEN,
)
async def ready(call: ApiCall) -> Response:
    """Whether the gateway accepts messages, which needs a ledger that takes writes; a problem says why not."""
    problem = await call.gateway.find_problem()
    if problem is not None:
        raise Problem("unavailable", problem, headers={"Retry-After": "5"})
    return json_response(Health(True))


@router.route("GET", "/metrics", Returns("The metrics.", str, "text/plain"), tag="doors")
async def metrics(call: ApiCall) -> Response:
    """Read the metrics as Prometheus text."""
    values = await call.gateway.metrics()
    return Response(render_metrics(values), media_type="text/plain; version=0.0.4; charset=utf-8")


def render_metrics(values: dict[str, float]) -> str:
    """Return metrics in Prometheus text format 0.0.4. Keys: `name{label="value"}`, with a name of `METRICS`."""
    lines: list[str] = []
    seen: set[str] = set()
    for key in sorted(values):
        name = metric_name(key)
        if name not in seen:
            seen.add(name)
            lines += [f"# HELP {name} {METRICS[name].help}", f"# TYPE {name} {metric_type(name)}"]
        lines.append(f"{key} {_format_number(values[key])}")
    return "\n".join(lines) + "\n"


def _format_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
