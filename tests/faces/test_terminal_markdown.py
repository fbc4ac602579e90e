"""An agent's Markdown in the terminal and in chats: formulas as they were written, and signs that a terminal has."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it.token import Token
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock

from semel.channels.markdown import parse
from semel.channels.styled_text import render_styled
from semel.faces.terminal import rows
from semel.faces.terminal.markdown_parts import MAX_PART_CHARS, make_terminal_parser, split_parts
from semel.faces.terminal.rows import make_widget

FORMULAS = (
    "so \\(x_1 \\, x_2\\) is", "$a\\,b$ and $x_1 * y * z$", "and $$\\{a\\}$$ and \\[ \\alpha \\; b \\]",
    "$$\n\\int_0^1 x\\,dx \\\\ \\{a\\}\n- b\n$$", "\\[\na \\; b\n\\]",
)  # fmt: skip


def shown(text: str) -> list[str]:
    """The lines of a message in the terminal, without marks of blocks."""
    lines = [""]
    for token in make_terminal_parser().parse(text):
        for child in token.children or ():
            lines[-1] += child.content
            if child.type.endswith("break"):
                lines.append("")
        if token.type == "inline":
            lines.append("")
    return lines[:-1]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_stays_as_it_was_written_in_the_terminal_and_in_chats(text: str) -> None:
    assert shown(text) == text.split("\n")
    assert render_styled(text, lambda body: True, languages=False) == text


@pytest.mark.parametrize("text", ["$5 and $6 _it_", "US$5 = _it_ 6$", "$HOME/_it_ /$USER", "$FOO=$BAR _it_"])
def test_money_and_variables_are_no_formulas(text: str) -> None:
    assert any(child.type == "em_open" for token in parse(text) for child in token.children or ())


def test_tasks_have_boxes_and_details_have_their_summary() -> None:
    assert shown("- [ ] one\n- [x] *two*\n  1. [X] three\n- [y] four\n\n[ ] five") == [
        "☐ one", "☑ two", "☑ three", "[y] four", "[ ] five",
    ]  # fmt: skip
    text = "<details>\n<summary>More **here**</summary>\n\nhidden\n\n</details>"
    assert shown(f"{text}\n\n<details open><summary>A</summary>b</details>") == [
        "▾ More here",
        "hidden",
        "▴",
        "▾ A",
        "b",
        "▴",
    ]
    for kept in ("a <details> tag", "<details> without", "`</details>`", "<summary>alone</summary>"):
        assert "".join(shown(kept)) == kept.replace("`", "")


def test_marks_of_footnotes_keep_their_signs_and_code_and_links_have_none() -> None:
    text = "One[^a], two[^b].\n\n[^a]: first\n[^b]: second[^a]"
    assert shown(text) == ["One[^a], two[^b].", "[^a]: first", "[^b]: second[^a]"]
    children = [child for token in make_terminal_parser().parse(text) for child in token.children or ()]
    assert [child.attrs["href"] for child in children if child.type == "link_open"] == [
        "footnote:a", "footnote:b", "footnote-mark:a", "footnote-mark:b", "footnote:a",
    ]  # fmt: skip
    assert sum(child.type == "strong_open" for child in children) == 2
    for other in ("`[^a]`", "```\n[^a]: x\n```", "[x[^a]](https://e.org/)"):
        links = [c for token in make_terminal_parser().parse(other) for c in token.children or () if "link" in c.type]
        assert not any(str(child.attrs.get("href", "")).startswith("footnote:") for child in links)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_click_on_the_mark_of_a_footnote_shows_the_footnote_and_opens_no_browser(is_streamed: bool) -> None:
    text = "See this[^a].\n\n" + "More.\n\n" * 60 + "[^a]: here it is\n"
    row = make_widget(
        {"seq": 1, "born": 1, "rev": 1, "at": 0, "role": "agent", "text": text[:9] if is_streamed else text}
    )
    app = OneRow(row)
    opened: list[str] = []
    app.open_url = lambda url, new_tab=True: opened.append(url)  # type: ignore[method-assign]
    async with app.run_test(size=(60, 20)) as pilot:
        for end in range(9, len(text) + 1, 31) if is_streamed else ():
            row.data["text"] = text[:end]
            await row.draw()
        row.data["text"] = text
        await row.draw()
        await pilot.pause()
        await pilot.click(offset=(10, 2))
        await pilot.pause()
        assert "[^a]: here it is" in app.seen()
        await click_note(pilot, "[^a]:")
        assert "See this[^a]." in app.seen(), "back to the mark"
    assert not opened


async def click_note(pilot: Pilot[None], text: str) -> None:
    assert isinstance(pilot.app, OneRow)
    lines = pilot.app.seen().split("\n")
    y = next(y for y, line in enumerate(lines) if text in line)
    await pilot.click(offset=(lines[y].index(text) + 1, y))
    await pilot.pause()


async def test_the_way_back_from_a_footnote_leads_to_the_mark_that_was_clicked_else_to_the_first() -> None:
    note = "[^a]: here it is"
    text = "First[^a].\n\n" + "More.\n\n" * 40 + "Second[^a].\n\n" + "More.\n\n" * 40 + f"{note}\n"
    row = make_widget({"seq": 1, "born": 1, "rev": 1, "at": 0, "role": "agent", "text": text})
    app = OneRow(row)
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        scroll = app.query_one(VerticalScroll)
        for clicked, seen in (("", "First"), ("Second", "Second")):
            if clicked:
                scroll.scroll_to(y=app.query(MarkdownBlock)[41].virtual_region.y, animate=False)
                await pilot.pause()
                await click_note(pilot, "[^a].")
                assert note in app.seen()
            scroll.scroll_end(animate=False)
            await pilot.pause()
            await click_note(pilot, "[^a]:")
            assert f"{seen}[^a]." in app.seen()


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_long_code_block_is_drawn_in_parts_that_look_like_one_block(is_streamed: bool) -> None:
    lines = [f"def function_{number}(): pass" for number in range(900)]
    text = "\n".join(["The file:", "", "```python title=x", *lines, "```", "", "That was all.", ""])
    row = make_widget({"seq": 1, "born": 1, "rev": 1, "at": 0, "role": "agent", "text": text})
    app = OneRow(row)
    async with app.run_test(size=(60, 40)) as pilot:
        if is_streamed:
            for end in range(0, len(text), 2001):
                row.data["text"] = text[:end]
                await row.draw()
            row.data["text"] = text
            await row.draw()
        assert isinstance(row, rows.AgentWidget)
        while not row.is_whole:
            await row.draw_part_above()
        await pilot.pause()
        drawn = row.query(Markdown).results(Markdown)
        assert max(len(part.source) for part in drawn) < 2 * MAX_PART_CHARS + 100
        by_line: dict[int, str] = {}
        for y in range(0, row.region.height, 40):
            scroll = app.query_one(VerticalScroll)
            scroll.scroll_to(y=y, animate=False)
            await pilot.pause()
            lines_in_sight = [line.strip(" ▁▂▃▄▅▆▇█▔▌") for line in app.seen().split("\n")]
            by_line.update(enumerate(lines_in_sight, scroll.scroll_offset.y))
        seen = [line for _, line in sorted(by_line.items())]
        first = seen.index(lines[0])
        assert seen[first : first + len(lines)] == lines and seen[first - 1] == "python title=x"
        assert seen.count("python title=x") == 1 and "That was all." in seen


class OneRow(App[None]):
    """One row in the terminal's style."""

    CSS_PATH = Path(rows.__file__).with_name("chat.tcss")

    def __init__(self, row: rows.RowWidget) -> None:
        super().__init__()
        self.row = row

    def compose(self) -> ComposeResult:
        yield VerticalScroll(self.row)

    def seen(self) -> str:
        """Return what is on the screen."""
        return "\n".join(strip.text.rstrip() for strip in self.screen._compositor.render_strips())


