"""What `session/new` opens: which session, with which agent."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from semel.faces.acp.connection.request_errors import INVALID_PARAMS, RequestFailed
from semel.text.json_types import Json

if TYPE_CHECKING:
    from semel.faces.client import AsyncClient


class Opening(NamedTuple):
    """What `session/new` opens. `agent`: the agent of new sessions; None: the default one, or that of `command`.
    `session`: the session that it opens instead of a new one, and makes if there is none. `command`: the command of an
    agent, [] for none.
    """

    agent: str | None = None
    session: str | None = None
    command: Sequence[str] = ()


async def check_session(client: AsyncClient, opening: Opening) -> None:
    """Raise RequestFailed if the session cannot be opened.

    Either it has another agent than the one that is named beside it; or there is no such session, and nothing says
    which agent a new one would have. Then the key counts as mistyped.
    """
    from semel.faces.client import RequestRefused
    from semel.law.identity import CUSTOMARY_NAME, BadKey, check_session_key

    try:
        key = check_session_key(opening.session or "")
    except BadKey as error:
        raise RequestFailed(INVALID_PARAMS, f"--session: {error}") from None
    row = await find_session(client, key)
    if row is None:
        named, agents = key.partition(":")[0], (await client.get("/v1/status"))["configured"]
        if opening.agent is None and not opening.command and named not in (CUSTOMARY_NAME, *agents):
            raise RequestFailed(
                INVALID_PARAMS,
                f"--session: there is no session {key}, and no agent {named!r} for a new one. `semel sessions` lists "
                f"the sessions; the key of a new one begins with its agent, as in {agents[0]}:notes, or --agent names "
                "the agent",
            )
        return
    agent = opening.agent
    if opening.command:
        try:
            agent = str((await client.post("/v1/agents", {"command": list(opening.command)}))["agent"])
        except RequestRefused as error:
            if error.code != "bad-field":
                raise
            agent = f"of the command {opening.command[0]}"
    if agent is not None and agent != row["agent"]:
        raise RequestFailed(
            INVALID_PARAMS,
            f"--session: session {key} has the agent {row['agent']}, not the agent {agent}. Name no agent beside "
            "--session to go on with it; omit --session for a new session",
        )


async def find_or_make_agent(client: AsyncClient, command: Sequence[str], folder: str) -> str:
    """Return the name of the agent with an editor's command. The gateway makes one of a command that it did not know.

    It keeps that agent once it has started in this folder.
    """
    from semel.faces.client.connection import AGENT_START_TIMEOUT_S

    body = {"command": list(command), "path": os.environ.get("PATH", os.defpath), "folder": folder}
    answer = await client.post("/v1/agents", body, timeout_s=AGENT_START_TIMEOUT_S)
    return str(answer["agent"])


def make_key(agent: str | None, folder: str) -> str:
    """Return the key of a new session of an editor in this folder."""
    name = re.sub(r"[^A-Za-z0-9._+=~-]+", "-", Path(folder).name)[:40] or "root"
    return f"{agent or 'main'}:editor:{name}-{secrets.token_hex(3)}"


async def find_session(client: AsyncClient, key: str) -> Json | None:
    """Return a session as the gateway lists it, or None if there is none."""
    from semel.faces.client import RequestRefused

    try:
        return await read_session(client, key)
    except RequestRefused as error:
        if error.code == "no-such-session":
            return None
        raise


async def read_session(client: AsyncClient, key: str) -> Json:
    """Return a session as the gateway lists it. Raises RequestRefused if there is none."""
    from semel.faces.client import session_path

    return await client.get(session_path(key))
