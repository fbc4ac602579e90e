"""The ASGI application: all operations, the web page and the middleware."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response

from semel.faces.http import (
    archive,
    channels,
    doors,
    jobs,
    openapi,
    outbox,
    people,
    read,
    schedules,
    sessions,
    sse,
    static,
    talk,
)
from semel.faces.http.facade import GatewayFacade
from semel.faces.http.problems import CatchAll, Problem, respond
from semel.faces.http.security import SecurityHeaders
from semel.faces.http.settings import Settings
from semel.faces.http.table import Answers, Call, Operation, routes
from semel.gateway.errors import GatewayError
from semel.gateway.ports import AgentError
from semel.ledger.storage.errors import LedgerError


def operations() -> list[Operation]:
    """All documented HTTP operations, in the order of the OpenAPI document."""
    listed = [
        *talk.OPERATIONS,
        *sessions.OPERATIONS,
        *read.OPERATIONS,
        *archive.OPERATIONS,
        *sse.OPERATIONS,
        *outbox.OPERATIONS,
        *channels.OPERATIONS,
        *schedules.OPERATIONS,
        *jobs.OPERATIONS,
        *people.OPERATIONS,
        *doors.OPERATIONS,
    ]
    return [*listed, _document_operation(listed)]


def _document_operation(listed: list[Operation]) -> Operation:
    answers = {200: Answers("The document.", dict)}

    async def document(call: Call) -> Response:
        return Response(body, media_type="application/json")

    itself = Operation("GET", "/v1/openapi.json", "openapi", "This description of the API.", document, answers, "books")
    body = msgspec.json.encode(openapi.document([*listed, itself]))
    return itself


def make_app(gateway: GatewayFacade, settings: Settings) -> Starlette:
    """Build the ASGI application for a gateway. Setting `app.state.stopping` ends its open streams."""
    table = [*operations(), *static.operations()]
    handlers = dict.fromkeys((Problem, GatewayError, AgentError, LedgerError, HTTPException), respond)
    app = Starlette(
        routes=routes(table, gateway, settings),
        middleware=[Middleware(SecurityHeaders), Middleware(CatchAll)],
        exception_handlers=handlers,
    )
    app.router.redirect_slashes = False
    app.state.stopping = asyncio.Event()
    return app
