"""Build a text piece by piece together with its message entities, whose offsets are in UTF-16 units.

https://core.telegram.org/bots/api#messageentity. Telegram does not allow styles or links over code, so they are left
out there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
ENTITIES = 100
"""Maximum number of entities in one message; Telegram ignores further ones."""


@dataclass(eq=False)
class Mark:
    """One entity. Compared by identity, so that two adjacent ones of the same kind are not merged."""

    kind: str
    more: Json = field(default_factory=dict)  # "url" or "language"


ALONE = frozenset({"code", "pre"})
"""Kinds of entities that may be nested in nothing but a quote, and contain no others."""


class FormattedText:
    """A text under construction: its pieces, each with the entities that cover it."""

    def __init__(self, spelled: bool = False) -> None:
        self.spelled = spelled  # links are written out, not marked
        self._pieces: list[tuple[str, tuple[Mark, ...]]] = []
        self._open: list[Mark] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def write(self, text: str) -> None:
        """Append text, covered by the open entities."""
        if text:
            self._pieces.append((text, tuple(self._open)))

    def between(self, text: str) -> None:
        """Append separating text, covered by those entities of the previous piece that are still open."""
        before = self._pieces[-1][1] if self._pieces else ()
        self._pieces.append((text, tuple(mark for mark in before if mark in self._open)))

    @contextmanager
    def marked(self, kind: str, **more: Any) -> Iterator[None]:
        """Open an entity for the text written inside. Ignored where Telegram does not allow it: within the same kind,
        or over code."""
        if self.under(kind) or self.under(*ALONE) or (kind in ALONE and self.under("text_link")):
            yield
            return
        with self._under(Mark(kind, more)):
            yield

    @contextmanager
    def _under(self, mark: Mark) -> Iterator[None]:
        kept = self._open
        styles = [each for each in kept if mark.kind not in ALONE or each.kind == "blockquote"]
        self._open = [*styles, mark]
        try:
            yield
        finally:
            self._open = kept

    def under(self, *kinds: str) -> bool:
        """Whether an entity of one of these kinds is open."""
        return any(mark.kind in kinds for mark in self._open)

    def result(self) -> tuple[str, list[Json]]:
        """The whole text, and its entities in order."""
        whole = "".join(text for text, _ in self._pieces)
        found = [
            (lo, hi, mark)
            for mark, spans in self._spans().items()
            for lo, hi in (_trimmed(whole, span) for span in spans)
            if lo < hi
        ]
        return _measured(whole, found)

    def _spans(self) -> dict[Mark, list[tuple[int, int]]]:
        """The spans that each entity covers, in characters; adjacent spans are joined."""
        spans: dict[Mark, list[tuple[int, int]]] = {}
        at = 0
        for text, marks in self._pieces:
            for mark in marks:
                mine = spans.setdefault(mark, [])
                if mine and mine[-1][1] == at:
                    mine[-1] = (mine[-1][0], at + len(text))
                else:
                    mine.append((at, at + len(text)))
            at += len(text)
        return spans


def _trimmed(text: str, span: tuple[int, int]) -> tuple[int, int]:
    lo, hi = span
    while lo < hi and text[lo].isspace():
        lo += 1
    while lo < hi and text[hi - 1].isspace():
        hi -= 1
    return lo, hi


def _measured(whole: str, found: Sequence[tuple[int, int, Mark]]) -> tuple[str, list[Json]]:
    """The stripped text, and its entities with offsets and lengths in UTF-16 units."""
    text = whole.strip()
    before = len(whole) - len(whole.lstrip())
    entities = []
    for lo, hi, mark in sorted(found, key=lambda each: (each[0], -each[1]))[:ENTITIES]:
        start = utf16(whole[before:lo])
        entities.append({"type": mark.kind, "offset": start, "length": utf16(whole[lo:hi]), **mark.more})
    return text, entities


def utf16(text: str) -> int:
    """The length of a text in UTF-16 code units."""
    return len(text) + sum(char > "\uffff" for char in text)
