"""Operations: list sessions; rename, archive or delete one; start a new chapter."""

from __future__ import annotations

from msgspec import UNSET
from starlette.responses import Response

from semel.faces.http import shapes
from semel.faces.http.table import Answers, Call, Operation, Param, json
from semel.faces.http.talk import HEARD, IDEMPOTENCY, OWNER, event_key, heard


async def sessions(call: Call) -> Response:
    limit = call.query["limit"]
    found = await call.gateway.sessions(call.query["archived"], call.query["before"], limit + 1)
    return json({"sessions": found[:limit], **({"more": True} if len(found) > limit else {})})


async def session(call: Call) -> Response:
    return json(await call.gateway.session(call.session))


async def change(call: Call) -> Response:
    body: shapes.SessionChange = call.body
    await call.gateway.session(call.session)
    if body.title is not UNSET:
        await call.gateway.rename(call.session, body.title)
    if body.archived is not UNSET:
        await call.gateway.archive(call.session, body.archived)
    return json(await call.gateway.session(call.session))


async def delete(call: Call) -> Response:
    await call.gateway.delete(call.session)
    return Response(status_code=204)


async def chapter(call: Call) -> Response:
    body: shapes.Chapter = call.body
    key = event_key(call, body.id, "id")
    return heard(await call.gateway.new_chapter(call.session, body.by or OWNER, key))


_SESSION = "/v1/sessions/{key}"
_ONE = {200: Answers("The session.", shapes.SessionRow)}

OPERATIONS = [
    Operation(
        "GET",
        "/v1/sessions",
        "listSessions",
        "The sessions in use, newest first, with their state and the beginning of their last text.",
        sessions,
        {200: Answers("The sessions.", shapes.Sessions)},
        "sessions",
        query=(
            Param("archived", bool, "1: those that were put away, instead.", default=False),
            Param("before", str, "A session's key: only those made before it, the next page."),
            Param("limit", int, "At most so many.", default=200, most=1000),
        ),
        errors=("no-such-session",),
    ),
    Operation("GET", _SESSION, "readSession", "One session.", session, _ONE, "sessions", errors=("no-such-session",)),
    Operation(
        "PATCH",
        _SESSION,
        "changeSession",
        "Give it a title (null: the agent's), or put it away, or bring it back.",
        change,
        _ONE,
        "sessions",
        body=shapes.SessionChange,
        errors=("no-such-session", "bad-request"),
    ),
    Operation(
        "DELETE",
        _SESSION,
        "deleteSession",
        "Delete what was said in it. Its turn is stopped; a later message to its key begins a new conversation.",
        delete,
        {204: Answers("Nobody sees it any more; its content is being erased.", None)},
        "sessions",
        errors=("no-such-session",),
    ),
    Operation(
        "POST",
        f"{_SESSION}/chapter",
        "newChapter",
        "Begin a new chapter, as `/new` does. With an `id`, repeats are accepted once.",
        chapter,
        HEARD,
        "sessions",
        body=shapes.Chapter,
        body_optional=True,
        headers=IDEMPOTENCY,
        errors=("two-keys", "conflict", "no-such-session", "bad-request", "unavailable"),
    ),
]
