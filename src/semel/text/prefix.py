"""Incremental prefix matching: may a growing text still become one of some known texts, in verbatim form (Law 5)?

A `Path` is one reading of the text so far, matched character by character against the originals. There is one reading,
except on a line that begins with three backticks: until the line ends, it may open a fence (if no backtick follows) or
be plain text (if one follows), and both readings are kept.
"""

from __future__ import annotations

import copy
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum, auto


class Originals:
    """The known texts, sorted, so that those sharing a prefix are neighbours."""

    def __init__(self, texts: Iterable[str]):
        self.texts = sorted({text for text in texts if text})

    def __len__(self) -> int:
        return len(self.texts)


class Place(Enum):
    """The state of a reading."""

    TEXT = auto()  # outside fences
    RUN = auto()  # a line begins with backticks or tildes: fewer than three so far
    INFO = auto()  # the opening line of a fence
    FENCE = auto()


class Path:
    """One reading of the text so far. `step` takes NFC characters, with every line end as LF."""

    def __init__(self, originals: Originals):
        self._texts = originals.texts
        self._lo, self._hi, self._n = 0, len(originals), 0  # texts[lo:hi] share their first n characters
        self._place = Place.TEXT
        self._gap = ""  # white space that counts only if something follows
        self._indent = 0  # blanks since the line began; 4 or more: no fence can begin or end here
        self._run = 0  # fence characters in a row
        self._mark = ""  # the fence character
        self._size = 0  # the length of the open fence's marker
        self._closing = False  # the line so far is a closing line
        self._tick = ""  # plain reading of a fence-like line: "run" while in its marker, then "want" a backtick

    def step(self, char: str) -> Iterator[Path]:
        """The readings that remain after this character."""
        if self._place is Place.RUN and char == self._mark and self._run == 2:
            yield from self._third()
            return
        alive = {
            Place.TEXT: self._text,
            Place.RUN: self._short_run,
            Place.INFO: self._info,
            Place.FENCE: self._fence,
        }[self._place](char)
        if alive:
            yield self

    def ended(self) -> str | None:
        """The original that the whole text is, if it ends here."""
        if self._place is Place.RUN and not self._emit(self._mark * self._run):
            return None
        if self._tick or self._lo == self._hi:
            return None
        text = self._texts[self._lo]
        return text if len(text) == self._n else None

    def hopeful(self, piece: str) -> bool:
        """Whether this reading could still match if `piece` came next. More characters may yet combine with the piece.

        So only the first character of the piece is compared, and only the first character of its decomposition: marks
        that are still to come may reorder the rest.
        """
        if self._place is Place.RUN:
            gaps = {self._gap, self._gap and "\n"}
            run = self._mark * self._run
            return any(copy.copy(self)._emit(run, gap) for gap in gaps)
        if not piece or unicodedata.combining(piece[0]):
            return True
        trial = copy.copy(self)
        if trial._gap and not trial._emit(""):
            return False
        base = unicodedata.normalize("NFD", piece[0])[0]
        texts, n = self._texts, trial._n
        return any(
            len(texts[i]) > n and unicodedata.normalize("NFD", texts[i][n])[0] == base
            for i in range(trial._lo, trial._hi)
        )

    # ------------------------------------------------------------ the places

    def _text(self, char: str) -> bool:
        if char.isspace():
            self._gap = self._gap or (" " if self._n else "")
            self._indent = 0 if char == "\n" else self._indent + (1 if char == " " else 4)
            self._tick = self._tick and "want"
            return char != "\n" or not self._tick  # the line ends without a further backtick: it did open a fence
        if char in "`~" and self._indent < 4 and not self._tick:
            self._place, self._mark, self._run = Place.RUN, char, 1
            return True
        if self._tick == "run" and char != "`":
            self._tick = "want"
        elif self._tick == "want" and char == "`":
            self._tick = ""
        self._indent = 4
        return self._emit(char)

    def _short_run(self, char: str) -> bool:
        if char == self._mark:
            self._run += 1
            return True
        self._place, self._indent = Place.TEXT, 4
        return self._emit(self._mark * self._run) and self._text(char)

    def _third(self) -> Iterator[Path]:
        if self._mark == "`":
            plain = copy.copy(self)
            plain._place, plain._indent, plain._tick = Place.TEXT, 4, "run"
            if plain._emit("```"):
                yield plain
        self._place, self._size = Place.INFO, 3
        if self._emit(self._mark * 3, self._gap and "\n"):
            yield self

    def _info(self, char: str) -> bool:
        if char == "\n":
            self._place, self._indent, self._run = Place.FENCE, 0, 0
        elif self._run >= 0 and char == self._mark:
            self._size += 1
        elif char == "`" and self._mark == "`":
            return False  # an info string holds no backtick: the line was plain text
        else:
            self._run = -1  # the marker is over
        return self._exact(char)

    def _fence(self, char: str) -> bool:
        if char == "\n":
            if self._closing:
                self._place, self._gap, self._closing, self._indent = Place.TEXT, "\n", False, 0
                return True
            self._indent, self._run = 0, 0
        elif char == self._mark and self._indent < 4 and self._run >= 0:
            self._run += 1
            self._closing = self._run >= self._size
        elif char == " " and not self._run:
            self._indent += 1
        elif char in " \t" and self._closing:
            self._run = -1
        else:
            self._run, self._closing = -1, False
        return self._exact(char)

    # ------------------------------------------------------------ matching

    def _exact(self, char: str) -> bool:
        if char.isspace():
            self._gap += char
            return True
        return self._emit(char)

    def _emit(self, text: str, gap: str | None = None) -> bool:
        before, self._gap = self._gap if gap is None else gap, ""
        return all(self._match(char) for char in before + text)

    def _match(self, char: str) -> bool:
        texts, n = self._texts, self._n
        if self._lo < self._hi and len(texts[self._lo]) == n:
            self._lo += 1
        if self._lo == self._hi:
            return False
        if not texts[self._lo][n] == char == texts[self._hi - 1][n]:
            lo = bisect_left(texts, char, self._lo, self._hi, key=lambda text: text[n])
            self._hi = bisect_right(texts, char, lo, self._hi, key=lambda text: text[n])
            self._lo = lo
        self._n = n + 1
        return self._lo < self._hi
