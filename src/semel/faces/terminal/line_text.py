"""A text of many lines in a row of the conversation, of which only the lines in sight are drawn.

Textual's `Static` draws all of its text for each width: the 10,000 lines of one change kept every key waiting for
seconds. Here only the heights of the lines are found for all of them (Law 11).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual.content import Content, Span
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions
from textual.widget import Widget

MAX_KEPT_LINES = 200  # drawn lines that are kept, since a line is drawn whole but asked for row by row


class Piece(NamedTuple):
    """A text, the style of all of it, and the colours in it, which are looked up when it is drawn."""

    text: str
    style: str = ""
    find_colours: Callable[[], Sequence[Span]] = tuple


Line = Sequence[Piece]


def list_lines(text: Content | Text) -> list[Line]:
    """Return the lines of a text; none of an empty one."""
    if not text:
        return []
    content = Content.from_rich_text(text) if isinstance(text, Text) else text
    texts = content.plain.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in texts)]
    colours: list[list[Span]] = [[] for _ in texts]
    for start, end, style in content.spans:
        number = bisect_right(starts, start) - 1
        while number < len(texts) and (line_start := starts[number]) < end:
            colours[number].append(Span(max(start - line_start, 0), min(end - line_start, len(texts[number])), style))
            number += 1
    return [[Piece(line, "", spans.copy)] for line, spans in zip(texts, colours, strict=True)]


def read_line(line: Line) -> str:
    """Return the text of a line."""
    return "".join(piece.text for piece in line)


def format_line(line: Line) -> Content:
    """Return a line with its colours."""
    spans: list[Span] = []
    offset = 0
    for text, style, find_colours in line:
        if style and text:
            spans.append(Span(offset, offset + len(text), style))
        spans += [Span(offset + start, offset + end, colour) for start, end, colour in find_colours()]
        offset += len(text)
    return Content(read_line(line), spans)


class LineText(Widget):
    """Shows lines, each folded at the widget's width. `content`: all of their text."""

    DEFAULT_CSS = "LineText { height: auto; }"

    def __init__(self, lines: Sequence[Line] = (), classes: str = ""):
        super().__init__(classes=classes)
        self._lines = lines
        self._starts = [0]  # the row at which each line begins, and the one behind the last
        self._folded_width = 0
        self._kept_lines: dict[int, Sequence[Strip]] = {}
        self._kept_style: Style | None = None  # of the kept lines

    def show(self, lines: Sequence[Line]) -> None:
        self._lines, self._folded_width = lines, 0
        self.refresh(layout=True)

    @property
    def content(self) -> str:
        return "\n".join(map(read_line, self._lines))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._fold(width)
        return self._starts[-1]

    def render_line(self, y: int) -> Strip:
        self._fold(self.size.width)
        number = bisect_right(self._starts, y) - 1
        if number >= len(self._lines):
            return Strip.blank(self.size.width, self.visual_style.rich_style)
        return self._draw_line(number)[y - self._starts[number]]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return what is selected of the text, and what stands between it and the text of the next widget."""
        selected = []
        for number, line in enumerate(self._lines):
            if (span := selection.get_span(number)) is not None:
                start, end = span
                selected.append(read_line(line)[start : None if end == -1 else end])
        return "\n".join(selected), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self._kept_lines.clear()
        self.refresh()

    def _fold(self, width: int) -> None:
        """Find how many rows each line takes."""
        if width != self._folded_width:
            self._folded_width = width
            self._kept_lines.clear()
            self._starts = [0, *accumulate(_count_rows(read_line(line), width) for line in self._lines)]

    def _draw_line(self, number: int) -> Sequence[Strip]:
        """Return the rows of a line."""
        if self._kept_style != self.visual_style or len(self._kept_lines) > MAX_KEPT_LINES:
            self._kept_lines.clear()
            self._kept_style = self.visual_style
        if number not in self._kept_lines:
            content = format_line(self._lines[number])
            if (selection := self.text_selection) and (span := selection.get_span(number)) is not None:
                start, end = span
                style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
                content = content.stylize(style, start, len(content) if end == -1 else end)
            options = RenderOptions(self._get_style, self.styles.get_rules())
            strips = content.render_strips(self._folded_width, None, self.visual_style, options)
            self._kept_lines[number] = [_move_to_line(strip, number) for strip in strips]
        return self._kept_lines[number]


def _count_rows(text: str, width: int) -> int:
    """Return how many rows of so many cells a line takes."""
    if "\t" not in text and cell_len(text) <= width:
        return 1
    return len(Content(text).wrap(width))


def _move_to_line(strip: Strip, number: int) -> Strip:
    """Return a row that was drawn as a text of its own with the number of its line, by which it is selected."""
    first = next(iter(strip), None)
    if first is None or first.style is None:
        return strip
    x, _ = first.style.meta.get("offset", (0, 0))
    return strip.apply_offsets(x, number)
