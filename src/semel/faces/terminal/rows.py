"""Widgets for the rows of the view: transcript entries, and items such as tool calls."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from rich.text import Text
from textual import events
from textual.app import ComposeResult, RenderResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownBlock

from semel.acp_stream.display import render_coloured
from semel.faces.terminal.ansi_text import style_output
from semel.faces.terminal.diffs import list_changes
from semel.faces.terminal.line_text import LineText, list_lines
from semel.faces.terminal.markdown_parts import (
    MARK_SCHEME,
    NOTE_SCHEME,
    Part,
    find_next_part,
    holds_target,
    make_terminal_parser,
    split_parts,
)
from semel.faces.terminal.wording import STOPPED_BY_OWNER, STOPPED_HERE, describe_own_tool, format_code, name_person
from semel.faces.transcript import format_body, format_file, is_summary, list_remarks, speaker
from semel.law.permission_questions import name_option
from semel.text.json_types import Json
from semel.text.visible import visible

MAX_COLLAPSED_LINES = 6  # lines shown of a tool's output or a thought until it is opened
MAX_COLLAPSED_DIFF_LINES = 20  # lines shown of a change of files, likewise
MIN_SCREENS_DRAWN = 2  # of the end of a long message, when it comes into sight
MAX_WHOLE_CHARS = 200_000  # of an output that is loaded whole when its row is opened
OPEN_KEY = "ctrl+o"
MARGIN_CELLS = 6  # of a line of the screen, beside the text of a row
STATUS_SIGNS = {
    "pending": ("○", "dim"), "running": ("◐", "cyan"), "done": ("●", "green"),
    "failed": ("✗", "red"), "cancelled": ("⊘", "yellow"), "no result": ("○", "yellow"),
}  # fmt: skip
STEP_SIGNS = {"completed": "☑", "in_progress": "◐", "pending": "☐"}


DRAW_FAILED = "(this could not be drawn)"
MAX_TIMELESS_CELLS = 60  # width of a screen on which the times of messages are left out


@dataclass
class Names:
    """What the speakers of a conversation are called, as on the page. `me`: the sender that was named here."""

    agent: str = ""
    me: str | None = None

    def name_speaker(self, entry: Json) -> str:
        role, sender = entry["role"], entry.get("sender")
        if role == "user" and sender in (None, "", self.me):
            return "You"
        if role == "agent" and self.agent:
            return self.agent + (f" from {entry['from']}" if entry.get("from") else "")
        if role == "notice" and entry.get("kind") == "command":
            return "Semel"
        name = speaker(entry)
        return name if role == "user" or role == "event" else name[:1].upper() + name[1:]


class HeadLine(Static):
    """The head line of a message. `at`: when the message came, in ms since 1970; it stands at the right end."""

    def __init__(self) -> None:
        super().__init__(classes="head")
        self.at: int | None = None

    def render(self) -> RenderResult:
        """Return the content with the time, if there is room for both."""
        content = self.content
        if self.at is None or not isinstance(content, Text) or self.app.size.width <= MAX_TIMELESS_CELLS:
            return super().render()
        time_text = format_time(self.at, datetime.now(UTC).astimezone())
        gap = self.size.width - content.cell_len - len(time_text)
        if gap < 2:
            return super().render()
        line = content.copy()
        line.pad_right(gap)
        return line.append(time_text, "not bold dim")


def format_time(at_ms: int, now: datetime) -> str:
    """Format when a message came, in local time: "14:05", with the day if it was on another one than `now`.

    "" for a time that no calendar has: an imported entry may say anything.
    """
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return ""
    if at.date() == now.date():
        return f"{at:%H:%M}"
    return f"{at:%d %b %H:%M}" if at.year == now.year else f"{at:%d %b %Y %H:%M}"


def estimate_lines(text: str, width: int) -> int:
    """Return about how many lines a text takes on a screen that is so many cells wide."""
    return text.count("\n") + len(text) // max(width, 1) + 1


def row_key(row: Json) -> str:
    return f"entry-{row['seq']}" if "seq" in row else f"item-{row['id']}"


def make_widget(row: Json, names: Names | None = None) -> RowWidget:
    """Make the widget of a row. `names`: those of the conversation, which may change later."""
    if "seq" not in row:
        return ItemWidget(row, f"kind-{row['kind']}")
    if row["role"] == "agent" and not row.get("emoji"):
        return AgentWidget(row, "role-agent", names)
    return EntryWidget(row, "summary" if is_summary(row) else f"role-{row['role']}", names)


def is_shown(row: Json) -> bool:
    """Whether a row is drawn in the conversation. An `ask` item is not: the question is also an entry, which is drawn,
    and the question panel shows its options.
    """
    return "seq" in row or row.get("kind") in ("tool", "thought", "plan", "permission", "notice")


class RowWidget(Vertical):
    """Base of the row widgets: a head line and a body. `data` is the row of the view to show; `draw` shows it."""

    def __init__(self, row: Json, style: str, names: Names | None = None):
        super().__init__(id=row_key(row), classes=f"row {style}")
        self.names = names or Names()
        self.data = row
        self.born = int(row["born"])
        self.opened = False
        self.queue_place: int | None = None  # place in the session's queue, if the entry waits

    def compose(self) -> ComposeResult:
        yield HeadLine()
        yield LineText(classes="body")

    async def on_mount(self) -> None:
        await self.draw()

    async def draw(self) -> None:
        """Show `data`. If that fails, the row says so, and the other rows are not affected."""
        try:
            await self._draw()
        except Exception as error:
            self.log.error(f"row {self.id} cannot be drawn: {error!r}")
            self.query_one(".head", Static).update(DRAW_FAILED)

    async def _draw(self) -> None:
        raise NotImplementedError

    def _draw_head(self) -> None:
        """Show who an entry is from, what is to be known of it, and when it came."""
        head = self.query_one(HeadLine)
        head.at = self.data.get("at")
        head.update(format_entry_head(self.data, self.names, self.queue_place))


class EntryWidget(RowWidget):
    """A person's message, an event or a notice, as plain text."""

    async def _draw(self) -> None:
        self._draw_head()
        text = visible(format_body(self.data, has_paths=False))
        is_semels = self.data["role"] == "notice"
        text = STOPPED_BY_OWNER if text in STOPPED_HERE and is_semels else text
        self.query_one(LineText).show(list_lines(format_code(text) if is_semels else Content(text)))


