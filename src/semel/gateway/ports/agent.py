"""The port of agents: the interface of an agent driver, and the values it exchanges with the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from semel.ledger.turns.history import Past, Stretch

Json = dict[str, Any]


@dataclass(frozen=True)
class Update:
    """One ACP `session/update`'s `update` object, as it came (v1 shapes; unknown kinds included).

    `replay` is true while the agent replays a loaded session (`session/load`), judged by the order on the wire.
    """

    data: Json
    replay: bool = False


@dataclass(frozen=True)
class Asked:
    """A permission request of the agent. `id` is unique in its conversation; reply with `Conversation.answer`."""

    id: str
    tool_call: Json
    options: tuple[Json, ...]  # ACP PermissionOption: {"optionId", "name", "kind"}


@dataclass(frozen=True)
class Answered:
    """The response to a prompt, which ends it. `stop` is ACP's stop reason, or "error" with `error` set."""

    stop: str
    error: str | None = None
    meta: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Died:
    """The process ended or its pipe is closed; no other signal follows."""

    why: str


Signal = Update | Asked | Answered | Died


class Inside(Protocol):
    """The services of the gateway for an agent that runs in the gateway's own process (`kind = "model"`)."""

    async def past(self, room: int) -> Past:
        """The history of the chapter before the running turn, at most `room` bytes of it. Raises LedgerError."""

    async def older(self, keep: int, most: int) -> Stretch | None:
        """The part of that history to summarise: all but the newest turns, which together fill `keep` bytes.

        At most its newest `most` bytes. `None` if there is nothing older. Raises LedgerError.
        """

    async def summarised(self, stretch: Stretch, text: str, more: Json) -> None:
        """Record the summary of a stretch as an entry, with which later prompts begin (Law 4).

        `more` is added to the entry's data. Raises AgentError if the turn is over, LedgerError.
        """

    async def settled(self) -> None:
        """Wait until all updates of this conversation so far are committed.

        Call it after announcing a tool call and before running it, so that the record shows the call as started
        (Law 9). Raises AgentError if the turn is over.
        """

    async def call(self, method: str, params: Json) -> Json:
        """Call an RPC method of the gateway directly (`semel.gateway.tools.rpc`). Raises RpcError, LedgerError."""


@dataclass(frozen=True)
class Launch:
    """The parameters with which a conversation is started."""

    session: str  # session key
    spawn: int  # the spawn row
    token: str  # the fencing token, for the agent's MCP process
    socket: Path  # the gateway's unix socket
    memory: str | None  # the agent's id of the conversation to load or resume; None: start a new one
    on_start: Callable[[int, int, str], Awaitable[None]]
    """Called with (pid, pgid, born) after the process was started and before anything is written to it."""
    inside: Inside | None = None
    """Set for an agent that runs in the gateway's process: it has no pid, and `on_start` is not called."""


RECORD = "ledger"
"""The `memory` of an agent without a history of its own: it reads the transcript (`Inside.past`)."""


class Conversation(Protocol):
    """One live agent process that holds one session."""

    memory: str  # the agent's id of the conversation (ACP sessionId), or RECORD
    restored: Literal["new", "loaded", "resumed"]
    agent_name: str  # from `initialize` (agentInfo.name), "" if it did not say
    profile: str  # the name of the stream profile that fits (semel.acp_stream.profiles)
    images: bool  # it takes image blocks in a prompt (ACP promptCapabilities)

    @property
    def modes(self) -> Json | None:
        """ACP SessionModeState, if any."""

    @property
    def models(self) -> Json | None:
        """ACP SessionModelState or the model config option, if any."""

    async def next(self) -> Signal:
        """Wait for the next signal, in the order of the wire. After `Died` it returns `Died` again."""

    async def prompt(self, content: Sequence[Json]) -> None:
        """Write a prompt (ACP content blocks) to the agent. It ends with a signal `Answered`, or `Died`.

        A second prompt while one runs is sent only to agents whose profile says that they accept it (steering); each
        prompt then gets its own `Answered`.
        """

    async def answer(self, id: str, option: str | None) -> None:
        """Answer a permission request with an option id, or None for cancelled. Unknown ids are ignored."""

    async def cancel(self) -> None:
        """Cancel the running prompt, and answer its open permission requests as cancelled (ACP)."""

    async def set_mode(self, mode: str) -> None: ...

    async def set_model(self, model: str) -> None: ...

    async def close(self, grace: float) -> None:
        """End the process group: stdin closed, SIGTERM after `grace` seconds, SIGKILL after `grace` more."""


class AgentError(Exception):
    """The agent could not be started or refused a session. The message says what to do.

    `passing`: the error is transient; the same call may succeed a little later.
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class Agent(Protocol):
    """A configured agent: it can be started for a session."""

    name: str

    @property
    def process(self) -> bool:
        """Whether each conversation is a process of its own, which counts towards `max_live_agents`."""

    async def open(self, launch: Launch) -> Conversation:
        """Start the process, `initialize`, then load, resume or create the session.

        A replay (`session/load`) arrives through `next` as `Update(replay=True)`, before `open` returns or after.
        Raises AgentError. If `memory` was given and the agent cannot restore it, a new session is made and
        `restored` is "new".
        """
