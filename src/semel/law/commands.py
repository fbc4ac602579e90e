"""Slash commands: which texts are commands to the gateway and which are messages to the agent.

A text is a command if it begins with "/", its first word is exactly a command's name, and the rest is a valid argument
of that command: `/stop` takes no argument, so `/stop the presses` is a message; `/history` takes a number, so
`/history of Rome` is a message, too. Any other text that begins with a slash is a message and passed on unchanged: a
path, `/newer`, a command of the agent's own.

One exception is held back: a single word like `/stpo`, one typing error away from a command. The person is asked what
they meant, and the agent does not see it: a misspelt `/stop` must not become a prompt.

`//stop` sends `/stop` to the agent. The extra slash is removed only if the rest would otherwise be a command or a
typing error: `//host` and `// a comment` are passed on unchanged.
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

    `takes`: the argument that may follow the name. Text after `/queue` and `/steer` is a message to the agent.
    """

    name: str
    takes: Takes
    usage: str
    what: str


COMMANDS: dict[str, Command] = {
    one.name: one
    for one in (
        Command("new", "nothing", "/new", "Start a new chapter: the agent forgets what was said so far."),
        Command("stop", "nothing", "/stop", "Stop the running turn. What waits is taken next."),
        Command("status", "nothing", "/status", "Who thinks here, what runs and what waits."),
        Command("queue", "text", "/queue [TEXT]", "Say TEXT after the running turn; alone: from now on, always."),
        Command("steer", "text", "/steer [TEXT]", "Say TEXT into the running turn; alone: from now on, always."),
        Command("retry", "nothing", "/retry", "Run the last turn again, if it failed or was stopped."),
        Command("model", "word", "/model [NAME]", "List the agent's models, or switch to one."),
        Command("mode", "word", "/mode [NAME]", "List the agent's modes, or switch to one."),
        Command("approve", "number", "/approve [N]", "Allow what the agent asks for; N: by the option of that number."),
        Command("deny", "number", "/deny [N]", "Deny it; N: what the option of that number belongs to."),
        Command("history", "number", "/history [N]", "The last N messages of this conversation."),
        Command("help", "nothing", "/help", "This list."),
    )
}
"""The commands by name, in the order in which `/help` lists them."""

MESSAGE_COMMANDS = ("queue", "steer")
"""Commands whose text is a message to the agent; the command's name is its busy mode."""

_ALONE = re.compile(r"/([A-Za-z][A-Za-z_-]{1,15})\s*")
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Message:
    """A message for the agent. `mode`: the busy mode given with it (`/queue`, `/steer`); None: the session's mode."""

    text: str
    mode: str | None = None


@dataclass(frozen=True)
class CommandCall:
    """A command for the gateway, with its argument."""

    name: str
    argument: str = ""


@dataclass(frozen=True)
class Mistyped:
    """Probably a misspelt command: it goes neither to the gateway nor to the agent; the person is asked about it."""

    word: str
    nearest: str


def read(text: str, own: Collection[str] = ()) -> Message | CommandCall | Mistyped:
    """Classify a person's text. `own`: names of the agent's own commands, which are never taken for misspellings."""
    if not text.startswith("/"):
        return Message(text)
    bare = "/" + text.lstrip("/")
    found = _match_command(bare) or _detect_misspelling(bare, own)
    if found is None:
        return Message(text)
    return found if text == bare else Message(text[1:])


def _match_command(text: str) -> Message | CommandCall | None:
    first, *more = text[1:].split(None, 1)[:2] or [""]
    known = COMMANDS.get(first) if not text[1:2].isspace() else None
    if known is None:
        return None
    rest = more[0].rstrip() if more else ""
    if known.takes == "text" and rest:
        return Message(rest, known.name)
    fits = {
        "nothing": not rest,
        "text": True,
        "word": len(rest.split(None, 1)) < 2,
        "number": not rest or _NUMBER.fullmatch(rest) is not None,
    }
    return CommandCall(known.name, rest) if fits[known.takes] else None


def _detect_misspelling(text: str, own: Collection[str]) -> Mistyped | None:
    found = _ALONE.fullmatch(text)
    if found is None or found[1] in own or found[1] in COMMANDS:
        return None
    near = nearest(found[1])
    return None if near is None else Mistyped(found[1], near)


def nearest(word: str) -> str | None:
    """The command of which `word` may be a misspelling: one edit away, or two if its name has six letters or more."""
    low = word.lower()
    scored = [(distance(low, name), name) for name in COMMANDS]
    close = [(far, name) for far, name in scored if far <= (2 if len(name) >= 6 else 1)]
    return min(close, key=lambda one: (one[0], not low.startswith(one[1])))[1] if close else None


def distance(a: str, b: str) -> int:
    """Edit distance: insertions, deletions, substitutions and swaps of neighbours (optimal string alignment)."""
    rows = [list(range(len(b) + 1))]
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]
