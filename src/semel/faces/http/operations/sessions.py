"""Operations: list sessions; rename, archive or delete one; note what was seen of it; start a new chapter;
list the commands that people may write in it, and find the files that they may name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from semel.faces.api_types import SessionRow
from semel.faces.http.operations.messages import (
    EVENT_ACCEPTED,
    EVENT_ERRORS,
    IDEMPOTENCY_KEY,
    KeyedBody,
    event_response,
    read_event_key,
)
from semel.faces.http.problems import Problem
from semel.faces.http.routing import (
    ApiCall,
    Cursor,
    Page,
    Param,
    RequestBody,
    Returns,
    Router,
    SessionKey,
    json_response,
    page_response,
    refuse_two_cursors,
)

router = Router("sessions")


class Sessions(Page):
    sessions: list[SessionRow]


class SlashCommand(Struct):
    """A command. `text`: what to write. `takes`: the kind of its argument. `by`: who carries it out."""

    name: str
    by: Literal["gateway", "agent"]
    text: str
    usage: str
    takes: Literal["nothing", "text", "word", "number"]
    description: str


class SlashCommands(Struct):
    commands: list[SlashCommand]


class WorkspaceFiles(Struct):
    """`files`: paths relative to the session's workspace, best first."""

    files: list[str]


class SessionChange(RequestBody):
    """`title`: null lets the agent choose it. `archived`: archive or restore. Omitted fields do not change."""

    title: str | UnsetType | None = UNSET
    archived: bool | UnsetType = UNSET


class SeenRev(RequestBody):
    """`rev`: the rev of the view that was seen."""

    rev: int


class NewSession(RequestBody):
    """`agent`: the name of its agent (default: the one that the key names). `folder`: the absolute path of the folder
    in which the agent works (default: the agent's own).
    """

    agent: str | None = None
    folder: str | None = None


class StartedAgent(NewSession):
    """`agent` and `folder`: as for a new session. `await_commands`: whether the answer waits up to half a second for a
    new agent to list its commands.
    """

    await_commands: bool = True


class McpServers(RequestBody):
    """`servers`: as ACP's `McpServer`: with `command`, `args` and `env`, or with `type` (`http`, `sse`), `url` and
    `headers`.
    """

    servers: list[dict[str, Any]]


class Chapter(KeyedBody, kw_only=True):
    """`by`: who begins it. `id` or `key`: an idempotency key."""

    by: str | None = None


class MadeSession(SessionRow):
    """`note`: what its maker should know, such as that no agent has the name with which the key begins."""

    note: str | None = None


class SessionWithAgent(SessionRow):
    """A session whose agent runs. `left_out_servers`: the names of the `mcp-servers` that the agent does not take."""

    left_out_servers: list[str] | None = None


THE_SESSION = Returns("The session.", SessionRow)


@router.route("GET", "/v1/sessions", Returns("The sessions.", Sessions), errors=("no-such-session",))
async def list_sessions(
    call: ApiCall,
    archived: Annotated[bool, Param("1: list archived sessions instead.")] = False,
    after: Cursor = None,
    before: Annotated[str | None, Param("Key of a session: list only sessions created before it.")] = None,
    limit: Annotated[int, Param("Maximum number of sessions.", minimum=1, maximum=1000)] = 200,
    folder: Annotated[str | None, Param("Absolute path: list only sessions whose agent works in this folder.")] = None,
) -> Response:
    """List the sessions, newest first, with their state and the beginning of their last text, and without what their
    agents offer."""
    if after is not None:
        refuse_two_cursors(before)
    if folder is not None and not Path(folder).is_absolute():
        raise Problem("bad-field", f"A folder is an absolute path, and {folder[:200]!r} is not.", field="folder")
    rows = await call.gateway.sessions(archived, after or before, limit + 1, folder)
    return page_response("sessions", rows, limit, "key")


@router.route("GET", "/v1/sessions/{key}", THE_SESSION, errors=("no-such-session",))
async def read_session(call: ApiCall, key: SessionKey) -> Response:
    """Read one session."""
    return json_response(await call.gateway.session(key))


