"""What the terminal shows of the changes of files."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.widgets import OptionList, Static

from semel.faces.terminal import line_matcher
from semel.faces.terminal.app import ChatApp
from semel.faces.terminal.diffs import COARSE_MESSAGE, TINTS, format_diffs
from semel.faces.terminal.question import Question
from semel.faces.terminal.rows import make_widget

OLD = [f"line {number}" for number in range(20)]
NEW = [*OLD[:10], "[b]changed[/b]", "a\u202eb", *OLD[11:]]
DIFFS = [
    {"path": "src/a.py", "oldText": "\n".join(OLD), "newText": "\n".join(NEW)},
    {"path": "src/new.py", "newText": "one"},
    {"path": "src/large.py", "left_out": 1234567},
]
SHOWN = """\
src/a.py
@@ -8,7 +8,8 @@
 line 7
 line 8
 line 9
-line 10
+[b]changed[/b]
+a<U+202E>b
 line 11
 line 12
 line 13
src/new.py (a new file)
@@ -0,0 +1 @@
+one
src/large.py
1,234,567 characters are not shown here"""


class Faces(App[None]):
    """A tool call's row, and a request for permission."""

    def compose(self) -> ComposeResult:
        item = {
            "id": 1,
            "born": 1,
            "rev": 1,
            "kind": "tool",
            "title": "Edit",
            "status": "done",
            "text": "",
            "diffs": DIFFS,
        }
        yield make_widget(item)
        yield Question()

    def on_mount(self) -> None:
        options = [{"optionId": "y", "name": "Allow", "kind": "allow_once"}]
        request: dict[str, Any] = {"id": 2, "kind": "permission", "title": "Edit", "text": "", "options": options}
        self.query_one(Question).show([{**request, "diffs": DIFFS}])


def test_changes_are_shown_as_they_are_and_long_ones_are_counted() -> None:
    assert format_diffs(DIFFS).plain == SHOWN
    lines = SHOWN.split("\n")
    assert format_diffs(DIFFS, 4).plain == "\n".join([*lines[:4], f"… {len(lines) - 4} more lines"])
    assert format_diffs(DIFFS, 4, key="ctrl+o").plain.endswith(f"… {len(lines) - 4} more lines (ctrl+o)")
    text = format_diffs(DIFFS)
    styles = {(text.plain[span.start : span.end], str(span.style)) for span in text.spans}
    assert styles.issuperset({("line 10", TINTS["-"]), ("[b]changed[/b]", TINTS["+"])})
    assert format_diffs([]).plain == ""


@pytest.mark.parametrize("width", [110, 160])
def test_wide_terminals_show_changes_side_by_side_and_every_character(width: int) -> None:
    long = "x" * 200
    same = "s\n" * 9
    diff = {"path": "a.py", "oldText": f"same\n\told\n{same}漢字", "newText": f"same\nnew {long}\n{same}"}
    lines = format_diffs([diff], width=width).plain.split("\n")
    assert all(cell_len(line) <= width for line in lines)
    halves = [tuple(half.rstrip() for half in line.split(" │ ")) for line in lines if " │ " in line]
    assert halves[0] == ("   1  same", "   1  same")
    assert halves[1][0] == "   2-         old" and halves[1][1].startswith("   2+ new xx")
    assert "".join(half[1].strip() for half in halves[1:]).count("x") == len(long)
    assert "  12- 漢字" in [half[0] for half in halves] and "⋮" in lines
    assert format_diffs([{"path": "b", "left_out": 5}], width=width).plain == "b\n5 characters are not shown here"


def test_the_rest_of_a_folded_line_has_no_sign() -> None:
    change = {"path": "a.py", "oldText": "same\n", "newText": f"same\n{'x' * 39}- as if it had gone\n"}
    lines = format_diffs([change], width=40).plain.split("\n")
    assert [line.rstrip() for line in lines[2:]] == [" same", "+" + "x" * 39, " - as if it had gone"]


def test_a_change_of_10_000_lines_is_compared_in_bounded_time_and_a_coarse_comparison_says_so() -> None:
    old = [f"line {number}" for number in range(10_000)]
    new = [line if number % 7 else f"{line} changed" for number, line in enumerate(old)]
    diff: dict[str, Any] = {"path": "a.txt", "oldText": "\n".join(old), "newText": "\n".join(new)}
    start = time.process_time()
    lines = format_diffs([diff]).plain.split("\n")
    assert time.process_time() - start < 1
    assert [line for line in lines if line.startswith("+")] == [f"+{line}" for line in new[::7]]
    assert [line[1:] for line in lines[2:] if line[0] != "-"] == new and COARSE_MESSAGE not in lines
    few: dict[str, Any] = {"path": "a.txt", "oldText": "\n".join("abcde" * 2000), "newText": "\n".join("bcdae" * 2000)}
    start = time.process_time()
    assert format_diffs([few], 5).plain.split("\n")[1] == COARSE_MESSAGE
    assert time.process_time() - start < 1
    other = {**few, "newText": "\n".join("fghij" * 2000)}
    assert COARSE_MESSAGE not in format_diffs([other]).plain, "no line is in both"


