"""Operations: read transcripts and tool output, trace events, run the books."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from semel.acp_stream import display
from semel.faces.http import shapes
from semel.faces.http.dressing import dress_entries
from semel.faces.http.table import MAX_INT, Answers, Call, Operation, Param, json

HTML = Param("html", bool, "1 adds `html` to agent entries that are final: sanitised Markdown.", default=False)


async def entries(call: Call) -> Response:
    found, rev = await call.gateway.entries(call.session, after=call.query["after"], limit=call.query["limit"])
    return json({"entries": await dress_entries(found) if call.query["html"] else found, "rev": rev})


async def history(call: Call) -> Response:
    before = await call.gateway.history(call.session, call.query["before"], call.query["limit"])
    if call.query["html"]:
        before = {**before, "entries": await dress_entries(before["entries"])}
    return json(before)


async def output(call: Call) -> Response:
    text = await call.gateway.output(call.session, call.number("item"))
    if not call.query["raw"]:
        text = await asyncio.to_thread(display, text)
    return Response(text, media_type="text/plain")


async def memory(call: Call) -> Response:
    return json(await call.gateway.diff_agent(call.session))


async def why(call: Call) -> Response:
    return json(await call.gateway.why(call.path("ref")))


async def doctor(call: Call) -> Response:
    return json(await call.gateway.doctor())


async def status(call: Call) -> Response:
    return json(await call.gateway.status())


_SESSION = "/v1/sessions/{key}"
_LIMIT = Param("limit", int, "At most so many entries.", default=1000, most=10_000)

OPERATIONS = [
    Operation(
        "GET",
        f"{_SESSION}/entries",
        "listEntries",
        "The entries that changed after a rev. Ask again with the `rev` of the answer.",
        entries,
        {200: Answers("Entries whose rev is above `after`.", shapes.Entries)},
        "read",
        query=(Param("after", int, "A rev; 0: from the beginning.", default=0), _LIMIT, HTML),
        errors=("no-such-session",),
    ),
    Operation(
        "GET",
        f"{_SESSION}/history",
        "readHistory",
        "The stretch of the view that came before: to scroll back from a snapshot.",
        history,
        {200: Answers("Entries and items, in the order of the view.", shapes.History)},
        "read",
        query=(
            Param("before", int, "The `before` of the snapshot or page it joins.", default=MAX_INT),
            Param("limit", int, "At most so many entries.", default=100, most=1000),
            HTML,
        ),
        errors=("no-such-session",),
    ),
    Operation(
        "GET",
        f"{_SESSION}/outputs/{{item:int}}",
        "readOutput",
        "The whole output of a tool call, of which the view holds head, gap and tail: as a terminal displays it.",
        output,
        {200: Answers("The output.", str, "text/plain")},
        "read",
        query=(Param("raw", bool, "1: as the tool wrote it, with every control character.", default=False),),
        errors=("no-such-session", "not-found"),
    ),
    Operation(
        "GET",
        f"{_SESSION}/memory",
        "compareMemory",
        "Open the session in its agent anew, and tell where what it remembers differs from the record.",
        memory,
        {200: Answers("What each of the two lacks.", shapes.Memory)},
        "read",
        errors=("no-such-session", "wrong-state"),
    ),
    Operation(
        "GET",
        "/v1/why/{ref:path}",
        "why",
        "The story of one event, claim, part or platform message.",
        why,
        {200: Answers("The story.", dict[str, Any])},
        "books",
        errors=("not-found",),
    ),
    Operation(
        "GET",
        "/v1/doctor",
        "doctor",
        "Run the books: every conservation law as a query over the ledger.",
        doctor,
        {200: Answers("Each book, and what breaks it.", shapes.Doctor)},
        "books",
    ),
    Operation(
        "GET",
        "/v1/status",
        "status",
        "Version, uptime, counts of sessions, turns, agents and parts.",
        status,
        {200: Answers("The gateway, in numbers.", dict[str, Any])},
        "books",
    ),
]
