"""A live agent, and signals that the gateway itself adds to the agent's queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from semel.acp_stream import Fold
from semel.acp_stream.choices import read_choices
from semel.acp_stream.profiles import CAREFUL, PROFILES
from semel.gateway.ports import Conversation, Signal, Update
from semel.gateway.turns.agent_files import AgentFiles
from semel.gateway.turns.stream_view import StreamView
from semel.ledger.turns import turn_ops
from semel.text.json_types import Json


class FlushBarrier(asyncio.Event):
    """A barrier in the queue of signals. It is set once everything before it is committed."""


class SteerCancelled:
    """The signal that a prompt which should have joined the turn was not sent. The agent will not answer it."""


QueuedSignal = Signal | FlushBarrier | SteerCancelled


WITHOUT_TOOLS = (
    "It cannot send messages or files in the middle of its turn, ask questions or start jobs; "
    "what it writes is delivered"
)
"""What it means for people if an agent does not have Semel's tools."""


def explain_no_tools(conversation: Conversation, default_reason: str) -> str:
    """Return why the agent has no tools, what to try, and what it means.

    `default_reason`: the reason if the agent did not refuse them.
    """
    sentences = (conversation.tools_problem or default_reason, conversation.tools_advice, WITHOUT_TOOLS)
    return ". ".join(sentence for sentence in sentences if sentence)


def read_offers(conversation: Conversation) -> Json:
    """Return what an agent offers in its session: its modes, its models and its configuration options.

    "steers": whether it reads a second prompt while a turn runs. "unattended_modes": the ids of the modes in which it
    decides by itself; None if it has no modes.
    """
    modes = conversation.modes
    profile = PROFILES.get(conversation.profile, CAREFUL)
    return {
        "steers": profile.second == "steers",
        "modes": modes,
        "models": conversation.models,
        "options": conversation.options,
        "unattended_modes": None
        if modes is None
        else sorted(profile.unattended_modes & read_choices({"modes": modes}, "mode")[1].keys()),
    }


class AgentLost(Exception):
    """The agent's process died during the turn, or no longer answers."""


@dataclass
class LiveAgent:
    """A running agent and its state.

    `session`, `key`: the session's id and key. `agent`: the agent's name in semel.toml.
    """

    spawn: int
    session: int
    key: str
    agent: str
    conversation: Conversation
    idle_after_s: float
    files: AgentFiles = field(repr=False)
    process: bool = True  # whether it counts towards the limit of the pool
    pid: int | None = None  # of its process and that one's group; None if it runs in the gateway's process
    pgid: int | None = None
    busy: bool = True
    last_used: float = 0.0
    was_prompted: bool = False
    is_logged_out: bool = False  # its last answer demanded a login: only a new process reads the login again
    announced_names: tuple[str, ...] | None = None  # the destination names that a prompt has listed
    has_tools: bool | None = None  # whether it can call Semel's tools; None: not known yet
    primed: bool = False  # whether a prompt has told it how its memory differs from the record
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)
    tools_timer: asyncio.TimerHandle | None = field(default=None, repr=False)
    signals: asyncio.Queue[QueuedSignal] = field(default_factory=asyncio.Queue, repr=False)
    has_announced_commands: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    history_ended: bool = False  # whether its replay shows that its last turn had ended
    announces: bool | None = None  # whether its stream announces tool calls; None: unknown yet
    record_afterwards: Callable[[list[Update]], Awaitable[None]] | None = field(
        default=None, repr=False
    )  # `Run.record_afterwards` of its last turn
    aftermath: asyncio.Task[None] | None = field(default=None, repr=False)
    is_settling: bool = False
    fold: Fold = field(default_factory=Fold, repr=False)
    view: StreamView = field(default_factory=StreamView, repr=False)
    slots: turn_ops.Slots = field(default_factory=turn_ops.Slots, repr=False)
    pump: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_unprompted(self) -> bool:
        """Whether its conversation is new and was never prompted, so that nothing it has said can be an answer."""
        return not self.was_prompted and self.conversation.restored == "new"

    def list_waiting_updates(self) -> list[Json]:
        """Return the updates in the queue, in order, and leave them there."""
        waiting = self.take_waiting()
        self.put_back(waiting)
        return [signal.data for signal in waiting if isinstance(signal, Update)]

    @property
    def tools_problem(self) -> str:
        """The reason why the agent has no tools, and what follows from that for people."""
        return explain_no_tools(self.conversation, "it has not started Semel's MCP server")

    def cancel_timer(self) -> None:
        """Cancel the timer that would end the idle process."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def put_barrier(self) -> FlushBarrier:
        """Queue a barrier behind all signals so far, and return it."""
        barrier = FlushBarrier()
        self.signals.put_nowait(barrier)
        return barrier

    def take_waiting(self) -> list[QueuedSignal]:
        """Remove all signals from the queue, and return them."""
        return [self.signals.get_nowait() for _ in range(self.signals.qsize())]

    def release_waiting(self) -> None:
        """Set all barriers in the queue, so that no task waits for them any more. Other signals stay in the queue."""
        for signal in self.take_waiting():
            if isinstance(signal, FlushBarrier):
                signal.set()
            else:
                self.signals.put_nowait(signal)

    def put_back(self, signals: Iterable[QueuedSignal]) -> None:
        """Put signals back into the queue, at its end."""
        for signal in signals:
            self.signals.put_nowait(signal)
