"""Convert a message's text and entities to Markdown, and detect whether the message mentions us."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semel.text.json_types import Json

_COMMAND = re.compile(r"/(\w+)@(\w+)")


@dataclass(frozen=True)
class BotIdentity:
    """Our bot's id and user name, from getMe."""

    id: int
    username: str  # without the @


@dataclass(frozen=True)
class EntitySpan:
    """One entity, with its start and end in code points of the text."""

    lo: int
    hi: int
    kind: str
    entity: Json


def convert_entities(text: str, entities: Sequence[Any]) -> list[EntitySpan]:
    """Convert entities from UTF-16 units to code points, and sort them. Those outside of the text are left out."""
    raw = text.encode("utf-16-le", "surrogatepass")
    converted = []
    for entity in entities:
        offset, length = int(entity["offset"]), int(entity["length"])
        if offset >= 0 and length > 0 and (offset + length) * 2 <= len(raw):
            lo = len(raw[: offset * 2].decode("utf-16-le", "replace"))
            hi = lo + len(raw[offset * 2 : (offset + length) * 2].decode("utf-16-le", "replace"))
            converted.append(EntitySpan(lo, hi, str(entity["type"]), entity))
    return sorted(converted, key=lambda span: (span.lo, -span.hi))


def mentions_us(span: EntitySpan, text: str, us: BotIdentity) -> bool:
    """Whether this entity mentions us: our name, or a command with our name. A bare command may be for another bot."""
    covered = text[span.lo : span.hi].lower()
    if span.kind == "mention":
        return covered == f"@{us.username.lower()}"
    if span.kind == "text_mention":
        return (span.entity.get("user") or {}).get("id") == us.id
    if span.kind == "bot_command":
        return covered.partition("@")[2] == us.username.lower()
    return False


def read_text(text: str, entities: Sequence[Any], us: BotIdentity) -> tuple[str, bool]:
    """Return (the text as Markdown, whether it mentions us).

    Code, text links and struck text become Markdown, because plain text would change their meaning. A mention of us at
    the beginning is removed unless nothing else is left, and so is our name after a command.
    """
    entity_spans = convert_entities(text, entities)
    mentioned = any(mentions_us(span, text, us) for span in entity_spans)
    start = _skip_mention(text, entity_spans, us)
    markdown = _to_markdown(text, entity_spans, start)
    command = _COMMAND.match(markdown)
    if command is not None and command[2].lower() == us.username.lower():
        markdown = f"/{command[1]}{markdown[command.end() :]}"
    return markdown, mentioned


def _skip_mention(text: str, entity_spans: Sequence[EntitySpan], us: BotIdentity) -> int:
    """Return the index where the text starts after a leading mention of us; 0 without one."""
    if (
        not entity_spans
        or text[: entity_spans[0].lo].strip()
        or entity_spans[0].kind not in ("mention", "text_mention")
    ):
        return 0
    if not mentions_us(entity_spans[0], text, us):
        return 0
    separator = re.compile(r"[\s,:]*").match(text, entity_spans[0].hi)
    start = separator.end() if separator is not None else entity_spans[0].hi
    return start if text[start:].strip() else 0


def _to_markdown(text: str, entity_spans: Sequence[EntitySpan], start: int) -> str:
    """Return the text from `start` on, with Markdown delimiters where entities begin and end."""
    delimiters: list[tuple[int, int, int, str]] = []  # (position, 0 closes or 1 opens, nesting order, delimiter)
    for n, span in enumerate(entity_spans):
        if span.lo < start or span.hi <= span.lo:
            continue
        opening, closing = _delimiters_of(span, text[span.lo : span.hi], text)
        if opening:
            delimiters += [(span.lo, 1, n, opening), (span.hi, 0, -n, closing)]
    pieces, position = [], start
    for offset, _, _, delimiter in sorted(delimiters):
        pieces += [text[position:offset], delimiter]
        position = offset
    return "".join((*pieces, text[position:]))


def _delimiters_of(span: EntitySpan, inside: str, text: str) -> tuple[str, str]:
    match span.kind:
        case "code":
            fence = "``" if "`" in inside else "`"
            return fence, fence
        case "pre":
            fence = "````" if "```" in inside else "```"
            language = str(span.entity.get("language") or "")
            before = "" if span.lo == 0 or text[span.lo - 1] == "\n" else "\n"
            after = "" if span.hi == len(text) or text[span.hi] == "\n" else "\n"
            return f"{before}{fence}{language}\n", f"\n{fence}{after}"
        case "text_link":
            return "[", f"]({span.entity.get('url', '')})"
        case "strikethrough":
            return "~~", "~~"
    return "", ""
