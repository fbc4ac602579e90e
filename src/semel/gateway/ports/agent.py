"""The port of agents: what a driver must be for the gateway to run turns with it."""

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

    `replay` is true while the agent re-tells a loaded session (`session/load`), by position on the wire.
    """

    data: Json
    replay: bool = False


@dataclass(frozen=True)
class Asked:
    """The agent asks for permission. `id` is unique in its conversation; answer with `Conversation.answer`."""

    id: str
    tool_call: Json
    options: tuple[Json, ...]  # ACP PermissionOption: {"optionId", "name", "kind"}


@dataclass(frozen=True)
class Answered:
    """The prompt's response. `stop` is ACP's stop reason as it came, or "error" with `error` set."""

    stop: str
    error: str | None = None
    meta: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Died:
    """The process is gone or its pipe is closed; nothing follows."""

    why: str


Signal = Update | Asked | Answered | Died


class Inside(Protocol):
    """What an agent that runs in the gateway's own process may use of it (`kind = "model"`)."""

    async def past(self, room: int) -> Past:
        """What was said in the session's chapter before the running turn, at most `room` bytes. Raises LedgerError."""

    async def older(self, keep: int, most: int) -> Stretch | None:
        """All of that but the newest turns of `keep` bytes, to be summarised; None: there is nothing older.

        Of the newest `most` bytes. Raises LedgerError.
        """

    async def summarised(self, stretch: Stretch, text: str, more: Json) -> None:
        """This is their summary: an entry, which later prompts begin with (Law 4). `more` joins it.

        Raises AgentError if the turn is over, LedgerError.
        """

    async def settled(self) -> None:
        """All that this conversation has told so far is committed: what it does next is known to have begun (Law 9).

        Raises AgentError if its turn is over.
        """

    async def call(self, method: str, params: Json) -> Json:
        """The gateway's socket without the socket (`semel.gateway.tools.rpc`). Raises RpcError, LedgerError."""


@dataclass(frozen=True)
class Launch:
    """What a conversation is started with."""

    session: str  # session key
    spawn: int  # the spawn row
    token: str  # the fencing token, for the agent's MCP process
    socket: Path  # the gateway's unix socket
    memory: str | None  # the agent's own id of this conversation, to load or resume; None: a new one
    on_start: Callable[[int, int, str], Awaitable[None]]
    """Called with (pid, pgid, born) after the process was started and before anything is written to it."""
    inside: Inside | None = None
    """For an agent that is no process: it has no pid, `on_start` is not called, nothing of it outlives the gateway."""


RECORD = "ledger"
"""The `memory` of an agent that has none of its own: it remembers what the record holds (`Inside.past`)."""


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
        """The next signal, in the order of the wire. Waits. After `Died` it returns `Died` again."""

    async def prompt(self, content: Sequence[Json]) -> None:
        """Write a prompt (ACP content blocks). Its end comes as `Answered`, or `Died`.

        A second one while a prompt runs is for an agent whose profile says that it steers: each is `Answered`.
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

    `passing`: the same may succeed a little later.
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class Agent(Protocol):
    """A configured agent: it can be started for a session."""

    name: str

    @property
    def process(self) -> bool:
        """Whether each conversation is a process of its own: those count among `max_live_agents`."""

    async def open(self, launch: Launch) -> Conversation:
        """Start the process, `initialize`, then load, resume or create the session.

        A replay (`session/load`) arrives through `next` as `Update(replay=True)`, before `open` returns or after.
        Raises AgentError. If `memory` was given and the agent cannot restore it, a new session is made and
        `restored` is "new".
        """
