"""Operation: find the agent of a command, or keep the command as a new agent (`semel acp -- COMMAND`)."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from semel.faces.http.routing import ApiCall, RequestBody, Returns, Router, json_response
from semel.faces.http.security import CAME_BY_UNIX_SOCKET

router = Router("agents")


class AgentCommand(RequestBody):
    """`command`: the program and its arguments. `path`: the PATH on which a new agent's program is looked up. `folder`:
    the folder in which it is tried.
    """

    command: list[str]
    path: str
    folder: str | None = None


class NamedAgent(Struct):
    """`agent`: the name of the agent with this command."""

    agent: str


@router.route(
    "POST",
    "/v1/agents",
    Returns("The gateway has an agent with this command.", NamedAgent),
    Returns("The agent is new.", NamedAgent, status=201),
    errors=("agent-refused", "unavailable"),
)
async def find_or_add_agent(call: ApiCall, body: AgentCommand) -> Response:
    """Find the agent of a command. Over the unix socket, a command that no agent has is kept as a new one, once it
    has started as an agent.
    """
    is_local = getattr(call.request.state, CAME_BY_UNIX_SOCKET, False)
    name, is_new = await call.gateway.find_or_add_agent(body.command, body.path if is_local else None, body.folder)
    return json_response(NamedAgent(name), 201 if is_new else 200)
