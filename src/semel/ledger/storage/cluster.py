"""Several gateways on one ledger: one is active, the others wait to take over (`[cluster]`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class GatewayIdentity:
    """Who a gateway is. `address`: the URL at which people and other machines reach it; None if nobody said."""

    name: str
    address: str | None
    host: str
    version: str


@dataclass(frozen=True)
class ClusterGateway:
    """A gateway of a ledger, as the others see it. `joined`, `seen`: in ms since the epoch; `seen`: its last sign of
    life."""

    name: str
    address: str | None
    host: str
    version: str
    is_active: bool
    joined: int
    seen: int


class ClusterMember(Protocol):
    """A gateway's place among those of its ledger, until `leave`. The methods block."""

    def try_to_take_over(self) -> bool:
        """Become the active gateway if no other one is. Call this again until it returns True.

        In between, at the latest every two seconds: a call is also the sign of life of a gateway that waits. Raises
        LedgerError; but while the ledger cannot be reached, this returns False.
        """
        ...

    @property
    def problem(self) -> str | None:
        """Why the ledger could not be reached at the last attempt, as a sentence; None if it could."""
        ...

    @property
    def active(self) -> ClusterGateway | None:
        """The gateway that was active at the last attempt; None if it is not one of the cluster."""
        ...

    def guard(self, when_lost: Callable[[str], Any]) -> None:
        """From now on, show that the active gateway lives.

        Call `when_lost`, once and on a thread of its own, as soon as another gateway may have taken over. It is given
        the reason.
        """
        ...

    def leave(self) -> None:
        """Let another gateway take over at once. The ledger is closed already."""
        ...
