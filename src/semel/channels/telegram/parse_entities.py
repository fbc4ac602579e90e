"""Read a message's text with its entities: as Markdown where they carry meaning, and whether it mentions us."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
_COMMAND = re.compile(r"/(\w+)@(\w+)")


@dataclass(frozen=True)
class BotIdentity:
    """Our bot's id and user name, from getMe."""

    id: int
    username: str  # without the @


@dataclass(frozen=True)
class Span:
    """One entity, with its start and end in code points of the text."""

    lo: int
    hi: int
    kind: str
    more: Json


def spans(text: str, entities: Sequence[Any]) -> list[Span]:
    """The entities, converted from UTF-16 units to code points and sorted. Those outside of the text are left out."""
    raw = text.encode("utf-16-le", "surrogatepass")
    found = []
    for each in entities:
        offset, length = int(each["offset"]), int(each["length"])
        if offset >= 0 and length > 0 and (offset + length) * 2 <= len(raw):
            lo = len(raw[: offset * 2].decode("utf-16-le", "replace"))
            hi = lo + len(raw[offset * 2 : (offset + length) * 2].decode("utf-16-le", "replace"))
            found.append(Span(lo, hi, str(each["type"]), each))
    return sorted(found, key=lambda span: (span.lo, -span.hi))


def names(span: Span, text: str, us: BotIdentity) -> bool:
    """Whether this entity mentions us: our name, or a command with our name. A bare command may be for another bot."""
    shown = text[span.lo : span.hi].lower()
    if span.kind == "mention":
        return shown == f"@{us.username.lower()}"
    if span.kind == "text_mention":
        return (span.more.get("user") or {}).get("id") == us.id
    if span.kind == "bot_command":
        return shown.partition("@")[2] == us.username.lower()
    return False


def read(text: str, entities: Sequence[Any], us: BotIdentity) -> tuple[str, bool]:
    """(the text for the agent, whether it mentions us).

    Code, text links and struck text become Markdown, because plain text would change their meaning. A mention of us at
    the beginning is removed unless nothing else is left, and so is our name after a command.
    """
    found = spans(text, entities)
    mentioned = any(names(span, text, us) for span in found)
    start = _beginning(text, found, us)
    shown = _markdown(text, found, start)
    command = _COMMAND.match(shown)
    if command is not None and command[2].lower() == us.username.lower():
        shown = f"/{command[1]}{shown[command.end() :]}"
    return shown, mentioned


def _beginning(text: str, found: Sequence[Span], us: BotIdentity) -> int:
    """The index where the text starts after a leading mention of us; 0 without one."""
    if not found or text[: found[0].lo].strip() or found[0].kind not in ("mention", "text_mention"):
        return 0
    if not names(found[0], text, us):
        return 0
    rest = re.compile(r"[\s,:]*").match(text, found[0].hi)
    at = rest.end() if rest is not None else found[0].hi
    return at if text[at:].strip() else 0


def _markdown(text: str, found: Sequence[Span], start: int) -> str:
    """The text from `start` on, with Markdown delimiters inserted where entities begin and end."""
    signs: list[tuple[int, int, int, str]] = []  # (position, ends before starts, inner ends first, delimiter)
    for n, span in enumerate(found):
        if span.lo < start or span.hi <= span.lo:
            continue
        before, behind = _signs(span, text[span.lo : span.hi], text)
        if before:
            signs += [(span.lo, 1, n, before), (span.hi, 0, -n, behind)]
    pieces, at = [], start
    for where, _, _, sign in sorted(signs):
        pieces += [text[at:where], sign]
        at = where
    return "".join((*pieces, text[at:]))


def _signs(span: Span, inside: str, text: str) -> tuple[str, str]:
    match span.kind:
        case "code":
            fence = "``" if "`" in inside else "`"
            return fence, fence
        case "pre":
            fence = "````" if "```" in inside else "```"
            language = str(span.more.get("language") or "")
            ahead = "" if span.lo == 0 or text[span.lo - 1] == "\n" else "\n"
            behind = "" if span.hi == len(text) or text[span.hi] == "\n" else "\n"
            return f"{ahead}{fence}{language}\n", f"\n{fence}{behind}"
        case "text_link":
            return "[", f"]({span.more.get('url', '')})"
        case "strikethrough":
            return "~~", "~~"
    return "", ""