class AgentWidget(RowWidget):
    """An agent's message as Markdown; while it streams, new text is appended.

    A long message is divided into several Markdown widgets, between blocks or in a long code block, and only the last
    one changes: what a new line costs does not grow with the message (Law 11). Of a long message that is there already,
    the end is drawn; the conversation has the parts above it drawn as its reader comes near to them.
    """

    def __init__(self, row: Json, style: str, names: Names | None = None):
        super().__init__(row, style, names)
        self._parts = [_make_markdown()]
        self._shown_text = ""
        self._first, self._last = Part(0), Part(0)  # of the drawn parts
        self._undrawn: list[tuple[Part, str]] = []  # the parts above them, and their texts
        self._changing_parts = asyncio.Lock()
        self._clicked_marks: dict[str, MarkdownBlock] = {}  # the block of the mark last clicked, by the link back to it

    def compose(self) -> ComposeResult:
        yield HeadLine()
        yield Static(classes="undrawn")
        yield self._parts[0]

    @property
    def is_whole(self) -> bool:
        """Whether all of the text is drawn."""
        return not self._undrawn

    @property
    def is_divided(self) -> bool:
        """Whether the text is so long that the next terminal may draw only its end at first."""
        return len(self._parts) + len(self._undrawn) > 1

    @property
    def first_part(self) -> Markdown:
        """The part with which the drawn text begins."""
        return self._parts[0]

    @property
    def drawn_y(self) -> int:
        """The line of the conversation at which the drawn text begins."""
        return self.virtual_region.y + self.first_part.virtual_region.y

    async def draw_part_above(self) -> None:
        """Draw the part above the first drawn one, if there is one still."""
        async with self._changing_parts:
            if self.is_whole or not self.is_attached:
                return
            self._parts[0].set_class(not self._first.continues, "later-part")
            self._first, text = self._undrawn.pop()
            self._parts.insert(0, _make_markdown())
            await self.mount(self._parts[0], before=self._parts[1])
            await self._parts[0].append(self._first.opening + text)
            self._show_undrawn()

    @property
    def source(self) -> str:
        """The text that is shown."""
        return self._shown_text

    async def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        """Show a mark's footnote, or the mark that led to this footnote; open any other link in the browser."""
        event.stop()
        if not event.href.startswith((NOTE_SCHEME, MARK_SCHEME)):
            self.app.open_url(event.href)
            return
        clicked = [block for block in self._list_blocks() if block.region.contains_point(self.app.mouse_position)]
        mark = self._clicked_marks.get(event.href)
        target = mark if mark and mark.is_attached else self._find_block(event.href)
        while target is None and not self.is_whole:
            await self.draw_part_above()
            target = self._find_block(event.href)
        if target is None:
            return
        if clicked and event.href.startswith(NOTE_SCHEME):
            self._clicked_marks[MARK_SCHEME + event.href.removeprefix(NOTE_SCHEME)] = clicked[-1]
        target.scroll_visible(animate=False)

    def _list_blocks(self) -> list[MarkdownBlock]:
        return [block for part in self._parts for block in part.query(MarkdownBlock)]

    def _find_block(self, address: str) -> MarkdownBlock | None:
        """Find the first drawn block with what a link in this text leads to; None if there is none."""
        return next((block for block in self._list_blocks() if holds_target(block.source or "", address)), None)

    async def _draw(self) -> None:
        self._draw_head()
        text = visible(format_body(self.data, has_paths=False))
        async with self._changing_parts:
            if not text.startswith(self._shown_text):
                await self._clear()
            if not self._shown_text:
                self._begin_near_end(text)
            while len(text) > len(self._shown_text):
                await self._append(text)

    def _begin_near_end(self, text: str) -> None:
        """Leave the parts undrawn that are more than some screens above the end."""
        parts = split_parts(text)
        first, (width, height) = len(parts) - 1, self.app.size
        while first > 0 and estimate_lines(text[parts[first].start :], width) < MIN_SCREENS_DRAWN * height:
            first -= 1
        self._first = self._last = parts[first]
        self._shown_text = text[: self._last.start]
        self._undrawn = [(part, text[part.start : end.start]) for part, end in pairwise(parts[: first + 1])]
        self._show_undrawn()

    def _show_undrawn(self) -> None:
        """Say that the text does not begin with the first drawn part."""
        note = self.query_one(".undrawn", Static)
        note.display = not self.is_whole
        note.update("" if self.is_whole else "…")

    async def _append(self, text: str) -> None:
        """Show more of the text: all of it, or as much as the last part may have, and begin another part."""
        part = find_next_part(text, self._last, len(self._shown_text))
        opening = self._last.opening if len(self._shown_text) == self._last.start else ""
        # Not `update(text)`: a later `append` would continue from its last line and lose earlier lines of that block.
        await self._parts[-1].append(opening + text[len(self._shown_text) : part.start])
        self._shown_text = text[: part.start]
        if part.start < len(text):
            self._last = part
            self._parts.append(_make_markdown("body" if part.continues else "body later-part"))
            await self.mount(self._parts[-1])

    async def _clear(self) -> None:
        await self.remove_children(self._parts[1:])
        del self._parts[1:]
        await self._parts[0].update("")
        self._shown_text, self._undrawn = "", []
        self._first = self._last = Part(0)


