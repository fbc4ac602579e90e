"""A scripted agent: one real process that speaks ACP and does exactly what a test says.

It is the demo agent (`semel.agents.demo`); its steps are described in `semel.agents.demo.script`. A test puts a
script into the prompt that a person would type, so the whole way through the gateway is real:

    agents = {"main": AgentSettings("main", tuple(command(state=tmp / "agent")), cwd=tmp)}
    await gateway.say("main:s", prompt({"call": "send_message", "arguments": {"text": "On it"}}, "On it"))

Restarts are scripted with `attempts` (the steps of the first, second ... time the script is begun), and what a
*resumed* turn does with `resume`. With `log` every prompt the agent was given is a line of a file, so a test can
count them (Law 9: nothing runs twice by itself).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.agents import demo
from semel.agents.demo.script import SCRIPT_MARK

Step = str | dict[str, Any]


def command(
    *,
    state: Path,
    script: Path | None = None,
    log: Path | None = None,
    name: str | None = None,
    instant: bool = False,
) -> list[str]:
    """The command line of a scripted agent.

    state    its memory: sessions that can be loaded again, and the counts of attempts
    script   a file with a script for prompts that bring none (see `semel.agents.demo.script`)
    log      each prompt becomes one line of this file (`prompts_given`)
    name     what it calls itself in `initialize`: the gateway reads its stream by the profile of that name
    instant  every prompt is answered at once with `pong N`, N = time.monotonic_ns() as the prompt was read
    """
    arguments = ["--state", str(state)]
    if script is not None:
        arguments += ["--script", str(script)]
    if log is not None:
        arguments += ["--log", str(log)]
    if name is not None:
        arguments += ["--name", name]
    if instant:
        arguments.append("--instant")
    return demo.command(*arguments)


def prompt(
    *steps: Step,
    attempts: Sequence[Sequence[Step]] | None = None,
    resume: Sequence[Step] | None = None,
    **more: Any,
) -> str:
    """The text to say to a scripted agent so that it does these steps. `more`: name, stop, meta."""
    script: dict[str, Any] = {"steps": list(steps), **more}
    if attempts is not None:
        script["attempts"] = [list(one) for one in attempts]
    if resume is not None:
        script["resume"] = list(resume)
    return f"{SCRIPT_MARK}{json.dumps(script, ensure_ascii=False)}]]"


@dataclass(frozen=True)
class Given:
    """A prompt as the agent was given it."""

    session: str  # the agent's own id of the conversation
    heard: int  # time.monotonic_ns() as it was read
    text: str  # its text blocks, joined by newlines


def prompts_given(log: Path) -> list[Given]:
    """All prompts that agents with this log were given so far, in order."""
    if not log.exists():
        return []
    return [Given(**json.loads(line)) for line in log.read_text().splitlines()]
