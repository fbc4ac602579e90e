"""The port of background jobs: the interface of the runner that executes agents' commands outside their turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from semel.text.json_types import Json

BY_AGENT = "the agent"
"""The argument `by` of `Background.cancel` if the session's own agent cancels. Then the job's end wakes no agent."""


@dataclass(frozen=True)
class Job:
    """A command to run in the background, in the workspace and environment of `agent`.

    `seconds`: its time limit. `output`: how many bytes of its output to keep. `at`: when it was started. `folder`: the
    folder in which it runs; None: the agent's own workspace.
    """

    id: str
    session: str  # session key
    agent: str
    command: str  # a shell command
    name: str
    seconds: float
    output: int
    at: int  # ms
    folder: str | None = None


class CannotBegin(Exception):
    """The job was provably not started. The message says why."""


class Orphan(Protocol):
    """A job whose supervisor process is gone, and whose reports have not all been delivered.

    It stays locked until `release`.
    """

    session: str

    def reports(self) -> list[Json]:
        """Return the undelivered reports in order, up to the job's end: {"kind", "key", "text", "data", "wakes"?}."""

    def release(self, heard: int) -> None:
        """Unlock the job. `heard`: how many of the reports were accepted, so that they are not delivered again."""


class Background(Protocol):
    """The runner of jobs, in processes that outlive the gateway. All methods block; call them in a thread."""

    def begin(self, job: Job, ended: Callable[[], None]) -> None:
        """Start a job. When its supervisor exits, `ended` is called, in any thread. Raises CannotBegin."""

    def cancel(self, id: str, by: str) -> bool:
        """Make the job's supervisor end the job: SIGTERM to its process group, SIGKILL later.

        `by`: who cancels it, for the report. Return False if the job has no supervisor.
        """

    def present(self) -> set[str]:
        """Return the ids of the jobs that may still run, or that have undelivered reports."""

    def orphans(self) -> list[Orphan]:
        """Return the jobs whose supervisor is gone.

        Kill their processes first, because nothing enforces their limits.
        """
