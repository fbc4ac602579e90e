"""The port of background jobs: what runs an agent's commands beside its turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from semel.gateway.ports.agent import Json

BY_AGENT = "the agent"
"""Who cancelled a job, where the agent of its session did: it is not woken by that job's end."""


@dataclass(frozen=True)
class Job:
    """A command that is to run in the background: a row of the ledger. `agent` names whose workspace and environment
    it gets; `seconds` is its time limit, `output` the bytes of its output that are kept."""

    id: str
    session: str  # session key
    agent: str
    command: str  # as a shell reads it
    name: str
    seconds: float
    output: int
    at: int  # ms


class CannotBegin(Exception):
    """Provably not started; the message says why."""


class Orphan(Protocol):
    """A job whose supervisor is gone, and what is still to be heard of it. It is held until `release`."""

    session: str

    def reports(self) -> list[Json]:
        """{"kind", "key", "text", "data", "wakes"?}, in order; how it ended is among them, or was heard before."""

    def release(self, heard: int) -> None:
        """Let go of it; the first so many reports were heard and are not told again."""


class Background(Protocol):
    """Starts and ends jobs, in processes that outlive the gateway. Its calls block: call them in a thread."""

    def begin(self, job: Job, ended: Callable[[], None]) -> None:
        """Start it; `ended` is called, in any thread, when what watches over it is gone. Raises CannotBegin."""

    def cancel(self, id: str, by: str) -> bool:
        """Have it ended: SIGTERM for its process group, SIGKILL later. False: nothing watches over it."""

    def present(self) -> set[str]:
        """The jobs that may still run, or have something to report."""

    def orphans(self) -> list[Orphan]:
        """The jobs whose supervisor is gone. What still ran of them is ended: nothing holds them to their limits."""
