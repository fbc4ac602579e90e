"""What a scripted model says, and how it knows where in its script it is.

A prompt carries a mark, `[[S:name]]`: the newest one chooses the scenario. The step in it is the number of tool
results behind that prompt, and the attempt how often this very step was asked before (agents ask again after a
broken stream, and Semel after a lost process).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
MARK = re.compile(r"\[\[S:([\w-]+)\]\]")
GOES_ON = "[semel: your turn goes on"  # how Semel's prompt to an interrupted agent begins
SUGGEST = "[SUGGESTION MODE"  # Claude Code asks, behind a turn, what the person might type next
SUGGESTION = "A suggestion that nobody typed."


@dataclass(frozen=True)
class Text:
    """Text of the answer, streamed in `pieces`, one every `pause` seconds.

    With `hold` it is all there, but does not end before the test opens the gate of that name.
    """

    text: str
    pieces: int = 5
    pause: float = 0.02
    hold: str = ""


@dataclass(frozen=True)
class Think(Text):
    """Reasoning, streamed likewise."""


@dataclass(frozen=True)
class Shell:
    """A call of the agent's own tool that runs a command."""

    command: str


@dataclass(frozen=True)
class Tool:
    """A call of one of Semel's tools."""

    name: str
    arguments: Json


@dataclass(frozen=True)
class Gate:
    """The model pauses here, what stands before being complete, until the test opens the gate."""

    name: str


@dataclass(frozen=True)
class Cut:
    """The connection breaks; what stands before it in this attempt was streamed and not ended."""


@dataclass(frozen=True)
class Refuse:
    """The server refuses the request with this HTTP status; an attempt has nothing else."""

    status: int


Act = Text | Shell | Tool | Gate | Cut | Refuse
Attempt = Sequence[Act]


@dataclass(frozen=True)
class Scenario:
    """`steps[n]` is asked after n tool results; each is a list of attempts, the last one for all further ones.

    `resumed` answers the prompt with which Semel lets an interrupted turn go on.
    """

    steps: Sequence[Sequence[Attempt]]
    resumed: Sequence[Act] = ()


@dataclass(frozen=True)
class Ask:
    """One request to the model, as a test reads it: `name:step` or `name:resumed`, and what the user said last."""

    what: str
    attempt: int
    said: str = field(compare=False, default="")


Turn = tuple[Literal["user", "result"], str]


@dataclass
class Script:
    """The scenarios, what was asked so far, and the gates."""

    scenarios: Mapping[str, Scenario]
    asks: list[Ask] = field(default_factory=list)
    aside: int = 0  # requests that are not part of a conversation: titles and the like
    _asked: Counter[str] = field(default_factory=Counter)
    _gates: dict[str, asyncio.Event] = field(default_factory=dict)
    _ids: Iterable[int] = field(default_factory=lambda: itertools.count(1))

    def gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(iter(self._ids)):024d}"

    def next(self, turns: Sequence[Turn]) -> Attempt:
        """What to say to this conversation."""
        if turns and turns[-1][1].startswith(SUGGEST):
            self.aside += 1
            return [Text(SUGGESTION)]
        said, results = "", 0
        for kind, text in turns:
            if kind == "user" and MARK.search(text):
                said, results = text, 0
            elif kind == "result":
                results += 1
        if not said:
            raise LookupError(f"no prompt carries a mark: {turns!r:.500}")
        name = MARK.findall(said)[-1]
        scenario = self.scenarios[name]
        step = "resumed" if GOES_ON in said else str(min(results, len(scenario.steps) - 1))
        what = f"{name}:{step}"
        attempt = self._asked[what]
        self._asked[what] += 1
        self.asks.append(Ask(what, attempt, said))
        if step == "resumed":
            return scenario.resumed
        attempts = scenario.steps[int(step)]
        return attempts[min(attempt, len(attempts) - 1)]

    @property
    def asked(self) -> list[str]:
        return [ask.what for ask in self.asks]


def pieces(text: str, n: int) -> list[str]:
    """The text in about n equal pieces."""
    size = max(1, -(-len(text) // max(1, n)))
    return [text[at : at + size] for at in range(0, len(text), size)]


def refused(acts: Attempt) -> int | None:
    """The HTTP status with which this attempt is refused; None if it is answered."""
    return acts[0].status if acts and isinstance(acts[0], Refuse) else None


def broken(acts: Attempt, n: int) -> bool:
    """Whether act n streams and is cut off before its end."""
    return n + 1 < len(acts) and isinstance(acts[n + 1], Cut)


SHELLS = (
    "Bash", "exec_command", "shell_command", "shell", "bash", "local_shell", "run_shell_command", "terminal",
    "execute_bash", "execute", "exec", "run_commands",
)  # fmt: skip


def shell_call(tools: Mapping[str, Json], command: str) -> tuple[str, Json] | None:
    """(name, arguments) of the agent's shell, as its schema wants it; None if it offers none."""
    for name in SHELLS:
        if name in tools:
            known = tools[name].get("properties") or {}
            if "cmd" in known:  # Codex: its model asks for more than its sandbox allows
                escalation = {"sandbox_permissions": "require_escalated", "justification": "It writes a file."}
                return name, {"cmd": command} | (escalation if "sandbox_permissions" in known else {})
            if "commands" in known:
                return name, {"commands": [command]}
            if known.get("command", {}).get("type") == "array":
                return name, {"command": ["bash", "-lc", command]}
            more = {"description": "Run the command"} if "description" in known else {}
            return name, {"command": command, **more, **demanded(tools[name])}
    return None


def demanded(schema: Json) -> Json:
    """What an agent wants its model to say of every call, besides the tool's own arguments."""
    return {"security_risk": "HIGH"} if "security_risk" in (schema.get("properties") or {}) else {}


def fenced(act: Act) -> Act:
    """A call as text, for a model that calls tools in fenced blocks of its answer; any other act as it is."""
    match act:
        case Shell():
            return Text(f"\n```shell\n{act.command}\n```\n", 1)
        case Tool():
            return Text(f"\n```semel.{act.name}\n{json.dumps(act.arguments)}\n```\n", 1)
        case _:
            return act


TYPESCRIPT = "run_typescript"  # the tool through which Vibe's model calls Semel's


def typescript(tool: Tool) -> str:
    """The program that calls this tool of ours."""
    return f"async function main() {{ return await tools.mcp_semel.{tool.name}({json.dumps(tool.arguments)}); }}"


def our_tool(names: Iterable[str], tool: str) -> str:
    """How the agent calls our tool: `mcp__semel__send_message`, `semel_send_message` ..., or `send_message` alone."""
    names = list(names)
    for name in names:
        if name.endswith(tool) and "semel" in name:
            return name
    if tool in names:
        return tool
    raise LookupError(f"the agent offers the model no {tool} of ours: {names}")
