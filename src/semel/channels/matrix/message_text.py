"""The text of a message as it was meant: without the fallback of a reply, and without our name at its beginning.

What counts as naming us, in this order:

- `m.mentions` (spec, "User and room mentions") names our id;
- the message has no `m.mentions` and links to us (`https://matrix.to/#/@us:server`), or holds our id;
- our name, its id or its local part stands first, with "@" before it or a colon or comma behind it;
- a command is addressed to us: `/new@us`.

`@room` is no mention of us: it calls everybody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from semel.channels.matrix.transport import Json

_FALLBACK = re.compile(r"> (?:\* )?<@[^\n>]*>[^\n]*(?:\n>[^\n]*)*(?:\n+|$)")
"""Of a reply, as clients wrote it until version 1.13 ("Fallbacks for rich replies")."""
_COMMAND = re.compile(r"(/[A-Za-z][\w-]*)@(\S+)")


@dataclass(frozen=True)
class Said:
    """A message's text, and whether it names us."""

    text: str
    mentioned: bool


def without_fallback(body: str) -> str:
    """A reply's body without the quotation that older clients put before it."""
    return body[found.end() :] if (found := _FALLBACK.match(body)) else body


def understand(body: str, content: Json, id: str, names: Sequence[str]) -> Said:
    """`id`: our user id; `names`: what else we are called there, the display name first."""
    local = id[1:].partition(":")[0]
    called = [name for name in dict.fromkeys((id, f"@{local}", *names, local)) if name.strip("@ ")]
    named = _named(body, content, id)
    if (command := _COMMAND.match(body)) and command[2].rstrip(":,") in (id, id[1:], local):
        return Said(command[1] + body[command.end() :], True)
    rest = _without_name(body, called, named)
    return Said(rest or body, named or rest is not None)


def _named(body: str, content: Json, id: str) -> bool:
    """Whether the message says by itself that it names us."""
    mentions = content.get("m.mentions")
    if isinstance(mentions, dict):
        users: Any = mentions.get("user_ids")
        return isinstance(users, list) and id in users
    html = content.get("formatted_body")
    linked = isinstance(html, str) and f"https://matrix.to/#/{id}" in unquote(html)
    return linked or re.search(rf"(?<![\w.@]){re.escape(id)}(?![\w.-]*\w)", body) is not None


def _without_name(body: str, called: Sequence[str], named: bool) -> str | None:
    """What follows our name at the beginning; None: it does not stand there.

    A bare name is one only with a colon or comma behind it, unless the message names us anyway: "Bot is slow" speaks
    of us, and not to us.
    """
    start = body.lstrip()
    for name in called:
        whole = name if name.startswith("@") else f"@?{re.escape(name)}"
        pattern = re.escape(name) if name.startswith("@") else whole
        found = re.match(rf"(?P<name>{pattern})(?P<mark>\s*[:,])?(?=\s|$)\s*", start, re.IGNORECASE)
        if found and (named or found["mark"] or found["name"].startswith("@")):
            return start[found.end() :]
    return None
