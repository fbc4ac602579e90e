"""Open a conversation with an agent: `initialize`, then session/load, session/resume or session/new.

If the agent had the session before, Semel asks it to load or else to resume the session. `memory` is the session id
that the agent gave then. If neither works, a new session is created; `AcpConversation.restored` says which of the three
happened. An agent that rejects Semel's MCP server over stdio is offered it over HTTP, if it takes that. One that
rejects this, too, gets a session without it.

If the agent demands a login and its environment has a key that one of its login methods takes, Semel authenticates with
that method once and asks again. Otherwise the error says what a person can do (`semel.agents.acp.login`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from semel.acp_stream.profiles import Profile, profile_for
from semel.agents.acp.conversation import AcpConversation
from semel.agents.acp.login import LoginAdvice, describe_login
from semel.agents.acp.session import (
    AUTH_REQUIRED,
    PROTOCOL_VERSION,
    Choices,
    InitializeResult,
    RpcError,
    build_http_mcp_server,
    build_mcp_server,
    initialize_params,
)
from semel.agents.codex_home import has_key_login, restore_login_file
from semel.agents.known import recognise_command
from semel.gateway.ports import AgentError, Json, Launch
from semel.gateway.settings.agents import McpTransport
from semel.text.json_types import text_at
from semel.text.sentences import join_sentences

log = logging.getLogger("semel.agents")

LATE_REPLAY_QUIET_S = 0.5  # seconds without a signal, after which a replay whose end is not marked counts as complete


@dataclass(frozen=True)
class SessionOptions:
    """The options for opening an agent's sessions.

    `command`: the agent's argv. `cwd`: the workspace. `env`: the agent's environment. `timeout`: seconds for each
    request. `tools`: the command of Semel's MCP server. `mode`, `model`: those with which each session starts. None
    leaves them to the agent, except that it may not stay in a mode in which it decides by itself. `mcp_transport`: how
    Semel's MCP server is offered; None: as the agent's profile says.
    """

    command: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    timeout: float
    tools: Sequence[str]
    mode: str | None = None
    model: str | None = None
    mcp_transport: McpTransport | None = None


async def initialize(
    conversation: AcpConversation, command: Sequence[str], timeout: float, env: Mapping[str, str]
) -> InitializeResult:
    """Send `initialize`, store in the conversation what the agent can do, and return the result. Raises AgentError.

    `command`: the agent's argv. `timeout`: in seconds. `env`: the agent's environment, which may hold its key.
    """
    known = recognise_command(command)
    try:
        params = initialize_params(known, shows_urls=conversation.show_url is not None)
        result = await conversation.request("initialize", params, timeout)
    except RpcError as error:
        raise AgentError(f"agent {conversation.name!r} refused `initialize`: {error}") from error
    initialized = InitializeResult.read(result, command)
    if isinstance(initialized.protocol, int) and initialized.protocol != PROTOCOL_VERSION:
        raise AgentError(
            f"agent {conversation.name!r} speaks ACP version {initialized.protocol}, "
            f"Semel speaks version {PROTOCOL_VERSION}: install a version of the agent that does, too"
        )
    conversation.agent_name = initialized.name
    conversation.profile = profile_for(initialized.name).name
    conversation.images, conversation.audio = initialized.images, initialized.audio
    conversation.resources = initialized.resources
    known_keys = [agent.key for agent in known if agent.key]
    other_keys = [name for agent in known for name in agent.other_keys]
    variables = (*(name for method in initialized.logins for name in method.variables), *known_keys, *other_keys)
    conversation.login_advice = LoginAdvice(
        conversation.name,
        describe_login(conversation.name, initialized.logins, known_keys),
        key_variable=next((name for name in variables if env.get(name)), None),
        keeps_key=has_key_login(command, env),
        key_method=next((login.id for login in initialized.logins if login.variables and not login.command), ""),
    )
    return initialized


async def open_session(
    conversation: AcpConversation, launch: Launch, initialized: InitializeResult, options: SessionOptions
) -> None:
    """Open the session of an agent that has answered `initialize`. Raises AgentError."""
    opener = _SessionOpener(conversation, launch, initialized, options)
    if not (launch.memory and await opener.restore(launch.memory, launch.modes)):
        conversation.memory, conversation.replaying = "", False
        conversation.drop_signals()
        await opener.create()
    await opener.apply_choices()


class _SessionOpener:
    def __init__(
        self, conversation: AcpConversation, launch: Launch, initialized: InitializeResult, options: SessionOptions
    ) -> None:
        self.conversation = conversation
        self.initialized = initialized
        self.options = options
        self.profile: Profile = profile_for(initialized.name)
        self._offers = self._list_offers(launch)
        self._others = [server for server in launch.mcp_servers if self._takes_transport(server)]
        conversation.left_out_servers = [server["name"] for server in launch.mcp_servers if server not in self._others]
        self.session_params: Json = {"cwd": options.cwd}
        self._make_offer("")

    def _list_offers(self, launch: Launch) -> list[Json]:
        """Return Semel's MCP server for each transport by which it can be offered, the preferred one first.

        ACP asks each agent to take MCP servers over stdio, and lets it announce that it takes them over HTTP, too.
        """
        takes_stdio, takes_http = self.profile.starts_mcp_servers, self.initialized.http_tools
        if self.options.mcp_transport is not None:
            takes_stdio, takes_http = self.options.mcp_transport == "stdio", self.options.mcp_transport == "http"
        offers = []
        if takes_stdio:
            offers.append(build_mcp_server(launch, self.conversation.process.mark, self.options.tools))
        if takes_http and launch.tools_url is not None:
            offers.append(build_http_mcp_server(launch.tools_url, launch.token))
        return offers

    def _takes_transport(self, server: Json) -> bool:
        """Return whether the agent takes this MCP server of a client. Every agent takes those over stdio (ACP)."""
        kind = server.get("type", "stdio")
        takes = {"http": self.initialized.http_tools, "sse": self.initialized.sse_tools}.get(str(kind), True)
        if not takes:
            log.warning("agent %s takes no MCP servers over %s: %s", self.conversation.name, kind, server.get("name"))
        return takes

    def _make_offer(self, refusal: str) -> None:
        """Offer the agent the first server of the list. Set the conversation's `tools_problem` and `tools_advice`.

        `refusal`: how the agent refused the server before it; "" if it was offered none.
        """
        conversation = self.conversation
        self.session_params["mcpServers"] = [*self._offers[:1], *self._others]
        conversation.tools_problem = "" if self._offers else self._explain_no_offer(refusal)
        conversation.tools_advice = (
            f'If it takes MCP servers over HTTP only, set mcp_transport = "http" under [agents.{conversation.name}]'
            if len(self._offers) > 1
            else ""
        )

    def _withdraw_offer(self, refusal: str) -> None:
        """Offer less, because the agent refused: first the servers of clients go, then Semel's own."""
        if self._others:
            log.warning("agent %s refuses a client's MCP servers: %s", self.conversation.name, refusal)
            left_out = [server["name"] for server in self._others]
            self.conversation.left_out_servers = [*self.conversation.left_out_servers, *left_out]
            self._others = []
            self.session_params["mcpServers"] = self._offers[:1]
        else:
            del self._offers[0]
            self._make_offer(refusal)

    def _explain_no_offer(self, refusal: str) -> str:
        if refusal:
            return f"it refuses MCP servers ({refusal})"
        if self.options.mcp_transport == "http" or self.initialized.http_tools:
            return "it takes MCP servers over HTTP only, and the gateway does not listen on loopback"
        return "it starts no MCP servers"

    async def restore(self, memory: str, modes: Json | None) -> bool:
        """Load the session with the id `memory`, or else resume it. Return False if neither works.

        Loading is tried first, because the replay shows what the agent remembers (Law 9). `modes`: as in `Launch`.
        """
        ways: list[tuple[str, Literal["loaded", "resumed"]]] = []
        if self.initialized.can_load:
            ways.append(("session/load", "loaded"))
        if self.initialized.can_resume:
            ways.append(("session/resume", "resumed"))
        replays_late = self.profile.replay_until == "prompt"
        conversation = self.conversation
        conversation.memory = memory
        for method, restored in ways:
            conversation.replaying = True
            try:
                result = await self._open(method, {"sessionId": memory}, ends_replay=not replays_late)
            except RpcError as error:
                log.warning("agent %s: %s of %s failed: %s", conversation.name, method, memory, error)
                conversation.drop_signals()
                continue
            conversation.restored, conversation.choices = restored, Choices.read(result, restored=True)
            conversation.choices.keep_modes(modes)
            if replays_late:  # this agent replays after its answer, without any mark
                await conversation.wait_for_silence(LATE_REPLAY_QUIET_S)
            return True
        return False

    async def create(self) -> None:
        """Create a new session. Raises AgentError."""
        conversation = self.conversation
        try:
            result = await self._open("session/new", {})
        except RpcError as error:
            raise AgentError(f"agent {conversation.name!r} refused a new session: {error}") from error
        memory = text_at(result, "sessionId")
        if not memory:
            raise AgentError(f"agent {conversation.name!r} answered session/new without a sessionId")
        conversation.memory, conversation.choices = memory, Choices.read(result)

    async def apply_choices(self) -> None:
        """Set the configured mode and model. Raises AgentError if the agent does not offer them.

        Without a configured mode, an agent that would decide by itself is put into a mode in which it asks, if it has
        one. Otherwise the setting `permissions` would have no effect.
        """
        conversation, options = self.conversation, self.options
        current = str((conversation.modes or {}).get("currentModeId"))
        mode = options.mode
        if mode is None and conversation.decides_alone:
            mode = self.profile.asking_mode
        try:
            if mode is not None and mode != current:
                await conversation.set_mode(mode)
            if options.model is not None:
                await conversation.set_model(options.model)
        except AgentError as error:
            if options.mode is None and options.model is None:
                log.warning(
                    "agent %s decides by itself what it may do (mode %s): %s", conversation.name, current, error
                )
                return
            raise AgentError(
                join_sentences(str(error), f"Correct `mode` or `model` under [agents.{conversation.name}]")
            ) from error

    async def _open(self, method: str, params: Json, *, ends_replay: bool = False) -> Any:
        """Send a request that opens a session, and return the result.

        If the agent refuses Semel's MCP server, offer the next one, and at last none. Raises RpcError, AgentError.
        """
        is_load = self.conversation.replaying
        while True:
            try:
                return await self._request(method, {**params, **self.session_params}, ends_replay=ends_replay)
            except RpcError as error:
                if "mcp" not in str(error).lower() or not (self._offers or self._others):
                    raise
                self._withdraw_offer(str(error))
            self.conversation.replaying = is_load  # the refusal ended the replay

    async def _request(self, method: str, params: Json, *, ends_replay: bool = False) -> Any:
        """Send a request that opens a session, and return the result.

        If the agent demands a login, log in if possible, and send the request again. Raises RpcError for any other
        error of the agent, and AgentError if a person has to log in.
        """
        conversation, timeout = self.conversation, self.options.timeout
        is_load = conversation.replaying
        try:
            return await conversation.request(method, params, timeout, ends_replay=ends_replay)
        except RpcError as error:
            if not self._demands_login(error):
                raise
            used_variable = await self._authenticate(error)
        conversation.replaying = is_load  # the refusal ended the replay
        try:
            return await conversation.request(method, params, timeout, ends_replay=ends_replay)
        except RpcError as error:
            if not self._demands_login(error):
                raise
            raise self._login_error(f"{error}, although {used_variable} is set") from error

    def _demands_login(self, error: RpcError) -> bool:
        """Return whether the agent refused because nobody is logged in.

        Some agents say so only in words, or only in fields beside the error.
        """
        words = self.profile.logged_out_error
        if self.profile.find_hints(self.conversation.process.stderr.tail(20)):
            return False  # it said what else is wrong
        return (
            error.code == AUTH_REQUIRED
            or (self.conversation.login_status.kind == "none" and str(error) == "Internal error")
            or (words is not None and words.search(str(error)) is not None)
        )

    async def _authenticate(self, refusal: RpcError) -> str:
        """Log in with a key from the agent's environment. Return the name of the key's variable. Raises AgentError."""
        for method in self.initialized.logins:
            variable = method.find_variable(self.options.env)
            if variable is None or method.command:
                continue
            try:
                with restore_login_file(self.options.command, self.options.env):
                    await self.conversation.request("authenticate", {"methodId": method.id}, self.options.timeout)
            except RpcError as error:
                raise self._login_error(f"{error}, with {variable}") from error
            log.info("agent %s was logged in with %s", self.conversation.name, variable)
            return variable
        raise self._login_error(str(refusal)) from refusal

    def _login_error(self, reason: str) -> AgentError:
        name = self.conversation.name
        sentence = f"agent {name!r} is not logged in ({reason}): {self.conversation.login_advice.help}"
        return AgentError(sentence, logged_out=True)
