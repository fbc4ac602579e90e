"""The HTTP operations, by subject. To add a module, add it to MODULES; nothing else is needed."""

from __future__ import annotations

import functools

import msgspec
from starlette.responses import Response

from semel.faces.http.openapi import make_document
from semel.faces.http.operations import (
    ag_ui,
    agents,
    archive,
    channels,
    diagnostics,
    files,
    jobs,
    limits,
    login,
    messages,
    openai_chat,
    outbox,
    people,
    retention,
    schedules,
    sessions,
    stream,
    transcripts,
)
from semel.faces.http.routing import ApiCall, Operation, Returns, Router

router = Router("books")
MODULES = (
    messages, sessions, agents, transcripts, archive, stream, files, outbox, channels, schedules, jobs, limits,
    retention, people, diagnostics, login, openai_chat, ag_ui,
)  # fmt: skip


def operations() -> list[Operation]:
    """Return all documented HTTP operations, in the order of the OpenAPI document."""
    routers = [*(module.router for module in MODULES), router]
    return [operation for module_router in routers for operation in module_router.operations]


@router.route("GET", "/v1/openapi.json", Returns("The document.", dict))
async def openapi(call: ApiCall) -> Response:
    """Read this description of the API."""
    return Response(_document(), media_type="application/json")


@functools.cache
def _document() -> bytes:
    return msgspec.json.encode(make_document(operations()))
