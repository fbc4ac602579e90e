"""The port of background jobs: the interface of the runner that executes agents' commands outside their turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from semel.gateway.ports.agent import Json

BY_AGENT = "the agent"
"""The `by` of a job that its session's own agent cancelled. The end of such a job does not wake the agent."""


@dataclass(frozen=True)
class Job:
    """A command to run in the background, in the workspace and environment of `agent`. `seconds` is its time limit,
    `output` the number of bytes of its output to keep."""

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
    """A job whose supervisor is gone, with its undelivered reports. It stays locked until `release`."""

    session: str

    def reports(self) -> list[Json]:
        """The undelivered reports in order: {"kind", "key", "text", "data", "wakes"?}, with the end of the job."""

    def release(self, heard: int) -> None:
        """Unlock the job. The first `heard` reports were accepted and are not delivered again."""


class Background(Protocol):
    """Starts and ends jobs in processes that outlive the gateway. The methods block; call them in a thread."""

    def begin(self, job: Job, ended: Callable[[], None]) -> None:
        """Start a job. `ended` is called, in any thread, when the job's supervisor exits. Raises CannotBegin."""

    def cancel(self, id: str, by: str) -> bool:
        """Have the job ended: SIGTERM to its process group, SIGKILL later. False if it has no supervisor."""

    def present(self) -> set[str]:
        """The ids of the jobs that may still run or have undelivered reports."""

    def orphans(self) -> list[Orphan]:
        """The jobs whose supervisor is gone. What still runs of them is killed: nothing enforces their limits."""