@given(
    old=st.lists(st.sampled_from("abcdefghijkl")),
    new=st.lists(st.sampled_from("abcdefghijkl")),
    limit=st.integers(0, 99),
)
def test_lines_shown_as_equal_are_equal_however_few_lines_may_be_compared(
    old: list[str], new: list[str], limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_matcher, "MAX_COMPARED_PAIRS", limit)
        shown = line_matcher.LineMatcher(old, new).get_opcodes()
    assert all(old[a:b] == new[c:d] for tag, a, b, c, d in shown if tag == "equal")
    assert [place for _, a, b, _, _ in shown for place in range(a, b)] == list(range(len(old)))
    assert [place for _, _, _, c, d in shown for place in range(c, d)] == list(range(len(new)))


async def test_a_call_and_a_request_for_permission_show_the_changes() -> None:
    async with Faces().run_test(size=(100, 60)) as pilot:
        await pilot.pause()
        screen = "\n".join(strip.text.rstrip() for strip in pilot.app.screen._compositor.render_strips())
        for line in SHOWN.split("\n"):
            assert screen.count(line) >= 2, line


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
async def test_the_code_in_a_change_has_the_colours_of_the_theme(theme: str, width: int) -> None:
    segments = await _draw_change(theme, width)
    colours = {text: _find_colours(segments, text) for text in ("class", "x", "# one", "None", "y")}
    assert len({front for front, _ in colours.values()}) >= 4
    assert len({back for _, back in colours.values()}) == 3  # what goes, what comes, and what stands around it


@pytest.mark.parametrize("width", [80, 140])
async def test_no_text_of_a_change_is_hidden_by_a_theme_of_sixteen_colours(width: int) -> None:
    segments = await _draw_change("ansi-dark", width)
    front, back = _find_colours(segments, "class X:")
    assert front is not None and (front.number, back) == (2, Color.default())


async def _draw_change(theme: str, width: int) -> Sequence[Segment]:
    """Return what a request for permission shows."""
    change = {"path": "src/a.py", "oldText": "# one\nx = 1", "newText": "# one\nclass X:\n    y = None"}
    options = [{"optionId": "y", "name": "Allow"}]
    request = {"kind": "permission", "id": 1, "title": "Edit", "state": "open", "options": options}
    app = PanelApp({**request, "diffs": [change]})
    app.theme = theme
    async with app.run_test(size=(width, 30)) as pilot:
        await pilot.pause()
        return [segment for strip in app.screen._compositor.render_strips() for segment in strip]


def _find_colours(segments: Sequence[Segment], text: str) -> tuple[Color | None, Color | None]:
    """Return the colours of the first segment that ends with a text: its own, and the one behind it."""
    styles = (segment.style for segment in segments if segment.text.rstrip().endswith(text) and segment.style)
    return next((style.color, style.bgcolor) for style in styles)


class PanelApp(App[None]):
    """The question panel alone, in the terminal's style. `request`: what it shows."""

    CSS_PATH = Path(str(sys.modules[ChatApp.__module__].__file__)).with_name(ChatApp.CSS_PATH)
    VERTICAL_BREAKPOINTS = ChatApp.VERTICAL_BREAKPOINTS

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__()
        self.request = request

    def compose(self) -> ComposeResult:
        yield Question()

    def on_mount(self) -> None:
        self.query_one(Question).show([self.request])


@pytest.mark.parametrize("size", [(60, 40), (80, 24), (120, 40), (40, 12)])
async def test_below_a_change_to_be_allowed_its_options_are_in_sight_and_all_of_it_can_be_read(
    size: tuple[int, int],
) -> None:
    change = {"path": "a.py", "oldText": "", "newText": "\n".join(f"line {number}" for number in range(60))}
    options = [{"optionId": name, "name": name} for name in ("Allow", "Always", "Reject")]
    request = {"kind": "permission", "id": 1, "title": "Edit a.py", "state": "open", "options": options}
    app = PanelApp({**request, "diffs": [change]})
    async with app.run_test(size=size) as pilot:
        question = app.query_one(Question)
        question.focus_options()
        await pilot.pause()
        listed, hint = question.query_one(OptionList), question.query_one("#hint", Static)
        assert listed.region.height == len(options) and hint.region.height >= 1
        assert all(question.content_region.contains_region(part.region) for part in (listed, hint))
        assert question.region.height <= max(size[1] // 2, 8)
        assert not question.turn_page(-1) or question.query_one("#asked-area").scroll_offset.y == 0
        while (area := question.query_one("#asked-area")).scroll_offset.y < area.max_scroll_y:
            assert question.turn_page(1)
            await pilot.pause()
        assert "line 59" in "".join(strip.text for strip in app.screen._compositor.render_strips())


@pytest.mark.parametrize(("size", "lines"), [((80, 24), 6), ((40, 12), 3)])
async def test_only_a_low_terminal_shows_a_part_of_six_options(size: tuple[int, int], lines: int) -> None:
    options = [{"optionId": name, "name": name} for name in "123456"]
    app = PanelApp({"kind": "permission", "id": 1, "title": "Edit a.py", "state": "open", "options": options})
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert app.query_one(OptionList).region.height == lines
