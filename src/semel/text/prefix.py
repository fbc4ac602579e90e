"""Incremental prefix matching: decide whether a growing text may still become one of the known texts (Law 5).

The known texts, called originals, are in verbatim form. A `PrefixReading` is one reading of the growing text so
far, matched character by character against the originals. There is one reading, except on a line that begins with three
backticks: until the line ends, it may open a fence (if no backtick follows) or be plain text (if one follows), and both
readings are kept. `fences.FenceLine` has the rules.
"""

from __future__ import annotations

import copy
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from semel.text.fences import FenceLine


class Originals:
    """The known texts, sorted, so that texts with a common prefix are neighbours."""

    def __init__(self, texts: Iterable[str]):
        self.texts = sorted({text for text in texts if text})

    def __len__(self) -> int:
        return len(self.texts)


class ReadingState(Enum):
    """The kind of text in which a reading currently is."""

    TEXT = auto()  # outside fences
    RUN = auto()  # a line begins with backticks or tildes: fewer than three so far
    INFO = auto()  # the opening line of a fence
    FENCE = auto()  # the content of a fence


class PrefixReading:
    """One reading of the text so far. Call `step` for each character of a text in NFC, with every line end as LF."""

    def __init__(self, originals: Originals):
        self._texts = originals.texts
        self._lo, self._hi, self._matched = 0, len(originals), 0  # texts[lo:hi] match, so far `_matched` characters
        self._place = ReadingState.TEXT
        self._gap = ""  # white space that counts only if something follows
        self._line = FenceLine()
        self._fence = ("", 0)  # character and size of the open fence's marker

    def step(self, char: str) -> Iterator[PrefixReading]:
        """Read one character. Yields the readings that still match: this one, another, both or none."""
        if self._place is ReadingState.RUN and char == self._line.mark and self._line.run == 2:
            yield from self._read_third_mark(char)
            return
        matches = {
            ReadingState.TEXT: self._read_text,
            ReadingState.RUN: self._read_short_run,
            ReadingState.INFO: self._read_info,
            ReadingState.FENCE: self._read_fence,
        }[self._place](char)
        if matches:
            yield self

    def find_equal(self) -> str | None:
        """Return the original that the text equals if it ends here; None if it equals none."""
        if self._place is ReadingState.RUN and not self._match_text(self._line.mark * self._line.run):
            return None
        if (self._place is ReadingState.TEXT and self._line.opens) or self._lo == self._hi:
            return None
        text = self._texts[self._lo]
        return text if len(text) == self._matched else None

    def can_match(self, piece: str) -> bool:
        """Whether this reading could still match if `piece` came next, perhaps followed by combining marks.

        Only the first character of the piece's decomposition is compared, because such marks may still change the rest.
        """
        if self._place is ReadingState.RUN:
            gaps = {self._gap, self._gap and "\n"}
            run = self._line.mark * self._line.run
            return any(copy.copy(self)._match_text(run, gap) for gap in gaps)
        if not piece or unicodedata.combining(piece[0]):
            return True
        trial = copy.copy(self)
        if trial._gap and not trial._match_text(""):
            return False
        base = unicodedata.normalize("NFD", piece[0])[0]
        texts, n = self._texts, trial._matched
        return any(
            len(texts[i]) > n and unicodedata.normalize("NFD", texts[i][n])[0] == base
            for i in range(trial._lo, trial._hi)
        )

    # ------------------------------------------------------------ one method for each state

    def _read_text(self, char: str) -> bool:
        if char == "\n":
            self._gap = self._gap or (" " if self._matched else "")
            opens, self._line = self._line.opens, FenceLine()
            return not opens  # the line opens a fence, so the reading as plain text does not match
        begins_run = char in "`~" and not self._line.mark and not self._line.plain
        self._line.feed(char)
        if begins_run:
            self._place = ReadingState.RUN
            return True
        if char.isspace():
            self._gap = self._gap or (" " if self._matched else "")
            return True
        return self._match_text(char)

    def _read_short_run(self, char: str) -> bool:
        if char == self._line.mark:
            self._line.feed(char)
            return True
        self._place = ReadingState.TEXT
        return self._match_text(self._line.mark * self._line.run) and self._read_text(char)

    def _read_third_mark(self, char: str) -> Iterator[PrefixReading]:
        self._line.feed(char)
        if char == "`":
            plain = copy.copy(self)
            plain._line = copy.copy(self._line)
            plain._place = ReadingState.TEXT
            if plain._match_text("```"):
                yield plain
        self._place = ReadingState.INFO
        if self._match_text(char * 3, self._gap and "\n"):
            yield self

    def _read_info(self, char: str) -> bool:
        if char == "\n":
            self._fence = (self._line.mark, self._line.run)
            self._place, self._line = ReadingState.FENCE, FenceLine()
        else:
            self._line.feed(char)
            if self._line.plain:
                return False  # an info string holds no backtick
        return self._take_exactly(char)

    def _read_fence(self, char: str) -> bool:
        if char != "\n":
            self._line.feed(char)
            return self._take_exactly(char)
        closes, self._line = self._line.closes(*self._fence), FenceLine()
        if closes:
            self._place, self._gap = ReadingState.TEXT, "\n"
            return True
        return self._take_exactly(char)

    # ------------------------------------------------------------ matching

    def _take_exactly(self, char: str) -> bool:
        if char.isspace():
            self._gap += char
            return True
        return self._match_text(char)

    def _match_text(self, text: str, gap: str | None = None) -> bool:
        before, self._gap = self._gap if gap is None else gap, ""
        return all(self._match_char(char) for char in before + text)

    def _match_char(self, char: str) -> bool:
        texts, n = self._texts, self._matched
        if self._lo < self._hi and len(texts[self._lo]) == n:
            self._lo += 1
        if self._lo == self._hi:
            return False
        if not texts[self._lo][n] == char == texts[self._hi - 1][n]:
            lo = bisect_left(texts, char, self._lo, self._hi, key=lambda text: text[n])
            self._hi = bisect_right(texts, char, lo, self._hi, key=lambda text: text[n])
            self._lo = lo
        self._matched = n + 1
        return self._lo < self._hi
