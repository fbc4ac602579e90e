"""`semel chat` and `semel show` show every character that was said."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from said_judge import missing, plain
from said_texts import texts
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Markdown

from semel.faces.cli import transcript
from semel.faces.documents.html import HtmlDocument
from semel.faces.documents.markdown import MarkdownDocument
from semel.faces.terminal import markdown_parts, rows
from semel.faces.terminal.rows import RowWidget, make_widget
from semel.faces.transcript import format_entry

SEEDS = [200, pytest.param(201, marks=pytest.mark.long)]
COUNT = 30
CHUNK = 31  # characters by which a text grows
WIDE = (1200, 150)  # nothing is wrapped, and nothing is out of sight


def entry(text: str, role: str = "agent", **more: Any) -> dict[str, Any]:
    return {"seq": 1, "born": 1, "rev": 1, "at": 0, "role": role, "text": text, **more}


class OneRow(App[None]):
    CSS_PATH = Path(rows.__file__).with_name("chat.tcss")

    def __init__(self, row: RowWidget) -> None:
        super().__init__()
        self.row = row

    def compose(self) -> ComposeResult:
        yield VerticalScroll(self.row)

    def seen(self) -> str:
        """The screen, but for the blank line and the one that says who spoke."""
        lines = [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]
        return "\n".join(lines[2:])


def said_by(seed: int) -> list[str]:
    return [text for text in texts(seed, COUNT) if text.strip()]


async def shows(text: str, app: OneRow, pilot: Pilot[None]) -> None:
    """Wait until the screen shows every character. On a busy machine, it is laid out only after `pause`."""
    for _ in range(50):
        await pilot.pause()
        lost = missing(text, app.seen())
        if lost is None:
            return
    pytest.fail(lost)


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_terminal_shows_every_character_that_an_agent_said(seed: int) -> None:
    row = make_widget(entry("first"))
    app = OneRow(row)
    async with app.run_test(size=WIDE) as pilot:
        for text in said_by(seed):
            row.data = entry(text)
            await row.draw()
            await shows(text, app, pilot)


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_terminal_shows_every_character_of_a_text_that_grows(seed: int) -> None:
    row = make_widget(entry("first"))
    app = OneRow(row)
    async with app.run_test(size=WIDE) as pilot:
        for text in said_by(seed)[:12]:
            row.data = entry("")
            await row.draw()
            for end in range(0, len(text) + CHUNK, CHUNK):
                row.data = entry(text[:end])
                await row.draw()
            await shows(text, app, pilot)


@pytest.mark.long
async def test_a_long_text_that_grows_is_divided_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown_parts, "MAX_PART_CHARS", 60)
    text = "\n\n".join(f"- one {n}\n\n  two {n}\n\n```\na {n}\n\nb\n```\n\nthree **{n}** of it" for n in range(12))
    row = make_widget(entry(""))
    app = OneRow(row)
    async with app.run_test(size=WIDE) as pilot:
        for end in (*range(0, len(text), CHUNK), len(text)):
            row.data = entry(text[:end])
            await row.draw()
        await shows(text, app, pilot)
        grown, parts = app.seen(), len(row.query(Markdown))
        assert 6 < parts < 40
        row.data = entry("")
        await row.draw()
        row.data = entry(text)
        await row.draw()
        await shows(text, app, pilot)
        assert app.seen() == grown
        monkeypatch.setattr(markdown_parts, "MAX_PART_CHARS", 10_000)
        row.data = entry("")
        await row.draw()
        row.data = entry(text)
        await row.draw()
        await shows(text, app, pilot)
        assert app.seen() == grown and len(row.query(Markdown)) == 1


@pytest.mark.parametrize("width", [24, 36, 80])
async def test_a_narrow_terminal_folds_tables_and_code_that_do_not_fit(width: int) -> None:
    cell, code = "Map<String,List<Integer>>AndMoreThanFitsInANarrowWindow", f"print('{'x' * 60}') # the end"
    row = make_widget(entry(f"| type |\n|---|\n| {cell} |\n\n```python\n{code}\n```\n"))
    app = OneRow(row)
    async with app.run_test(size=(width, 40)) as pilot:
        await row.draw()
        await pilot.pause()
        seen = "".join(each for each in app.seen() if not each.isspace() and each != "│")
        assert cell in seen
        assert "".join(code.split()) in seen


async def test_notices_files_and_own_tools_read_as_on_the_page() -> None:
    files = [{"id": "b1", "name": "a.pdf", "mime": "application/pdf", "size": 2048}, {"name": "b", "uri": "http://b/c"}]
    row = make_widget(entry("It was held: `semel outbox` lists it.\nA lone ` stays.", "notice", files=files))
    app = OneRow(row)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert app.seen().strip().split("\n") == [
            "It was held: semel outbox lists it.", "A lone ` stays.", "[file a.pdf, application/pdf, 2 KB]",
            "[file b, http://b/c]",
        ]  # fmt: skip
    asked = {"kind": "tool", "title": "mcp__semel__ask", "status": "done", "text": "answered"}
    assert rows.format_item_head(asked).plain == "● Asked you  1 line"
    assert rows.format_item_head({**asked, "title": "semel_send_file", "text": "refused: no file"}).plain == (
        "● Send a file  1 line"
    )
    for other in ({"title": "mcp__other__ask"}, {"tool_kind": "execute"}):
        named = {**asked, **other}
        assert rows.format_item_head(named).plain == f"● {named['title']}  1 line"


async def test_the_terminal_shows_what_people_and_semel_said_as_it_is() -> None:
    row = make_widget(entry("first", "user"))
    app = OneRow(row)
    async with app.run_test(size=WIDE) as pilot:
        for text in said_by(5):
            row.data = entry(text, "user")
            await row.draw()
            await pilot.pause()
            shown = [each.strip() for each in plain(text).split("\n") if each.strip()]
            assert [each.strip() for each in app.seen().split("\n") if each.strip()] == [
                each.expandtabs() for each in shown
            ]


def test_show_prints_every_character_on_a_terminal_and_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in said_by(6):
        printed = io.StringIO()
        monkeypatch.setattr(transcript, "stdout_console", lambda: Console(file=printed, width=10_000, highlight=False))  # noqa: B023
        transcript._print_entry(entry(text), None)
        assert missing_as_text(text, printed.getvalue()) is None
        assert "".join(text.split()) in "".join(format_entry(entry(text)).split())


def missing_as_text(text: str, shown: str) -> str | None:
    """Where nothing is formatting."""
    wanted, seen = plain(text).split(), shown.split()
    at = 0
    for word in wanted:
        if word not in seen[at:]:
            return word
        at = seen.index(word, at) + 1
    return None


def test_an_export_for_people_holds_every_character() -> None:
    from test_said_channels import read

    for text in said_by(8):
        record = {"line": "entry", "more": None, **entry(text)}
        page = HtmlDocument().page([record]).decode()
        shown, addresses = read(page.partition("</header>")[2])
        assert missing(text, shown, addresses) is None, missing(text, shown, addresses)
        document = MarkdownDocument().page([record]).decode().partition("\n\n")[2]
        lost = missing(text, document.replace("\\<", "<"), [])
        assert lost is None, lost
