"""Operations: read a session's entries, history and tool output, and compare what its agent remembers."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType, field
from starlette.responses import Response

from semel.acp_stream import render_terminal
from semel.faces.http.markdown import add_html
from semel.faces.http.operations.outbox import PartState
from semel.faces.http.routing import MAX_INT, ApiCall, Param, Returns, Router, SessionKey, json_response
from semel.law.wake import Busy as BusyMode

router = Router("read")

Role = Literal["user", "agent", "event", "notice"]
WithHtml = Annotated[bool, Param("1: add `html`, the sanitised Markdown, to final agent entries.")]


class Delivery(Struct, omit_defaults=True):
    """Delivery of an entry to one destination: it has `parts` parts, all in `state`; `part` is the id of the first.
    `failed`: it was sent, and failed later. `held`: the ids of its held parts, if there are several.
    """

    to: str
    state: PartState
    part: int
    parts: int = 1
    failed: bool = False
    error: str | None = None
    held: list[int] = []


class File(Struct, omit_defaults=True):
    """A file that was sent or received, served at /v1/blobs/{id}. A file that is not available has no `id`, and
    `missing` is the reason. A file that an agent only linked to has its address as `uri`.
    """

    id: str | None = None
    name: str = ""
    mime: str = "application/octet-stream"
    size: int | None = None
    missing: str | None = None
    uri: str | None = None


class Covers(Struct, omit_defaults=True):
    """The entries that a summary stands for: those from `first` to `last` that belong to turns up to `turn`. Every
    entry before `since` is covered; later ones may not be. `cut`: the summary was made without reading all of them.
    """

    first: int
    last: int
    turn: int
    since: int
    cut: bool = False


class Tokens(Struct):
    """Tokens of a request to a model, as counted by its API."""

    input: int
    output: int


class Entry(Struct, omit_defaults=True):
    """One row of the transcript. `at` is milliseconds since 1970. The view shows entries and items in the order of
    `born`.

    State: `live`: the text is still streaming. `partial`: it was cut off. `superseded`: a later attempt at the turn
    replaced it. `waiting`: the busy mode by which the message waits for a turn. `joined`: it joined a running turn.

    Origin: `from`: the session that it came from, if another one. `tool`: a tool call said it. `late`: it was said
    after its turn had ended. `automatic`: a program sent it. `data`: what the event's source reported besides the text.
    `imported`: it comes from an export.

    Delivery: `to`: the destination, if not home. `echoes`: how often the same text was said again and not sent again.
    `behind`: the session's chat got it after the entries up to this seq.

    References: `of`: the seq of the entry that this one edits, deletes, reacts or replies to; `quote`, `whose`: the
    beginning of that entry's text, and its author. `edited`, `deleted`: the seq of the entry that edited or deleted
    this one. `removed`: the reaction was taken back. `item`: the id of the question's item, which can be answered.

    A notice of kind `summary`: `covers`: the entries that it stands for in a model's prompts. `tokens`: its cost.
    """

    seq: int
    born: int
    rev: int
    at: int
    role: Role
    text: str
    live: bool = False
    partial: bool = False
    superseded: bool = False
    turn: int | None = None
    event: int | None = None
    claim: int | None = None
    kind: str | None = None
    sender: str | None = None
    to: str | None = None
    from_: str | None = field(default=None, name="from")
    files: list[File] = []
    emoji: str | None = None
    of: int | None = None
    quote: str | None = None
    whose: str | None = None
    edited: int | None = None
    deleted: int | None = None
    removed: bool = False
    data: dict[str, Any] | None = None
    item: int | None = None
    tool: bool = False
    late: bool = False
    behind: int | None = None
    echoes: int = 0
    delivery: list[Delivery] = []
    imported: dict[str, Any] | None = None
    waiting: BusyMode | None = None
    joined: bool = False
    automatic: bool = False
    covers: Covers | None = None
    tokens: Tokens | None = None
    html: str | None = None


class Item(Struct, omit_defaults=True):
    """What a watcher sees besides the transcript, such as a tool call. Further fields depend on `kind`."""

    id: int
    born: int
    rev: int
    kind: str
    turn: int | None = None
    live: bool = False
    text: str = ""


class Entries(Struct):
    """Entries whose rev is above `after`, oldest change first. Send `rev` as `after` of the next request."""

    entries: list[Entry]
    rev: int


class History(Struct):
    """An earlier part of the view. `more`: there is an even earlier one; send `before` to get it."""

    entries: list[Entry]
    items: list[Item]
    more: bool
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
    after: Annotated[int, Param("Rev to start after; 0: from the beginning.")] = 0,
    limit: Annotated[int, Param("Maximum number of entries.", maximum=10_000)] = 1000,
    html: WithHtml = False,
) -> Response:
    """List the entries that changed after a rev. Repeat with the `rev` of the answer."""
    entries, rev = await call.gateway.entries(key, after=after, limit=limit)
    return json_response({"entries": await add_html(entries) if html else entries, "rev": rev})


@router.route(
    "GET",
    "/v1/sessions/{key}/history",
    Returns("Entries and items, in the order of the view.", History),
    errors=("no-such-session",),
)
async def read_history(
    call: ApiCall,
    key: SessionKey,
    before: Annotated[int, Param("The `before` of the snapshot or of the previous page.")] = MAX_INT,
    limit: Annotated[int, Param("Maximum number of entries.", maximum=1000)] = 100,
    html: WithHtml = False,
) -> Response:
    """Read the part of the view before a snapshot or an earlier page, to scroll back."""
    page = await call.gateway.history(key, before, limit)
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
) -> Response:
    """Read the whole output of a tool call, as a terminal displays it. The view has only its head and tail."""
    text = await call.gateway.output(key, item)
    if not raw:
        text = await asyncio.to_thread(render_terminal, text)
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
