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
    """Return the colours of each line. Of a large text, they begin at line `first`, from 0 on, and end before line
    `end`, or after MAX_COLOURED_CHARS: other lines have none.
    """
    none: Sequence[Span] = ()
    language = _find_language(PurePath(path).name)
    if not language:
        return [none] * len(lines)
    begin, last = (first, end) if sum(map(len, lines)) > MAX_COLOURED_CHARS else (0, len(lines))
    end, chars = begin, 0
    while end < last and (chars := chars + len(lines[end]) + 1) <= MAX_COLOURED_CHARS:
        end += 1
    coloured = _colour_text("\n".join(lines[begin:end]), language) if end > begin else []
    if len(coloured) != end - begin:
        return [none] * len(lines)
    return [*([none] * begin), *coloured, *([none] * (len(lines) - end))]


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
