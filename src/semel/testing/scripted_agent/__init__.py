"""A scripted agent: a real process that speaks ACP and does exactly what a test says. It needs no network and no model.

A script is a list of steps; `semel.testing.scripted_agent.script` describes them. A test puts a script into a person's
message, so that the whole way through the gateway is real:

    agents = {"main": AgentSettings("main", tuple(command(state=tmp / "agent")), cwd=tmp)}
    await gateway.say("main:s", prompt({"call": "send_message", "arguments": {"text": "On it"}}, "On it"))

To script restarts, use `attempts` (the steps of the first, second ... start of the script); to script a resumed turn,
use `resume`. With the option `log`, the agent writes every prompt that it receives to a file, one per line, so that a
test can count them (Law 9: nothing runs twice by itself).

Because tests start it often, it imports only the standard library, and of that no dataclasses, which import slowly.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from semel.testing.scripted_agent.script import SCRIPT_MARK


def command(
    *, state: Path | None = None, script: Path | None = None, log: Path | None = None, instant: bool = False
) -> list[str]:
    """Return the command line of a scripted agent.

    state    the directory of its memory: sessions that can be loaded again, and the counts of attempts; by default
             `.scripted-agent` in its working directory
    script   a file with scripts for prompts that contain none (see the module `script`)
    log      the file to which it writes each prompt (`read_prompts` reads it)
    instant  whether it answers every prompt at once with `pong N`, where N is time.monotonic_ns() when it read the
             prompt

    The command line may also have `--name NAME`, the name that the agent gives in its answer to initialize (the gateway
    reads an agent's stream by the profile for its name), and `--mcp HOW`: which MCP servers it takes: `stdio`, `http`,
    none although it accepts them (`ignored`), or none (`refused`).
    """
    arguments = [sys.executable, "-P", "-m", "semel.testing.scripted_agent"]
    for option, path in (("--state", state), ("--script", script), ("--log", log)):
        if path is not None:
            arguments += [option, str(path)]
    return [*arguments, "--instant"] if instant else arguments


def prompt(*steps: str | dict[str, Any], **more: Any) -> str:
    """Return a message that makes a scripted agent run these steps. `more`: the other keys of the script."""
    return f"{SCRIPT_MARK}{json.dumps({'steps': list(steps), **more}, ensure_ascii=False)}]]"


class ReceivedPrompt(NamedTuple):
    """A prompt that the agent received."""

    session: str  # the agent's own id of the conversation
    heard: int  # time.monotonic_ns() when the agent read it
    text: str  # its text blocks, joined by newlines


def read_prompts(log: Path) -> list[ReceivedPrompt]:
    """Return all prompts that agents with this `log` file have received so far, in order."""
    if not log.exists():
        return []
    return [ReceivedPrompt(**json.loads(line)) for line in log.read_text().splitlines()]
