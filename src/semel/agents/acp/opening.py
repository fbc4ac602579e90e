"""Open a conversation with an agent: `initialize`, then session/load, session/resume or session/new.

If the session has an agent memory (the agent's session id), it is loaded, else resumed. Where neither works a new
session is made, and the gateway learns that from `restored`. An agent that rejects our MCP server gets a session
without it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from semel.acp_stream.profiles import profile_for
from semel.agents.acp.conversation import AcpConversation
from semel.agents.acp.replies import RpcError
from semel.agents.acp.session import (
    AUTH_REQUIRED,
    PROTOCOL_VERSION,
    Choices,
    InitializeResult,
    build_mcp_server,
    initialize_params,
)
from semel.gateway.ports import AgentError, Json, Launch

log = logging.getLogger("semel.agents")

LATE_REPLAY_QUIET_S = 0.5  # seconds of silence after which an unmarked replay counts as complete


async def begin(talk: AcpConversation, launch: Launch, cwd: str, timeout: float, tools: Sequence[str]) -> None:
    """Initialize the agent and open its session. `timeout` seconds for each request. Raises AgentError."""
    agreed = await _initialize(talk, timeout)
    talk.agent_name = agreed.name
    talk.profile = profile_for(agreed.name).name
    talk.images = agreed.images
    where: Json = {"cwd": cwd, "mcpServers": [build_mcp_server(launch, talk.process.mark, tools)]}
    if launch.memory and await _restore(talk, launch.memory, where, agreed, timeout):
        return
    talk.memory, talk.replaying = "", False
    talk.forget()
    await _new(talk, where, agreed, timeout)


async def _initialize(talk: AcpConversation, timeout: float) -> InitializeResult:
    try:
        agreed = InitializeResult.read(await talk.request("initialize", initialize_params(), timeout))
    except RpcError as error:
        raise AgentError(f"agent {talk.name!r} refused `initialize`: {error}") from error
    if isinstance(agreed.protocol, int) and agreed.protocol != PROTOCOL_VERSION:
        raise AgentError(
            f"agent {talk.name!r} speaks ACP version {agreed.protocol}, Semel speaks version {PROTOCOL_VERSION}: "
            "install a version of the agent that does, too"
        )
    return agreed


async def _restore(talk: AcpConversation, memory: str, where: Json, agreed: InitializeResult, timeout: float) -> bool:
    """Load the session, else resume it; False if neither works. Loading is preferred, because its replay shows what
    the agent remembers (Law 9)."""
    ways: list[tuple[str, Literal["loaded", "resumed"]]] = []
    if agreed.can_load:
        ways.append(("session/load", "loaded"))
    if agreed.can_resume:
        ways.append(("session/resume", "resumed"))
    late = profile_for(agreed.name).replay_until == "prompt"
    talk.memory = memory
    for method, restored in ways:
        talk.replaying = True
        try:
            params = {"sessionId": memory, **where}
            result = await talk.request(method, params, timeout, ends_replay=not late)
        except RpcError as error:
            if error.code == AUTH_REQUIRED:
                raise _wants_login(talk, agreed, error) from error
            log.warning("agent %s: %s of %s failed: %s", talk.name, method, memory, error)
            talk.forget()
            continue
        talk.restored, talk.choices = restored, Choices.read(result)
        if late:  # this agent replays after its answer, without any mark
            await talk.silence(LATE_REPLAY_QUIET_S)
        return True
    return False


async def _new(talk: AcpConversation, where: Json, agreed: InitializeResult, timeout: float) -> None:
    try:
        try:
            result = await talk.request("session/new", where, timeout)
        except RpcError as error:
            if "mcp" not in str(error).lower():
                raise
            log.warning("agent %s takes no tools, so it cannot speak mid-turn: %s", talk.name, error)
            result = await talk.request("session/new", {**where, "mcpServers": []}, timeout)
    except RpcError as error:
        if error.code == AUTH_REQUIRED:
            raise _wants_login(talk, agreed, error) from error
        raise AgentError(f"agent {talk.name!r} refused a new session: {error}") from error
    memory = result.get("sessionId") if isinstance(result, dict) else None
    if not isinstance(memory, str) or not memory:
        raise AgentError(f"agent {talk.name!r} answered session/new without a sessionId")
    talk.memory, talk.choices = memory, Choices.read(result)


def _wants_login(talk: AcpConversation, agreed: InitializeResult, error: RpcError) -> AgentError:
    ways = "; ".join(agreed.logins) or "see its documentation"
    return AgentError(f"agent {talk.name!r} wants a login first ({error}). It offers: {ways}")
