"""The colours of lines of code, as variables of the terminal's theme. The name of a file tells its language."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePath

from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]
from textual.content import Span
from textual.highlight import HighlightTheme, highlight

MAX_PART_CHARS = 15_000  # of a text that are coloured at once; this takes less than 0.1 s of CPU
MAX_KEPT_TEXTS = 16  # a text is drawn again when the terminal gets another width, and in the request for its change
_FADED = re.compile(r"(?<=\$text-)(\w+) \d+%")


class CodeTheme(HighlightTheme):
    """Textual's colours of code, none of them faded: on a tint, they would be too faint in a light theme. What the
    language's rules cannot read has no colour: a change may begin in the middle of anything.
    """

    STYLES = {  # noqa: RUF012 (as there)
        token: _FADED.sub(r"\1", style) for token, style in HighlightTheme.STYLES.items() if "$error-muted" not in style
    }


class LineColours:
    """The colours of the lines of a text. They are found for a part of it, when one of its lines is drawn."""

    def __init__(self, lines: Sequence[str], path: str):
        self._lines = lines
        self._language = _find_language(PurePath(path).name)
        self._starts = [0]  # the line with which each part begins
        chars = 0
        for number, line in enumerate(lines if self._language else ()):
            if (chars := chars + len(line) + 1) > MAX_PART_CHARS and number > self._starts[-1]:
                self._starts.append(number)
                chars = len(line) + 1

    def find(self, number: int) -> Sequence[Span]:
        """Return the colours of a line."""
        if not self._language or len(self._lines[number]) > MAX_PART_CHARS:
            return ()
        place = bisect_right(self._starts, number)
        start, end = self._starts[place - 1], [*self._starts, len(self._lines)][place]
        coloured = _colour_text("\n".join(self._lines[start:end]), self._language)
        return coloured[number - start] if len(coloured) == end - start else ()


@lru_cache(maxsize=256)
def _find_language(name: str) -> str:
    """Return the language of a file by its name, as Pygments calls it; "" if it has none."""
    lexer = find_lexer_class_for_filename(name)
    return lexer.aliases[0] if lexer is not None and lexer.aliases else ""


@lru_cache(maxsize=MAX_KEPT_TEXTS)
def _colour_text(text: str, language: str) -> Sequence[Sequence[Span]]:
    """Return the colours of each line of a text; none if its language's rules fail on it."""
    try:
        coloured = highlight(text, language=language, theme=CodeTheme, tab_size=0)
    except Exception:  # a change that is to be allowed is shown in any case
        return []
    return [line.spans for line in coloured.split("\n", allow_blank=True)]
