"""Build a text piece by piece together with its entities, whose offsets are in UTF-16 units.

The entities are those of https://core.telegram.org/bots/api#messageentity. Telegram does not combine code with styles
or links: code loses the styles around it, and code inside a link becomes plain link text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from semel.text.json_types import Json

MAX_ENTITIES = 100
"""Maximum number of entities in one message; Telegram ignores further ones."""


@dataclass(eq=False)
class Entity:
    """One entity. Compared by identity, so that two adjacent ones of the same kind are not merged."""

    kind: str
    details: Json = field(default_factory=dict)  # "url" or "language"


UNNESTED_KINDS = frozenset({"code", "pre"})
"""Kinds of entities that may be nested only in a blockquote and may contain no other entities."""


class FormattedText:
    """A text under construction: its pieces, each with the entities that cover it."""

    def __init__(self, spells_links: bool = False) -> None:
        self.spells_links = spells_links  # write the addresses of links as text, without link entities
        self._pieces: list[tuple[str, tuple[Entity, ...]]] = []
        self._open: list[Entity] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def write(self, text: str) -> None:
        """Append text, covered by the open entities."""
        if text:
            self._pieces.append((text, tuple(self._open)))

    def write_separator(self, text: str) -> None:
        """Append a separator. An entity covers it only if it is open and covers the previous piece, too."""
        previous_marks = self._pieces[-1][1] if self._pieces else ()
        self._pieces.append((text, tuple(mark for mark in previous_marks if mark in self._open)))

    @contextmanager
    def marked(self, kind: str, **details: Any) -> Iterator[None]:
        """Cover the text that is written in this context with an entity. Has no effect where Telegram does not allow
        it: inside an entity of the same kind, inside code, and for code inside a link."""
        if (
            self.is_under(kind)
            or self.is_under(*UNNESTED_KINDS)
            or (kind in UNNESTED_KINDS and self.is_under("text_link"))
        ):
            yield
            return
        with self._with_mark(Entity(kind, details)):
            yield

    @contextmanager
    def _with_mark(self, mark: Entity) -> Iterator[None]:
        outer_marks = self._open
        styles = [outer for outer in outer_marks if mark.kind not in UNNESTED_KINDS or outer.kind == "blockquote"]
        self._open = [*styles, mark]
        try:
            yield
        finally:
            self._open = outer_marks

    def is_under(self, *kinds: str) -> bool:
        """Whether an entity of one of these kinds is open."""
        return any(mark.kind in kinds for mark in self._open)

    def result(self) -> tuple[str, list[Json]]:
        """Return (the whole text, its entities in order)."""
        full_text = "".join(text for text, _ in self._pieces)
        marked_spans = [
            (lo, hi, mark)
            for mark, spans in self._spans().items()
            for lo, hi in (_trim_span(full_text, span) for span in spans)
            if lo < hi
        ]
        return _to_entities(full_text, marked_spans)

    def _spans(self) -> dict[Entity, list[tuple[int, int]]]:
        """Map each entity to the spans that it covers, in characters. Adjacent spans are joined."""
        spans: dict[Entity, list[tuple[int, int]]] = {}
        position = 0
        for text, marks in self._pieces:
            for mark in marks:
                mark_spans = spans.setdefault(mark, [])
                if mark_spans and mark_spans[-1][1] == position:
                    mark_spans[-1] = (mark_spans[-1][0], position + len(text))
                else:
                    mark_spans.append((position, position + len(text)))
            position += len(text)
        return spans


def _trim_span(text: str, span: tuple[int, int]) -> tuple[int, int]:
    lo, hi = span
    while lo < hi and text[lo].isspace():
        lo += 1
    while lo < hi and text[hi - 1].isspace():
        hi -= 1
    return lo, hi


def _to_entities(full_text: str, marked_spans: Sequence[tuple[int, int, Entity]]) -> tuple[str, list[Json]]:
    """Return (the stripped text, its entities with offsets and lengths in UTF-16 units)."""
    text = full_text.strip()
    stripped = len(full_text) - len(full_text.lstrip())
    entities = []
    for lo, hi, mark in sorted(marked_spans, key=lambda each: (each[0], -each[1]))[:MAX_ENTITIES]:
        start = count_utf16_units(full_text[stripped:lo])
        entities.append(
            {"type": mark.kind, "offset": start, "length": count_utf16_units(full_text[lo:hi]), **mark.details}
        )
    return text, entities


def count_utf16_units(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text) + sum(char > "\uffff" for char in text)
