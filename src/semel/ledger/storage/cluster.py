"""Several gateways on one ledger (`[cluster]`): all of them run turns, one of them has the duties.

The duties are what only one gateway may do: channels, outbox, schedules, erasures. The gateway that has them is the
active one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

GIVEN_UP_AFTER_S = 10.0
"""Seconds after its last sign of life for which a gateway keeps its place, if it holds its lock."""


@dataclass(frozen=True)
class GatewayIdentity:
    """Who a gateway is. `address`: the URL at which people and other machines reach it; None if nobody said.

    `room`: how many agent processes it may run. `token`: a digest of the owner's token, which all gateways share.
    """

    name: str
    address: str | None
    host: str
    version: str
    room: int = 1
    token: str = ""


@dataclass(frozen=True)
class ClusterGateway:
    """A gateway of a ledger, as the others see it. `joined`, `seen`: in ms since the epoch; `seen`: its last sign of
    life. `serves`: it runs turns; else it waits. `agents`: how many agent processes it runs, of at most `room`.
    `silent_s`: seconds since `seen`, by the server's clock; a gateway that is well shows life every two seconds."""

    name: str
    address: str | None
    host: str
    version: str
    is_active: bool
    joined: int
    seen: int
    serves: bool = False
    agents: int = 0
    room: int = 1
    silent_s: float = field(default=0.0, compare=False)


class ClusterWatcher(Protocol):
    """Whom a `ClusterMember` tells what happens to it. Each method is called on a thread of its own."""

    def note_loss(self, reason: str) -> object:
        """Another gateway may have taken this one's place. This is the last call."""
        ...

    def note_active(self) -> object:
        """This gateway has the duties now."""
        ...

    def note_gateways(self, gateways: Sequence[ClusterGateway]) -> object:
        """These gateways live, this one among them. This is called every two seconds, and when one has come or gone."""
        ...

    def count_agents(self) -> int:
        """Return how many agent processes this gateway runs."""
        ...

    def is_answering(self) -> bool:
        """Return whether this gateway can answer anybody; this is asked a few times a second.

        While it cannot, it does not show that it lives.
        """
        ...


class ClusterMember(Protocol):
    """A gateway's place among those of its ledger, until `leave`. The methods block."""

    def try_to_take_over(self) -> bool:
        """Become the active gateway if no other one is. Call this again until it returns True, or the gateway serves.

        In between, at the latest every two seconds: a call is also the sign of life of a gateway that waits. Raises
        LedgerError; but while the ledger cannot be reached, this returns False.
        """
        ...

    @property
    def address(self) -> str | None:
        """The URL at which the other gateways reach this one; None if it has none, so that it cannot run turns."""
        ...

    @property
    def has_taken_over(self) -> bool:
        """Whether this gateway is the active one."""
        ...

    @property
    def problem(self) -> str | None:
        """Why this gateway could not take a place at the last attempt, as a sentence; None if it could."""
        ...

    @property
    def active(self) -> ClusterGateway | None:
        """The gateway that was active at the last attempt; None if it is not one of the cluster."""
        ...

    @property
    def may_serve(self) -> bool:
        """Whether this gateway could run turns beside the active one, as of the last attempt."""
        ...

    def report_to(self, watcher: ClusterWatcher) -> None:
        """From now on, show that this gateway lives, and tell `watcher` what happens. The ledger is open.

        If this gateway is not the active one, it takes over when that one is gone.
        """
        ...

    def hand_over(self) -> None:
        """Let another gateway become the active one now. This one still runs turns, and never takes over again."""
        ...

    def leave(self) -> None:
        """Let another gateway take over at once. The ledger is closed already."""
        ...


@dataclass(frozen=True)
class Hint:
    """What another gateway tells about its commits. A hint may be lost, and may come twice: the rows are the truth.

    `sender`: its name; this gateway's own if its own connection was lost. `changed`: ids of sessions whose view has
    changed. `woken`: ids of sessions in which the gateway that gets this hint has something to do. `duties`: this
    gateway has the duties, and is to look at its queues (outbox, schedules, erasures). `is_gap`: hints may have been
    lost; look at everything.
    """

    sender: str
    changed: frozenset[int] = frozenset()
    woken: frozenset[int] = frozenset()
    duties: bool = False
    is_gap: bool = False


class ClusterHints(Protocol):
    """How the gateways of a ledger tell each other about their commits, from `start` to `close`.

    A hint only saves waiting: each gateway also looks at the rows every two seconds. Tell after the commit. The methods
    that tell may be called from any thread, return at once and never raise. A gateway is not told what it tells.
    """

    def start(self, receive: Callable[[Hint], object]) -> None:
        """From now on, call `receive` with each hint of another gateway that concerns this one.

        It is called on a thread of its own and has to return at once, so it only queues the hint. The first hint is one
        with `is_gap`, and another one comes after each loss of the connection.
        """
        ...

    def tell_changed(self, sessions: Collection[int]) -> None:
        """Tell all gateways that the views of these sessions have changed."""
        ...

    def wake_session(self, gateway: str | None, session: int) -> None:
        """Tell a gateway by its name, or the one that has the duties (None), that a session has something to do."""
        ...

    def tell_duties(self) -> None:
        """Tell the gateway that has the duties to look at its queues."""
        ...

    def close(self) -> None:
        """Send what was told, if the ledger can be reached, and end. This takes at most a second."""
        ...
