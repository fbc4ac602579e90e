"""What a person may tell the gateway itself, and when a text is that and nothing else.

A message is a command if its first character is "/", its first word is exactly the name of one, and what follows is
what that command takes: `/stop` takes nothing, so `/stop the presses` is a message; `/history` takes a number, so
`/history of Rome` is one, too. Everything else that begins with a slash is a message, unchanged: a path, `/newer`, a
command of the agent's own.

One thing is held back: a single word like `/stpo`, which is no command, but one slip of the fingers away from one.
The person is told, and the agent is not asked: a stop that was misspelt must not become a prompt.

`//stop` says `/stop` to the agent. The slash is taken away only where the rest would not have reached it: `//host` and
`// a comment` are what they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Takes = Literal["nothing", "text", "word", "number"]


@dataclass(frozen=True)
class Command:
    """`takes` is what may follow the name; only for `queue` and `steer`, text makes a message of it."""

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
"""In the order of `/help`."""

SPOKEN = ("queue", "steer")
"""Commands whose text is a message, with that busy mode."""

_ALONE = re.compile(r"/([A-Za-z][A-Za-z_-]{1,15})\s*")
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Message:
    """For the agent. `mode`: the command it was said with; None: an ordinary message."""

    text: str
    mode: str | None = None


@dataclass(frozen=True)
class Given:
    """For the gateway."""

    name: str
    argument: str = ""


@dataclass(frozen=True)
class Mistyped:
    """For nobody: the person is asked what they meant."""

    word: str
    nearest: str


def read(text: str, own: Collection[str] = ()) -> Message | Given | Mistyped:
    """What a person's text is. `own`: the names of the agent's own commands, which are never taken for slips."""
    if not text.startswith("/"):
        return Message(text)
    bare = "/" + text.lstrip("/")
    found = _given(bare) or _slip(bare, own)
    if found is None:
        return Message(text)
    return found if text == bare else Message(text[1:])


def _given(text: str) -> Message | Given | None:
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
    return Given(known.name, rest) if fits[known.takes] else None


def _slip(text: str, own: Collection[str]) -> Mistyped | None:
    found = _ALONE.fullmatch(text)
    if found is None or found[1] in own or found[1] in COMMANDS:
        return None
    near = nearest(found[1])
    return None if near is None else Mistyped(found[1], near)


def nearest(word: str) -> str | None:
    """The command that `word` is a slip of: one letter off, two where the name has six or more."""
    low = word.lower()
    scored = [(distance(low, name), name) for name in COMMANDS]
    close = [(far, name) for far, name in scored if far <= (2 if len(name) >= 6 else 1)]
    return min(close, key=lambda one: (one[0], not low.startswith(one[1])))[1] if close else None


def distance(a: str, b: str) -> int:
    """Letters to put in, take out, change or swap with their neighbour (optimal string alignment)."""
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
