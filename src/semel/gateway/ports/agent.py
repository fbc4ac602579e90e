"""The port of agents: the interface of an agent driver, and the values that it exchanges with the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from semel.ledger.turns.history import Past, Stretch
from semel.text.json_types import Json


@dataclass(frozen=True)
class Update:
    """An update from the agent. `data`: the "update" object of an ACP v1 session/update of any kind, unchanged.

    `replay`: it arrived while the agent replayed the history of a loaded session (session/load).
    """

    data: Json
    replay: bool = False


@dataclass(frozen=True)
class Asked:
    """A permission request from the agent. `id` is unique in its conversation. Reply with `Conversation.answer`."""

    id: str
    tool_call: Json
    options: tuple[Json, ...]  # ACP PermissionOption: {"optionId", "name", "kind"}


@dataclass(frozen=True)
class Answered:
    """The response that ends a prompt. `stop`: ACP's stop reason, or "error"; then `error` is the message.

    `logged_out`: the agent demands a login.
    """

    stop: str
    error: str | None = None
    meta: Json = field(default_factory=dict)
    logged_out: bool = False


@dataclass(frozen=True)
class Died:
    """The agent's process has ended, or its pipe is closed. No other signal follows."""

    why: str


Signal = Update | Asked | Answered | Died


class Inside(Protocol):
    """The services that the gateway offers to an agent that runs in the gateway's process (`kind = "model"`)."""

    async def past(self, room: int) -> Past:
        """Return the newest history of the chapter before the running turn, in at most `room` bytes.

        Raises LedgerError.
        """

    async def older(self, keep: int, most: int) -> Stretch | None:
        """Return the older history, which should be summarised; None if there is none. Raises LedgerError.

        Of the newest `most` bytes of history, these are all turns except the newest ones that fit into `keep` bytes.
        """

    async def summarised(self, stretch: Stretch, text: str, more: Json) -> None:
        """Record the summary of a stretch as an entry. Later prompts begin with it (Law 4).

        `stretch`: the result of `older`. `text`: the summary. `more`: additional fields of the entry's data. Raises
        AgentError if the turn is over, LedgerError.
        """

    async def settled(self) -> None:
        """Wait until all updates of this conversation so far are committed.

        Call this after announcing a tool call and before running it, so that the record shows the call as started (Law
        9). Raises AgentError if the turn is over.
        """

    async def call(self, method: str, params: Json) -> Json:
        """Make a request to the gateway's tools, as an agent's MCP process does. Return its result.

        `method`, `params`: see `semel.gateway.tools.tool_calls`. Raises GatewayError, LedgerError.
        """


@dataclass(frozen=True)
class Launch:
    """The parameters with which an agent driver starts a conversation."""

    session: str  # session key
    spawn: int  # the id of the spawn's row
    token: str  # the fencing token, for the agent's MCP process
    socket: Path  # the gateway's unix socket
    memory: str | None  # the agent's id of the conversation to load or resume; None: start a new one
    on_start: Callable[[int, int, str], Awaitable[None]]
    """Called with (pid, pgid, born) after the process was started and before anything is written to it."""
    tools_url: str | None = None
    """The URL of Semel's MCP server over HTTP, for agents that start no MCP process; None: loopback is not served."""
    modes: Json | None = None
    """The ACP SessionModeState of this conversation before, for agents that do not report it again; None if unknown."""
    folder: Path | None = None
    """The folder in which the agent works in this session; None: its own workspace."""
    mcp_servers: Sequence[Json] = ()
    """MCP servers (ACP McpServer) that the agent gets besides Semel's own, as far as it takes their transport."""
    inside: Inside | None = None
    """Set for an agent that runs in the gateway's process: it has no pid, and `on_start` is not called."""


RECORD = "ledger"
"""The `memory` of an agent that has no history of its own and reads the transcript (`Inside.past`)."""


class Conversation(Protocol):
    """A conversation with a live agent, for one session."""

    memory: str  # the agent's id of the conversation (ACP sessionId), or RECORD
    restored: Literal["new", "loaded", "resumed"]  # "loaded": the agent replays its history; "resumed": it does not
    agent_name: str  # agentInfo.name from the agent's answer to `initialize`, "" if it has none
    profile: str  # the name of the stream profile for this agent (semel.acp_stream.profiles)
    images: bool  # whether a prompt may contain images (ACP promptCapabilities)
    audio: bool  # whether it may contain sound
    resources: bool  # whether it may contain embedded resources (`embeddedContext`)
    tools_problem: str  # why the agent cannot have Semel's tools, if it refused them; "" if it did not
    tools_advice: str  # what a person can try if the agent does not reach Semel's tools, or ""
    left_out_servers: Sequence[str]  # the names of those of `Launch.mcp_servers` that the agent does not take

    @property
    def modes(self) -> Json | None:
        """The agent's ACP SessionModeState; None if it reported none."""

    @property
    def models(self) -> Json | None:
        """The agent's ACP SessionModelState or config option for models; None if it reported none."""

    @property
    def options(self) -> list[Json] | None:
        """The agent's configuration options (ACP SessionConfigOption); None if it reported none."""

    async def next(self) -> Signal:
        """Wait for the agent's next signal; signals come in the order in which it sent them.

        After `Died`, return `Died` again.
        """

    async def prompt(self, content: Sequence[Json]) -> None:
        """Write a prompt (ACP content blocks) to the agent. The signal `Answered` or `Died` ends it.

        While another prompt runs, call this (to steer the agent) only if the agent's profile allows it. Each prompt
        then gets its own `Answered`.
        """

    async def answer(self, id: str, option: str | None) -> None:
        """Answer the permission request `id`.

        `option`: an option's id; None cancels the request. Ignore an unknown `id`.
        """

    async def cancel(self) -> None:
        """Cancel the running prompt. Answer its open permission requests with "cancelled", as ACP demands."""

    async def set_mode(self, mode: str) -> None: ...

    async def set_model(self, model: str) -> None: ...

    async def set_option(self, option: str, value: str | bool) -> None:
        """Set one of `options`, by its id, to one of its values. Raises AgentError if the agent refuses."""

    async def close(self, grace: float) -> None:
        """End the agent's process group: close stdin, send SIGTERM after `grace` seconds and SIGKILL after `grace`
        more.
        """


class AgentError(Exception):
    """The agent could not be started, or refused a session. The message says what to do.

    `passing`: the error is transient, so that the same call may succeed a little later. `logged_out`: the agent demands
    a login.
    """

    def __init__(self, message: str, *, passing: bool = False, logged_out: bool = False) -> None:
        super().__init__(message)
        self.passing = passing
        self.logged_out = logged_out


class Agent(Protocol):
    """A configured agent. It can be started for a session."""

    name: str

    @property
    def process(self) -> bool:
        """Whether each conversation has a process of its own, which counts towards the setting `max_live_agents`."""

    async def open(self, launch: Launch) -> Conversation:
        """Start the process, initialize it, then load, resume or create the agent's session.

        Return the conversation. If `launch.memory` is given but the agent cannot restore that session, a new session is
        created, and `restored` is "new". The updates of a replay (session/load) come from `Conversation.next` with
        `replay` set. Raises AgentError.
        """
