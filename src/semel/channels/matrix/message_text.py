"""Extract the text that a message addresses to us: without reply fallback, and without our name at its beginning.

A message mentions us if one of these holds, checked in this order:

- `m.mentions` (spec, "User and room mentions") names our id;
- the message has no `m.mentions` and links to us (`https://matrix.to/#/@us:server`), or holds our id;
- it begins with our name, id or local part, with "@" before it or a colon or comma after it;
- a command is addressed to us: `/new@us`.

`@room` is not a mention of us, because it addresses everybody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from semel.channels.matrix.transport import Json

_FALLBACK = re.compile(r"> (?:\* )?<@[^\n>]*>[^\n]*(?:\n>[^\n]*)*(?:\n+|$)")
"""The quotation in a reply's body, as clients wrote it until version 1.13 ("Fallbacks for rich replies")."""
_COMMAND = re.compile(r"(/[A-Za-z][\w-]*)@(\S+)")


@dataclass(frozen=True)
class Said:
    """A message's text, and whether it mentions us."""

    text: str
    mentioned: bool


def without_fallback(body: str) -> str:
    """A reply's body without the quotation that older clients prepend."""
    return body[found.end() :] if (found := _FALLBACK.match(body)) else body


def understand(body: str, content: Json, id: str, names: Sequence[str]) -> Said:
    """The text addressed to us, and whether the message mentions us.

    `id`: our user id. `names`: our other names in the room, the display name first.
    """
    local = id[1:].partition(":")[0]
    called = [name for name in dict.fromkeys((id, f"@{local}", *names, local)) if name.strip("@ ")]
    named = _named(body, content, id)
    if (command := _COMMAND.match(body)) and command[2].rstrip(":,") in (id, id[1:], local):
        return Said(command[1] + body[command.end() :], True)
    rest = _without_name(body, called, named)
    return Said(rest or body, named or rest is not None)


def _named(body: str, content: Json, id: str) -> bool:
    """Whether the message mentions us by `m.mentions` or, without that, by a link to our id or the id itself."""
    mentions = content.get("m.mentions")
    if isinstance(mentions, dict):
        users: Any = mentions.get("user_ids")
        return isinstance(users, list) and id in users
    html = content.get("formatted_body")
    linked = isinstance(html, str) and f"https://matrix.to/#/{id}" in unquote(html)
    return linked or re.search(rf"(?<![\w.@]){re.escape(id)}(?![\w.-]*\w)", body) is not None


def _without_name(body: str, called: Sequence[str], named: bool) -> str | None:
    """The text after our name, or None if the text does not begin with our name.

    A bare name counts only with a colon or comma after it, unless the message mentions us anyway: "Bot is slow" speaks
    about us and not to us.
    """
    start = body.lstrip()
    for name in called:
        whole = name if name.startswith("@") else f"@?{re.escape(name)}"
        pattern = re.escape(name) if name.startswith("@") else whole
        found = re.match(rf"(?P<name>{pattern})(?P<mark>\s*[:,])?(?=\s|$)\s*", start, re.IGNORECASE)
        if found and (named or found["mark"] or found["name"].startswith("@")):
            return start[found.end() :]
    return None
