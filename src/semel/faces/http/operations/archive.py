"""Operations: search, export and import of sessions."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from typing import IO, Annotated, Any, Literal

from msgspec import Struct
from starlette.responses import Response, StreamingResponse

from semel.faces.api_types import Hit, Role
from semel.faces.documents import FORMATS, Document
from semel.faces.documents.html import DOCUMENT_POLICY
from semel.faces.http.problems import Problem
from semel.faces.http.routing import ApiCall, Cursor, Page, Param, Returns, Router, SessionKey, json_response
from semel.gateway.api.search import Order
from semel.gateway.errors import GatewayUnavailable

router = Router("read")

MAX_IMPORT_BYTES = 4 << 30  # bytes in one imported file
JSON_LINES = ("application/jsonl", "application/x-ndjson", "application/x-jsonlines")
_SAVED_AT_ONCE_BYTES = 1 << 20  # collected in memory before they go to the file

SANDBOX = f"{DOCUMENT_POLICY}; sandbox allow-popups allow-popups-to-escape-sandbox; frame-ancestors 'none'"
"""Content security policy of exported documents: they cannot act under the gateway's own origin."""

Format = Literal["md", "jsonl", "html"]  # the keys of FORMATS


class IndexState(Struct):
    """How complete the search index is. `current`: it holds everything committed before the request. `behind`: the
    number of sessions with changes that are not indexed yet.
    """

    current: bool
    behind: int


class Found(Page):
    """One page of results."""

    hits: list[Hit]
    index: IndexState


class Imported(Struct):
    """The result of an import. `status`: `imported`, `known` if the session existed already with the same content, or
    `grown` if what its conversation in another system has gained was added; `entries`: how many the file has; `added`:
    how many of them this request added.
    """

    session: str
    status: Literal["imported", "known", "grown"]
    entries: int
    added: int


@router.route(
    "GET",
    "/v1/search",
    Returns("Matching entries, and how complete the index is.", Found),
    errors=("unavailable",),
)
async def search(
    call: ApiCall,
    q: Annotated[str | None, Param('The query: words, "phrases", prefixes* and -exclusions.')] = None,
    session: Annotated[str | None, Param("Key of a session, or a pattern with * and ? for several.")] = None,
    role: Annotated[Role | None, Param("Only entries with this role.")] = None,
    since: Annotated[int | None, Param("Only entries from this time on, in ms since 1970.")] = None,
    until: Annotated[int | None, Param("Only entries before this time, in ms since 1970.")] = None,
    order: Annotated[Order, Param("Sort by time (`newest`) or by relevance (`best`).")] = "newest",
    limit: Annotated[int, Param("Maximum number of entries.", minimum=1, maximum=100)] = 20,
    after: Cursor = None,
) -> Response:
    """Find entries that match all terms of the query: word, "a phrase", prefix*, -excluded."""
    if q is None:
        raise Problem("bad-field", "Name what to look for: ?q=words", field="q")
    page = await call.gateway.searches.find(
        q, session=session, role=role, since=since, until=until, order=order, limit=limit, after=after
    )
    return json_response(page)


@router.route(
    "GET",
    "/v1/sessions/{key}/export",
    Returns("The document, in the media type of its format.", str, "*/*"),
    errors=("no-such-session",),
)
async def export_session(
    call: ApiCall,
    key: SessionKey,
    format: Annotated[Format, Param("Markdown (`md`), JSON lines (`jsonl`) or a web page (`html`).")] = "jsonl",
) -> Response:
    """Export a session: Markdown or HTML for people, or every record as a line of JSON."""
    document = FORMATS[format]()
    pages = call.gateway.export(key, with_items=document.shows_items)
    first = await anext(aiter(pages))  # an unknown session must become a 404 before the answer starts
    name = re.sub(r"[^A-Za-z0-9._-]", "_", key)
    headers = {
        "content-disposition": f'attachment; filename="{name}.{format}"',
        "content-security-policy": SANDBOX,
    }
    return StreamingResponse(_encode_pages(document, first, pages), media_type=document.media, headers=headers)


async def _encode_pages(document: Document, first: list[Any], pages: AsyncIterator[list[Any]]) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(document.page, first)
    async for records in pages:
        if data := await asyncio.to_thread(document.page, records):
            yield data
    yield document.end()


@router.route(
    "POST",
    "/v1/import",
    Returns("Exactly this session exists already; nothing was changed.", Imported),
    Returns("The session was created.", Imported, status=201),
    tag="talk",
    streamed=True,
    errors=("not-json", "wrong-state", "unavailable"),
)
async def import_session(
    call: ApiCall,
    key: Annotated[str | None, Param("Key of the new session. Default: the key in the export.", name="as")] = None,
) -> Response:
    """Create a session from an export (application/jsonl). Repeating the request changes nothing."""
    media_type = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in JSON_LINES:
        raise Problem("not-json", f"Content-Type is {media_type or 'missing'!r}; send the file as {JSON_LINES[0]}.")
    # The file has no name, so the disk space is freed even if the process is killed.
    with tempfile.TemporaryFile() as file:
        try:
            await _save_body(call, file)
        except OSError as error:
            raise GatewayUnavailable(f"the file could not be taken ({error.strerror}); nothing was imported") from None
        outcome = await call.gateway.import_session(file, key)
    return json_response(outcome, 201 if outcome["status"] == "imported" else 200)


async def _save_body(call: ApiCall, file: IO[bytes]) -> None:
    size, chunks, unsaved_bytes = 0, list[bytes](), 0
    async for chunk in call.request.stream():
        chunks.append(chunk)
        size, unsaved_bytes = size + len(chunk), unsaved_bytes + len(chunk)
        if size > MAX_IMPORT_BYTES:
            detail = f"A file may have {MAX_IMPORT_BYTES:,} bytes."
            raise Problem("too-large", detail, headers={"Connection": "close"}, limit=MAX_IMPORT_BYTES)
        if unsaved_bytes >= _SAVED_AT_ONCE_BYTES:
            await asyncio.to_thread(file.writelines, chunks)
            chunks, unsaved_bytes = [], 0
    await asyncio.to_thread(file.writelines, chunks)
