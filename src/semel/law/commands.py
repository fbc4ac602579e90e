"""Slash commands: which texts are commands to the gateway and which are messages to the agent.

A text is a command if it begins with "/", its first word is exactly a command's name, and the rest is a valid argument
of that command: `/stop` takes no argument, so `/stop the presses` is a message; `/history` takes a number, so
`/history of Rome` is a message, too. Any other text that begins with a slash is a message and passed on unchanged: a
path, `/newer`, a command of the agent's own.

There is one exception: a text of a single word that is nearly a command, such as `/stpo`. The person is asked what they
meant, and the agent does not see the text: a misspelt `/stop` must not become a prompt.

`//stop` sends `/stop` to the agent. The extra slash is removed only if the text without it would be a command or a
misspelt command: `//host` and `// a comment` are passed on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Takes = Literal["nothing", "text", "word", "number"]


@dataclass(frozen=True)
class Command:
    """A command of the gateway.

    `takes`: the argument that may follow the name. `usage`, `description`: as `/help` shows them.
    """

    name: str
    takes: Takes
    usage: str
    description: str


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("new", "nothing", "/new", "Start a new chapter: the agent forgets what was said so far."),
        Command("stop", "nothing", "/stop", "Stop the running turn. What waits is taken next."),
        Command("status", "nothing", "/status", "Show the agent, what runs and what waits."),
        Command("queue", "text", "/queue [TEXT]", "Send TEXT after the running turn; alone: do so from now on."),
        Command("steer", "text", "/steer [TEXT]", "Send TEXT into the running turn; alone: do so from now on."),
        Command("retry", "nothing", "/retry", "Run the last turn again, if it failed, was stopped, or said nothing."),
        Command("model", "word", "/model [NAME]", "List the agent's models, or switch to one."),
        Command("mode", "word", "/mode [NAME]", "List the agent's modes, or switch to one."),
        Command("approve", "number", "/approve [N]", "Allow what the agent asks for; N: choose that option."),
        Command("deny", "number", "/deny [N]", "Deny it; N: the request with that option."),
        Command("history", "number", "/history [N]", "Show the last N messages of this chapter."),
        Command("help", "nothing", "/help", "This list."),
    )
}
"""The commands by name, in the order in which `/help` lists them."""

MESSAGE_COMMANDS = ("queue", "steer")
"""Commands whose text is a message to the agent; the command's name is its busy mode."""

RUNS_AGAIN = "runs again."  # ends the answer to a /retry that lets a turn run; clients wait for that turn

_ALONE = re.compile(r"/([A-Za-z][A-Za-z_-]{1,15})\s*")
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class AgentMessage:
    """A message for the agent.

    `mode`: "queue" or "steer" if the message was the text of that command (a busy mode, see `semel.law.wake`); None:
    the session's busy mode applies.
    """

    text: str
    mode: str | None = None


@dataclass(frozen=True)
class CommandCall:
    """A command for the gateway, with its argument."""

    name: str
    argument: str = ""


@dataclass(frozen=True)
class Mistyped:
    """A `word` that is probably a misspelling of the command `nearest`.

    The person is asked what they meant; neither the gateway nor the agent acts on the text.
    """

    word: str
    nearest: str


def read_command(text: str, agent_commands: Collection[str] = ()) -> AgentMessage | CommandCall | Mistyped:
    """Decide whether a person's text is a message, a command, or probably a misspelt command.

    `agent_commands`: the names of the agent's own commands; they are never taken for misspellings.
    """
    if not text.startswith("/"):
        return AgentMessage(text)
    bare = "/" + text.lstrip("/")
    result = _match_command(bare) or _detect_misspelling(bare, agent_commands)
    if result is None:
        return AgentMessage(text)
    return result if text == bare else AgentMessage(text[1:])


def _match_command(text: str) -> AgentMessage | CommandCall | None:
    name, *arguments = text[1:].split(None, 1)[:2] or [""]
    command = COMMANDS.get(name) if not text[1:2].isspace() else None
    if command is None:
        return None
    argument = arguments[0].rstrip() if arguments else ""
    if command.takes == "text" and argument:
        return AgentMessage(argument, command.name)
    fits = {
        "nothing": not argument,
        "text": True,
        "word": len(argument.split(None, 1)) < 2,
        "number": not argument or _NUMBER.fullmatch(argument) is not None,
    }
    return CommandCall(command.name, argument) if fits[command.takes] else None


def _detect_misspelling(text: str, agent_commands: Collection[str]) -> Mistyped | None:
    match = _ALONE.fullmatch(text)
    if match is None or match[1] in agent_commands or match[1] in COMMANDS:
        return None
    command = find_nearest(match[1])
    return None if command is None else Mistyped(match[1], command)


def find_nearest(word: str) -> str | None:
    """Return the name of the command that is nearest to `word`; None if none is near.

    Near means one edit away, or two for a command whose name has six letters or more.
    """
    lowered = word.lower()
    scored = [(edit_distance(lowered, name), name) for name in COMMANDS]
    close = [(edits, name) for edits, name in scored if edits <= (2 if len(name) >= 6 else 1)]
    return min(close, key=lambda pair: (pair[0], not lowered.startswith(pair[1])))[1] if close else None


def edit_distance(a: str, b: str) -> int:
    """Return how many insertions, deletions, substitutions and swaps of neighbours turn `a` into `b`.

    This is the edit distance that is known as optimal string alignment.
    """
    rows = [list(range(len(b) + 1))]
    for i, a_char in enumerate(a, 1):
        row = [i]
        for j, b_char in enumerate(b, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a_char != b_char))
            if i > 1 and j > 1 and a_char == b[j - 2] and a[i - 2] == b_char:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]
