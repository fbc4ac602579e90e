"""Operations: search, export and import of sessions."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from typing import IO, Any

from starlette.responses import Response, StreamingResponse

from semel.faces.documents import FORMATS, Document
from semel.faces.documents.html import POLICY
from semel.faces.http import shapes
from semel.faces.http.problems import Problem
from semel.faces.http.table import Answers, Call, Operation, Param, json
from semel.gateway.api.search import ROLES
from semel.gateway.errors import Busy

MAX_IMPORT_BYTES = 4 << 30  # bytes in one imported file
LINES = ("application/jsonl", "application/x-ndjson", "application/x-jsonlines")
_PIECE = 1 << 20

SANDBOX = f"{POLICY}; sandbox allow-popups allow-popups-to-escape-sandbox; frame-ancestors 'none'"
"""Content security policy of exported documents: they cannot act under the gateway's own origin."""


async def search(call: Call) -> Response:
    given = {name: value for name, value in call.query.items() if name != "q"}
    if call.query["q"] is None:
        raise Problem("bad-field", "Name what to look for: ?q=words", field="q")
    return json(await call.gateway.search(call.query["q"], **given))


async def export(call: Call) -> Response:
    document = FORMATS[call.query["format"]]()
    pages = call.gateway.export(call.session)
    first = await anext(aiter(pages))  # an unknown session must become a 404 before the answer starts
    name = re.sub(r"[^A-Za-z0-9._-]", "_", call.session)
    headers = {
        "content-disposition": f'attachment; filename="{name}.{call.query["format"]}"',
        "content-security-policy": SANDBOX,
    }
    return StreamingResponse(_written(document, first, pages), media_type=document.media, headers=headers)


async def _written(document: Document, first: list[Any], pages: AsyncIterator[list[Any]]) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(document.page, first)
    async for records in pages:
        if piece := await asyncio.to_thread(document.page, records):
            yield piece
    yield document.end()


async def import_session(call: Call) -> Response:
    kind = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in LINES:
        raise Problem("not-json", f"Content-Type is {kind or 'missing'!r}; send the file as {LINES[0]}.")
    # The file has no name, so the disk space is freed even if the process is killed.
    with tempfile.TemporaryFile() as file:
        try:
            await _spool(call, file)
        except OSError as error:
            raise Busy(f"the file could not be taken ({error.strerror}); nothing was imported") from None
        done = await call.gateway.import_session(file, call.query["as"])
    return json(done, 201 if done["status"] == "imported" else 200)


async def _spool(call: Call, file: IO[bytes]) -> None:
    size, pieces, held = 0, list[bytes](), 0
    async for chunk in call.request.stream():
        pieces.append(chunk)
        size, held = size + len(chunk), held + len(chunk)
        if size > MAX_IMPORT_BYTES:
            more: dict[str, Any] = {"limit": MAX_IMPORT_BYTES}
            raise Problem(
                "too-large", f"A file may have {MAX_IMPORT_BYTES:,} bytes.", headers={"Connection": "close"}, **more
            )
        if held >= _PIECE:
            await asyncio.to_thread(file.writelines, pieces)
            pieces, held = [], 0
    await asyncio.to_thread(file.writelines, pieces)


OPERATIONS = [
    Operation(
        "GET",
        "/v1/search",
        "search",
        'Find entries by their words. All must be there: word, "a phrase", beginn*, -without.',
        search,
        {200: Answers("What was found, and how far the index is.", shapes.Found)},
        "read",
        query=(
            Param("q", str, 'What to look for: words, "phrases", beginnings* and -exclusions.'),
            Param("session", str, "Only in this session, or in those that a pattern (*, ?) names."),
            Param("role", str, "Only what these said.", one_of=ROLES),
            Param("since", int, "Not before this time, in ms since 1970."),
            Param("until", int, "Before this time, in ms since 1970."),
            Param("order", str, "Which comes first.", default="newest", one_of=("newest", "best")),
            Param("limit", int, "At most so many.", default=20, most=100),
            Param("after", str, "The `next` of the page before."),
        ),
        errors=("bad-request", "unavailable"),
    ),
    Operation(
        "GET",
        "/v1/sessions/{key}/export",
        "exportSession",
        "A session as a document: Markdown or HTML for people, or every record as a line of JSON.",
        export,
        {200: Answers("The document, in the media type of its format.", str, "*/*")},
        "read",
        query=(Param("format", str, "md, jsonl or html.", default="jsonl", one_of=tuple(FORMATS)),),
        errors=("no-such-session",),
    ),
    Operation(
        "POST",
        "/v1/import",
        "importSession",
        "A new session from an export (application/jsonl). The same once more changes nothing.",
        import_session,
        {
            200: Answers("This very session is there already.", shapes.Imported),
            201: Answers("It is there now.", shapes.Imported),
        },
        "talk",
        raw_body=True,
        streamed=True,
        query=(Param("as", str, "The new session's key. Left out: the one that it had."),),
        errors=("not-json", "bad-request", "wrong-state", "unavailable"),
    ),
]
