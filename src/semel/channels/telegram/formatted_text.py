"""A text that is written piece by piece, and the entities that lie over it (UTF-16 offsets, as Telegram counts).

https://core.telegram.org/bots/api#messageentity. A style that would lie over code, or a link over code, is left out
there: Telegram takes no such nesting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
ENTITIES = 100
"""Telegram shows no more in one message."""


@dataclass(eq=False)
class Mark:
    """One entity to be: two of the same kind side by side stay two."""

    kind: str
    more: Json = field(default_factory=dict)  # "url" or "language"


ALONE = frozenset({"code", "pre"})
"""Kinds over which nothing lies but a quote."""


class Runs:
    """Pieces of text, each with the marks that are over it."""

    def __init__(self, spelled: bool = False) -> None:
        self.spelled = spelled  # links are written out, not marked
        self._pieces: list[tuple[str, tuple[Mark, ...]]] = []
        self._open: list[Mark] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def write(self, text: str) -> None:
        """Text under the marks that are open."""
        if text:
            self._pieces.append((text, tuple(self._open)))

    def between(self, text: str) -> None:
        """Text between two pieces: under the marks that are over both, as far as that is known now."""
        before = self._pieces[-1][1] if self._pieces else ()
        self._pieces.append((text, tuple(mark for mark in before if mark in self._open)))

    @contextmanager
    def marked(self, kind: str, **more: Any) -> Iterator[None]:
        """Write under a mark. Inside one of the same kind, or of one that stands alone, it is none."""
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
        """Whether a mark of one of these kinds is open."""
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
        """Where each mark lies: what touches is one."""
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
    """The text without white space around it, and the entities in UTF-16 units of it."""
    text = whole.strip()
    before = len(whole) - len(whole.lstrip())
    entities = []
    for lo, hi, mark in sorted(found, key=lambda each: (each[0], -each[1]))[:ENTITIES]:
        start = utf16(whole[before:lo])
        entities.append({"type": mark.kind, "offset": start, "length": utf16(whole[lo:hi]), **mark.more})
    return text, entities


def utf16(text: str) -> int:
    """UTF-16 code units."""
    return len(text) + sum(char > "\uffff" for char in text)