def _make_markdown(classes: str = "body") -> Markdown:
    return Markdown(parser_factory=make_terminal_parser, classes=classes, open_links=False)


class ItemWidget(RowWidget):
    """A tool call, thought, plan or permission request: a head line and its text, shortened until it is opened."""

    class OutputNeeded(Message):
        """The row shows output whose whole text and colours are not loaded yet."""

        def __init__(self, row: ItemWidget):
            super().__init__()
            self.row = row

    _drawn_width = 0  # of the screen, when the row was drawn
    _whole_output: tuple[int, str] | None = None  # the rev of the row when it was loaded, and the output
    _requested_rev: int | None = None  # of the row, when its output was last asked for

    async def open(self, opened: bool) -> None:
        """Open the row, or shorten it again."""
        self.opened = opened
        if opened:
            self._requested_rev = None  # an output that could not be loaded before is asked for once more
        await self.draw()

    @property
    def can_load_output(self) -> bool:
        """Whether the row is a tool call that is over, with an output that is not too long and not all in the view."""
        item = self.data
        is_over = item["kind"] == "tool" and item.get("status") not in ("pending", "running")
        count = len(str(item.get("text", ""))) + int(item.get("gap") or 0) + len(str(item.get("tail", "")))
        is_whole = self._has_whole_output or not (item.get("gap") or item.get("coloured"))
        return is_over and 0 < count <= MAX_WHOLE_CHARS and not is_whole

    @property
    def _has_whole_output(self) -> bool:
        return self._whole_output is not None and self._whole_output[0] == self.data["rev"]

    async def set_output(self, raw: str) -> None:
        """Show the whole output, with its colours. It holds until the row changes."""
        self._whole_output = (self.data["rev"], render_coloured(raw))
        await self.draw()

    async def on_resize(self) -> None:
        if self.data.get("diffs") and self._drawn_width != self.app.size.width:
            await self.draw()

    async def on_click(self, event: events.Click) -> None:
        event.stop()
        await self.open(not self.opened)

    async def _draw(self) -> None:
        self._drawn_width = self.app.size.width
        self.query_one(".head", Static).update(format_item_head(self.data))
        item = self.data
        if self._whole_output is not None and self._has_whole_output:
            item = {**item, "text": self._whole_output[1], "gap": "", "tail": ""}
        lines = list_lines(format_item(item, self.opened))
        is_answered = item["kind"] == "permission" and item.get("state") != "open"
        if (diffs := self.data.get("diffs")) and (self.opened or not is_answered):  # its tool call's row has them, too
            max_lines = None if self.opened else MAX_COLLAPSED_DIFF_LINES
            width, is_ansi = self.app.size.width - MARGIN_CELLS, self.app.native_ansi_color
            lines += list_changes(diffs, max_lines, width, OPEN_KEY, is_ansi=is_ansi)
        body = self.query_one(LineText)
        body.show(lines)
        body.display = bool(lines)
        self.set_class(not lines, "-one-line")
        has_coloured_excerpt = bool(item.get("coloured")) and not _went_well(item)
        if (self.opened or has_coloured_excerpt) and self.can_load_output and self._requested_rev != self.data["rev"]:
            self._requested_rev = self.data["rev"]
            self.post_message(self.OutputNeeded(self))


