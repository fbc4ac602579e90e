"""Operations: read a session's entries, history and tool output, and compare what its agent remembers."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from semel.acp_stream.display import render_coloured, render_terminal
from semel.faces.api_types import Entry, Item
from semel.faces.http.markdown import add_html
from semel.faces.http.routing import (
    MAX_INT,
    ApiCall,
    Cursor,
    Page,
    Param,
    Returns,
    Router,
    SessionKey,
    json_response,
    read_cursor,
)

router = Router("read")

WithHtml = Annotated[bool, Param("1: add `html`, the sanitised Markdown, to final agent entries.")]


class Removed(Struct, omit_defaults=True):
    """What retention removed of a session: the entries up to `upto`, lastly `at` (ms since 1970), if that is known."""

    upto: int
    at: int | None = None


class Entries(Page):
    """Entries whose rev is above `after`, oldest change first. `next` is never null: it is `rev` as a string, and what
    changes later comes after it. `removed`: only from the beginning, and only if retention removed content.
    """

    entries: list[Entry]
    rev: int
    removed: Removed | UnsetType = UNSET


class History(Page):
    """An earlier part of the view. `before`: the seq of its first entry."""

    entries: list[Entry]
    items: list[Item]
    before: int = 0


class Memory(Struct):
    """`lacks`: messages of the record that the agent does not remember. `extra`: what the agent believes to have said,
    and nobody saw. `compared` is false if the two cannot be compared; `why` is the reason.
    """

    compared: bool
    lacks: list[dict[str, Any]]
    extra: list[str]
    why: str | UnsetType = UNSET


@router.route(
    "GET",
    "/v1/sessions/{key}/entries",
    Returns("Entries whose rev is above `after`.", Entries),
    errors=("no-such-session",),
)
async def list_entries(
    call: ApiCall,
    key: SessionKey,
    after: Annotated[int, Param("Rev to start after, the `next` of the previous page; 0: from the beginning.")] = 0,
    limit: Annotated[int, Param("Maximum number of entries.", minimum=1, maximum=10_000)] = 1000,
    html: WithHtml = False,
) -> Response:
    """List the entries that changed after a rev."""
    entries, rev = await call.gateway.entries(key, after=after, limit=limit + 1)
    if more := len(entries) > limit:
        entries = entries[:limit]
        rev = entries[-1]["rev"]
    shown = await add_html(entries) if html else entries
    removed = await call.gateway.removed(key) if after == 0 else None
    page = {"entries": shown, "rev": rev, "more": more, "next": str(rev)}
    return json_response(page if removed is None else {**page, "removed": removed})


@router.route(
    "GET",
    "/v1/sessions/{key}/history",
    Returns("Entries and items, in the order of the view.", History),
    errors=("no-such-session",),
)
async def read_history(
    call: ApiCall,
    key: SessionKey,
    after: Cursor = None,
    before: Annotated[int | None, Param("The `before` of a snapshot or of the previous page.")] = None,
    limit: Annotated[int, Param("Maximum number of entries.", minimum=1, maximum=1000)] = 100,
    html: WithHtml = False,
) -> Response:
    """Read the part of the view before a snapshot or an earlier page, to scroll back."""
    cursor = read_cursor(after, before)
    page = await call.gateway.history(key, MAX_INT if cursor is None else cursor, limit)
    page["next"] = str(page["before"]) if page["more"] else None
    if html:
        page = {**page, "entries": await add_html(page["entries"])}
    return json_response(page)


@router.route(
    "GET",
    "/v1/sessions/{key}/outputs/{item:int}",
    Returns("The output.", str, "text/plain"),
    errors=("no-such-session", "not-found"),
)
async def read_output(
    call: ApiCall,
    key: SessionKey,
    item: Annotated[int, Param("Id of the tool call's item.")],
    raw: Annotated[bool, Param("1: exactly as the tool wrote it, with all control characters.")] = False,
    colours: Annotated[bool, Param("1: with the sequences that set colours and weight (SGR).")] = False,
) -> Response:
    """Read the whole output of a tool call, as a terminal displays it. The view has only its head and tail."""
    text = await call.gateway.output(key, item)
    if not raw:
        text = await asyncio.to_thread(render_coloured if colours else render_terminal, text)
    return Response(text, media_type="text/plain")


@router.route(
    "GET",
    "/v1/sessions/{key}/memory",
    Returns("The differences.", Memory),
    errors=("no-such-session", "wrong-state"),
)
async def compare_memory(call: ApiCall, key: SessionKey) -> Response:
    """Open the session in its agent again, and compare the agent's history with the record."""
    return json_response(await call.gateway.controls.compare_memory(key))