@router.route(
    "PUT",
    "/v1/sessions/{key}",
    Returns("The session existed already.", MadeSession),
    Returns("The session is new.", MadeSession, status=201),
    errors=("wrong-state", "unavailable"),
    body_optional=True,
    makes_session=True,
)
async def make_session(call: ApiCall, key: SessionKey, body: NewSession) -> Response:
    """Make a session before anybody speaks in it. The same again changes nothing."""
    note = await call.gateway.explain_default_agent(key) if body.agent is None else None
    session, is_new = await call.gateway.make_session(key, body.agent, body.folder)
    return json_response(session | ({"note": note} if is_new and note else {}), 201 if is_new else 200)


@router.route(
    "POST",
    "/v1/sessions/{key}/agent",
    Returns("The session, with what its agent offers.", SessionWithAgent),
    errors=("wrong-state", "agent-refused", "agent-logged-out", "unavailable"),
    body_optional=True,
    makes_session=True,
)
async def start_agent(call: ApiCall, key: SessionKey, body: StartedAgent) -> Response:
    """Start the session's agent without a turn, and return what it offers. A missing session is made first."""
    session = await call.gateway.start_agent(key, body.agent, body.folder, awaits_commands=body.await_commands)
    return json_response(session)


@router.route("GET", "/v1/commands", Returns("The commands.", SlashCommands), errors=("no-such-session",))
async def list_commands(
    call: ApiCall,
    session: Annotated[str | None, Param("Key of a session, whose agent's commands are listed, too.")] = None,
) -> Response:
    """List the slash commands that a person may write: the gateway's and, of a session, its agent's."""
    return json_response({"commands": await call.gateway.list_commands(session)})


@router.route(
    "GET", "/v1/sessions/{key}/workspace-files", Returns("The files.", WorkspaceFiles), errors=("no-such-session",)
)
async def find_files(
    call: ApiCall,
    key: SessionKey,
    part: Annotated[str, Param("What a path contains, in any letter case.")] = "",
    limit: Annotated[int, Param("Maximum number of files.", minimum=1, maximum=100)] = 20,
) -> Response:
    """Find files in the folder in which the session's agent works, by a part of their path."""
    return json_response({"files": await call.gateway.find_files(key, part, limit)})


@router.route(
    "PUT",
    "/v1/sessions/{key}/mcp-servers",
    Returns("Done. The agent gets them at its next start.", status=204),
    errors=("no-such-session",),
)
async def set_mcp_servers(call: ApiCall, key: SessionKey, body: McpServers) -> Response:
    """Set the MCP servers that the session's agent gets besides Semel's own."""
    await call.gateway.set_mcp_servers(key, body.servers)
    return Response(status_code=204)


@router.route("POST", "/v1/sessions/{key}/seen", Returns("Recorded.", status=204), errors=("no-such-session",))
async def mark_seen(call: ApiCall, key: SessionKey, body: SeenRev) -> Response:
    """Say that the owner has seen the session up to a rev. What came later is unread in the list of sessions."""
    await call.gateway.mark_seen(key, body.rev)
    return Response(status_code=204)


@router.route("PATCH", "/v1/sessions/{key}", THE_SESSION, errors=("no-such-session",))
async def change_session(call: ApiCall, key: SessionKey, body: SessionChange) -> Response:
    """Change the title of a session, archive it, or restore it."""
    await call.gateway.session(key)
    if body.title is not UNSET:
        await call.gateway.rename(key, body.title)
    if body.archived is not UNSET:
        await call.gateway.archive(key, body.archived)
    return json_response(await call.gateway.session(key))


@router.route(
    "DELETE",
    "/v1/sessions/{key}",
    Returns("The session is no longer visible, and its content is being erased.", status=204),
    errors=("no-such-session",),
)
async def delete_session(call: ApiCall, key: SessionKey) -> Response:
    """Delete a session and its content. Its turn is stopped; a later message to its key begins a new conversation."""
    await call.gateway.delete(key)
    return Response(status_code=204)


@router.route(
    "POST",
    "/v1/sessions/{key}/chapter",
    EVENT_ACCEPTED,
    headers=(IDEMPOTENCY_KEY,),
    errors=(*EVENT_ERRORS, "no-such-session"),
    body_optional=True,
)
async def new_chapter(call: ApiCall, key: SessionKey, body: Chapter) -> Response:
    """Begin a new chapter, as `/new` does. With an `id`, a repeat is accepted only once."""
    return event_response(await call.gateway.new_chapter(key, body.by, read_event_key(call, body)))
