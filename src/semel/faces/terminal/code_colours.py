"""The colours of lines of code, as variables of the terminal's theme. The name of a file tells its language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePath

from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]
from textual.content import Span
from textual.highlight import HighlightTheme, highlight

MAX_COLOURED_CHARS = 50_000  # of a text; to colour as many takes about 0.1 s of CPU
MAX_KEPT_TEXTS = 16  # a text is drawn again when the terminal gets another width, and in the request for its change
_FADED = re.compile(r"(?<=\$text-)(\w+) \d+%")


class CodeTheme(HighlightTheme):
    """Textual's colours of code, none of them faded: on a tint, they would be too faint in a light theme. What the
    language's rules cannot read has no colour: a change may begin in the middle of anything.
    """

    STYLES = {  # noqa: RUF012 (as there)
        token: _FADED.sub(r"\1", style) for token, style in HighlightTheme.STYLES.items() if "$error-muted" not in style
    }


def colour_lines(lines: Sequence[str], path: str, first: int, end: int) -> Sequence[Sequence[Span]]:
    """Return the colours of each line.

    Of a large text, only the lines from `first` to before `end` (counted from 0) have colours, and only the first
    MAX_COLOURED_CHARS characters of these.
    """
    none: Sequence[Span] = ()
    language = _find_language(PurePath(path).name)
    if not language:
        return [none] * len(lines)
    if sum(map(len, lines)) <= MAX_COLOURED_CHARS:
        first, end = 0, len(lines)
    coloured_end, chars = first, 0
    while coloured_end < end and (chars := chars + len(lines[coloured_end]) + 1) <= MAX_COLOURED_CHARS:
        coloured_end += 1
    coloured = _colour_text("\n".join(lines[first:coloured_end]), language) if coloured_end > first else []
    if len(coloured) != coloured_end - first:
        return [none] * len(lines)
    return [*([none] * first), *coloured, *([none] * (len(lines) - coloured_end))]


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
