"""Open a conversation with an agent: `initialize`, then session/load, session/resume or session/new.

If the agent had the session before, it is asked to load or else to resume it. `memory` is the session id that the agent
gave then. If neither works, a new session is created; `AcpConversation.restored` says which of the three was done. An
agent that rejects our MCP server gets a session without it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from semel.acp_stream.profiles import profile_for
from semel.agents.acp.conversation import AcpConversation
from semel.agents.acp.session import (
    AUTH_REQUIRED,
    PROTOCOL_VERSION,
    Choices,
    InitializeResult,
    RpcError,
    build_mcp_server,
    initialize_params,
)
from semel.gateway.ports import AgentError, Json, Launch
from semel.text.json_types import text_at

log = logging.getLogger("semel.agents")

LATE_REPLAY_QUIET_S = 0.5  # seconds without a signal, after which a replay whose end is not marked counts as complete


async def open_session(
    conversation: AcpConversation, launch: Launch, cwd: str, timeout: float, tools: Sequence[str]
) -> None:
    """Initialize the agent and open its session. Raises AgentError.

    `cwd`: the workspace. `timeout`: seconds for each request. `tools`: the command of Semel's MCP server.
    """
    initialized = await _initialize(conversation, timeout)
    conversation.agent_name = initialized.name
    conversation.profile = profile_for(initialized.name).name
    conversation.images = initialized.images
    session_params: Json = {"cwd": cwd, "mcpServers": [build_mcp_server(launch, conversation.process.mark, tools)]}
    if launch.memory and await _restore(conversation, launch.memory, session_params, initialized, timeout):
        return
    conversation.memory, conversation.replaying = "", False
    conversation.drop_signals()
    await _new(conversation, session_params, initialized, timeout)


async def _initialize(conversation: AcpConversation, timeout: float) -> InitializeResult:
    try:
        initialized = InitializeResult.read(await conversation.request("initialize", initialize_params(), timeout))
    except RpcError as error:
        raise AgentError(f"agent {conversation.name!r} refused `initialize`: {error}") from error
    if isinstance(initialized.protocol, int) and initialized.protocol != PROTOCOL_VERSION:
        raise AgentError(
            f"agent {conversation.name!r} speaks ACP version {initialized.protocol}, "
            f"Semel speaks version {PROTOCOL_VERSION}: install a version of the agent that does, too"
        )
    return initialized


async def _restore(
    conversation: AcpConversation, memory: str, session_params: Json, initialized: InitializeResult, timeout: float
) -> bool:
    """Load the session with the id `memory`, else resume it. Returns False if neither works.

    Loading is tried first, because the replay shows what the agent remembers (Law 9).
    """
    ways: list[tuple[str, Literal["loaded", "resumed"]]] = []
    if initialized.can_load:
        ways.append(("session/load", "loaded"))
    if initialized.can_resume:
        ways.append(("session/resume", "resumed"))
    replays_late = profile_for(initialized.name).replay_until == "prompt"
    conversation.memory = memory
    for method, restored in ways:
        conversation.replaying = True
        try:
            params = {"sessionId": memory, **session_params}
            result = await conversation.request(method, params, timeout, ends_replay=not replays_late)
        except RpcError as error:
            if error.code == AUTH_REQUIRED:
                raise _wants_login(conversation, initialized, error) from error
            log.warning("agent %s: %s of %s failed: %s", conversation.name, method, memory, error)
            conversation.drop_signals()
            continue
        conversation.restored, conversation.choices = restored, Choices.read(result)
        if replays_late:  # this agent replays after its answer, without any mark
            await conversation.wait_for_silence(LATE_REPLAY_QUIET_S)
        return True
    return False


async def _new(
    conversation: AcpConversation, session_params: Json, initialized: InitializeResult, timeout: float
) -> None:
    try:
        try:
            result = await conversation.request("session/new", session_params, timeout)
        except RpcError as error:
            if "mcp" not in str(error).lower():
                raise
            log.warning("agent %s takes no tools, so it cannot speak mid-turn: %s", conversation.name, error)
            result = await conversation.request("session/new", {**session_params, "mcpServers": []}, timeout)
    except RpcError as error:
        if error.code == AUTH_REQUIRED:
            raise _wants_login(conversation, initialized, error) from error
        raise AgentError(f"agent {conversation.name!r} refused a new session: {error}") from error
    memory = text_at(result, "sessionId")
    if not memory:
        raise AgentError(f"agent {conversation.name!r} answered session/new without a sessionId")
    conversation.memory, conversation.choices = memory, Choices.read(result)


def _wants_login(conversation: AcpConversation, initialized: InitializeResult, error: RpcError) -> AgentError:
    ways = "; ".join(initialized.logins) or "see its documentation"
    return AgentError(f"agent {conversation.name!r} wants a login first ({error}). It offers: {ways}")
