"""Convert a text whose formatting comes as entities with offsets in UTF-16 units to Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semel.text.json_types import Json


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


def to_markdown(text: str, entity_spans: Sequence[EntitySpan], start: int) -> str:
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