def format_entry_head(entry: Json, names: Names, place: int | None = None) -> Text:
    line = Text(visible(names.name_speaker(entry)))
    shown_marks = [mark for mark in list_remarks(entry, place) if mark != "live"]
    if shown_marks:
        line.append("  " + visible(" · ".join(shown_marks)), "dim")
    return line


def format_item_head(item: Json) -> Text:
    kind, title = item["kind"], visible(" ".join(str(item.get("title") or "").split()))
    if kind == "tool":
        sign, style = STATUS_SIGNS.get(item.get("status", ""), ("○", "dim"))
        line = Text(f"{sign} ", style).append(describe_own_tool(item) or title or "a tool", "bold")
        if item.get("exit") not in (None, 0):
            line.append(f"  exit {item['exit']}", "red")
        if _went_well(item) and (count := _count_output(item)):
            line.append(f"  {count}", "dim")
        return line
    if kind == "permission":
        return Text("? ", "yellow").append(title, "bold").append(f"  {_describe_answer(item)}", "dim")
    return Text({"thought": "thought", "plan": "plan"}.get(kind, ""), "dim italic")


def _went_well(item: Json) -> bool:
    return item.get("status") == "done" and item.get("exit") in (None, 0)


def _count_output(item: Json) -> str:
    """Say how much a tool call has printed: "12 lines", or "437,788 characters" if not all of it is here."""
    text, gap = str(item.get("text") or "") + str(item.get("tail") or ""), item.get("gap")
    if gap:
        return f"{len(text) + gap:,} characters"
    count = len(text.rstrip("\n").split("\n")) if text.strip("\n") else 0
    return f"{count:,} lines" if count > 1 else "1 line" if count else ""


def _describe_answer(item: Json) -> str:
    state = str(item.get("state", "open"))
    if state != "answered":
        return state
    names = {option.get("optionId"): name_option(option) for option in item.get("options", [])}
    by = f" by {name_person(item['by'])}" if item.get("by") else ""
    return visible(f"{names.get(item.get('answer', ''), item.get('answer', ''))}{by}")


def format_item(item: Json, opened: bool = True) -> Text:
    """Format the text of an item: tool output as head, stated gap and tail (Law 8), a plan as a list.

    `opened`: all lines. Else a tool call that went well shows none, one that runs or failed its last lines, and other
    items their first ones; the lines left out are counted.
    """
    if item["kind"] == "plan":
        steps = item.get("entries", [])
        lines = [f"{STEP_SIGNS.get(step.get('status'), '☐')} {step.get('content', '')}" for step in steps]
        return _shorten("\n".join(lines), opened)
    if item["kind"] == "notice":
        return format_code(visible(str(item.get("text") or item.get("title") or "")))
    files = [format_file(file, has_path=False) for file in item.get("files", [])]
    if item["kind"] == "tool" and _went_well(item) and not opened:
        return style_output("\n".join(files))
    text, tail, gap = str(item.get("text") or ""), str(item.get("tail") or ""), item.get("gap")
    if gap:
        text += f"\n… {gap:,} characters are not shown here …\n"
    elif item.get("truncated") and not tail:
        text += "\n… cut off by the agent …"
    whole = "\n".join(part for part in ((text + tail).rstrip("\n"), *files) if part)
    return _show_end(whole, opened) if item["kind"] == "tool" else _shorten(whole, opened)


def _shorten(text: str, opened: bool) -> Text:
    lines = text.split("\n")
    if opened or len(lines) <= MAX_COLLAPSED_LINES + 1:
        return style_output(text)
    rest = Text(f"\n… {len(lines) - MAX_COLLAPSED_LINES} more lines ({OPEN_KEY})", "dim")
    return style_output("\n".join(lines[:MAX_COLLAPSED_LINES])).append_text(rest)


def _show_end(text: str, opened: bool) -> Text:
    lines = text.split("\n")
    if opened or len(lines) <= MAX_COLLAPSED_LINES + 1:
        return style_output(text)
    rest = Text().append(f"… {len(lines) - MAX_COLLAPSED_LINES} lines above ({OPEN_KEY})\n", "dim")
    return rest.append_text(style_output("\n".join(lines[-MAX_COLLAPSED_LINES:])))
