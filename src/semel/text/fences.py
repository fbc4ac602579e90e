"""Code fences, as CommonMark defines them (spec 0.31, section 4.5).

An opening line has at most three blanks, three or more backticks or tildes, and an info string; after backticks, the
info string contains no backtick. A closing line has at least as many of the same character and nothing else. A fence
without a closing line runs to the end of the text. A line ends at LF, CR or CR LF. Fences inside block quotes and list
items are not recognised.

`FenceLine` implements these rules. It reads a line piece by piece, because its users, `tag_lexer` and `prefix`, examine
a streaming text before its lines are complete. In the code, a *mark* is a backtick or a tilde, and a *run* is the
sequence of equal marks with which a line begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_PIECES = re.compile(r"( {0,3})(`{3,}|~{3,})([ \t]*)(.*)")


class FenceLine:
    """Reads one line piece by piece, and decides whether the line opens or closes a fence."""

    __slots__ = ("_indent", "_rest", "mark", "plain", "run")

    def __init__(self) -> None:
        self.mark = ""  # the backtick or tilde that the line begins with
        self.run = 0  # how many of them begin the line
        self.plain = False  # whether the line can no longer open or close a fence, whatever follows
        self._indent = 0
        self._rest = ""  # what follows the run: "" for nothing, " " for blanks, "text" for anything else

    def feed(self, piece: str) -> None:
        """Add the next piece of the line: blanks, equal marks, or text that begins with neither."""
        char = piece[0]
        if self.plain:
            return
        if char in " \t":
            if self.mark:
                self._rest = self._rest or " "
            else:
                self._indent += len(piece) if "\t" not in piece else 4
                self.plain = self._indent > 3
        elif char in "`~" and not self._rest and self.mark in ("", char):
            self.mark = char
            self.run += len(piece)
        else:
            self._rest = "text"
            self.plain = self.run < 3 or (self.mark == "`" and "`" in piece)

    def end_run(self) -> None:
        """End the run, because a tag follows: marks after the tag do not continue it."""
        if self.mark:
            self.feed(" ")

    @property
    def opens(self) -> bool:
        """Whether the line would open a fence if it ended after the characters that were fed so far."""
        return self.run >= 3 and not self.plain

    def closes(self, mark: str, size: int) -> bool:
        """Whether the line, if it ends here, closes a fence that was opened by `size` times the character `mark`."""
        return self.mark == mark and self.run >= size and self._rest in ("", " ")


@dataclass(frozen=True)
class CodeFence:
    """A fence, as offsets in its text (in code points).

    `lo`: the beginning of its opening marker. `inner`: the beginning of its content. `close`: the beginning of its
    closing line; the end of the text if it has none. `hi`: the end of its closing marker, or of the text. `marker`: the
    opening marker, such as three backticks. `info`: the rest of the opening line.
    """

    lo: int
    inner: int
    close: int
    hi: int
    marker: str
    info: str


def find_fences(text: str) -> Iterator[CodeFence]:
    """Yield every fence of the text, in order."""
    if "```" not in text and "~~~" not in text:
        return
    opening: FenceLine | None = None
    lo = inner = 0
    info = ""
    for line_match in _LINE.finditer(text):
        if (pieces := _PIECES.fullmatch(line_match[1])) is None:
            continue
        line = FenceLine()
        for piece in filter(None, pieces.groups()):
            line.feed(piece)
        if opening is None and line.opens:
            opening, info = line, pieces[3] + pieces[4]
            lo, inner = line_match.start() + len(pieces[1]), line_match.end()
        elif opening is not None and line.closes(opening.mark, opening.run):
            yield CodeFence(
                lo, inner, line_match.start(), line_match.start() + pieces.end(2), opening.mark * opening.run, info
            )
            opening = None
    if opening is not None:
        yield CodeFence(lo, inner, len(text), len(text), opening.mark * opening.run, info)