LISTS = {
    "bullets": ("- {}", "  rest\n  - below it"), "stars": ("* {}", "  rest"), "numbers": ("{}. {}", "   rest"),
    "the same number": ("1. {}", "   rest"), "quotation": ("> - {}", ">   rest"),
    "quoted numbers": ("> > {}) {}", "rest"),
    "quoted paragraphs": ("> {}", "rest\n>"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LISTS)
def test_a_long_list_or_quotation_is_divided_at_its_items_which_keep_their_numbers(kind: str) -> None:
    first, rest = LISTS[kind]
    items = [first.replace("{}", str(number), first.count("{}") - 1) for number in range(5, 1_505)]
    text = "\n".join(f"{item.replace('{}', f'**item** {number}')}\n{rest}" for number, item in enumerate(items))
    starts = [part.start for part in split_parts(text)]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    assert "".join(parts) == text and len(parts) > 2
    assert max(len(part) for part in parts) < MAX_PART_CHARS + 100
    assert [part.continues for part in split_parts(text)][1:] == [kind != "the same number"] * (len(parts) - 1)
    parse_lines = make_terminal_parser().parse
    drawn = [(t.type, t.info, t.content, t.level) for part in parts for t in parse_lines(part) if is_item(t)]
    assert drawn == [(t.type, t.info, t.content, t.level) for t in parse_lines(text) if is_item(t)]


def is_item(token: Token) -> bool:
    return token.type in ("inline", "list_item_open")
