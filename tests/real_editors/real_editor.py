"""What every real editor of these tests can do, and where it is installed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from system_house import House, script

INSTALLED = Path(__file__).parents[2] / ".agents"
Json = dict[str, Any]


ALLOW = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class DisplayedCall(NamedTuple):
    """A tool call as the editor shows it."""

    status: str
    title: str
    text: str


class RealEditor(Protocol):
    """A program that has started `semel acp`, and what it shows of the session that is open in it."""

    sees_others_at_once: bool
    """Whether what others say is shown outside of its own turns."""

    def new(self) -> str:
        """Open a new session in the house's folder; return its id."""

    def load(self, session: str) -> None: ...

    def begin(self, text: str) -> None:
        """Send a prompt."""

    def stopped(self) -> str:
        """Wait until the prompt is answered; return the stop reason, or the words of the error."""

    def texts(self, kind: str = "agent") -> list[str]:
        """The messages (agent), other people's messages (user) or thoughts (thought) that are shown, in order."""

    def calls(self) -> list[DisplayedCall]: ...

    def questions(self) -> list[str]:
        """The names of the options that are offered now."""

    def choose(self, name: str) -> None: ...

    def cancel(self) -> None: ...

    def end(self) -> None: ...


def find_program(name: str, place: str) -> Path:
    """Return a program of an editor below `.agents/`; skip the test if the editor is not installed."""
    found = next(iter((INSTALLED / name).glob(place)), None)
    if found is None or not (INSTALLED / name / ".installed").exists():
        pytest.skip(f"{name} is not installed: make test-editors installs it")
    return found


def acp_command(house: House, agent: tuple[str, ...] = ("--agent", "demo")) -> list[str]:
    """The command that an editor starts. `agent`: the options that name the agent."""
    return [
        *(sys.executable, "-m", "semel", "acp"),
        *("--config", str(house.toml), "--data-dir", str(house.data), *agent),
    ]


def environment(house: House, **more: str) -> dict[str, str]:
    """An editor's variables: a home of its own, and none of this run's settings of Python's start."""
    return {**house.environment, "PYTHONPATH": os.pathsep.join(sys.path), **more}


def stream_output(gate: Path) -> str:
    """A prompt for a call `make` that prints `first`, waits for `gate`, and ends."""
    call = {"toolCallId": "make", "title": "make", "kind": "execute", "status": "in_progress"}
    output = {"toolCallId": "make", "_meta": {"terminal_output": {"terminal_id": "make", "data": "first\n"}}}
    return script(
        {"update": {"sessionUpdate": "tool_call", **call}},
        {"update": {"sessionUpdate": "tool_call_update", **output}},
        {"wait": str(gate)},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "make", "status": "completed"}},
        "Made.",
    )


def kill_and_restart(house: House, gate: Path) -> None:
    """Kill the gateway in a turn that waits for `gate`, open that, and start the gateway again."""
    house.kill()
    time.sleep(0.3)
    gate.touch()
    house.up()
