"""Widgets for the rows of the view: transcript entries, and items such as tool calls."""

from __future__ import annotations

from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Markdown, Static

from semel.channels.markdown import follows_no_links, language_of, reader, spell_links
from semel.faces.transcript import body, file_line, is_summary, marks, speaker
from semel.law.permission_questions import called
from semel.text.visible import visible

Json = dict[str, Any]

MAX_COLLAPSED_LINES = 6  # lines shown of a tool's output or a thought until it is opened
STATUS = {
    "pending": ("○", "dim"), "running": ("◐", "cyan"), "done": ("●", "green"),
    "failed": ("✗", "red"), "cancelled": ("⊘", "yellow"), "no result": ("○", "yellow"),
}  # fmt: skip
STEP = {"completed": "☑", "in_progress": "◐", "pending": "☐"}


BROKEN = "(this could not be drawn)"


def key(row: Json) -> str:
    return f"entry-{row['seq']}" if "seq" in row else f"item-{row['id']}"


def make(row: Json) -> Row:
    if "seq" in row:
        return AgentRow(row) if row["role"] == "agent" and not row.get("emoji") else EntryRow(row)
    return ItemRow(row)


def shown(row: Json) -> bool:
    """Whether a row is drawn in the conversation. A question (`ask`) is not: its entry and the panel show it."""
    return "seq" in row or row.get("kind") in ("tool", "thought", "plan", "permission", "notice")


class Row(Vertical):
    """Base of the row widgets. `want` is the row of the view to show; `draw` shows it."""

    def __init__(self, row: Json):
        super().__init__(id=key(row), classes="row")
        self.want = row
        self.born = int(row["born"])
        self.opened = False
        self.place: int | None = None  # place in the session's queue, if the entry waits

    async def draw(self) -> None:
        """Show `want`. If that fails, the row says so, and the other rows are not affected."""
        try:
            await self._draw()
        except Exception as error:
            self.log.error(f"row {self.id} cannot be drawn: {error!r}")
            self.query_one(".head", Static).update(BROKEN)

    async def _draw(self) -> None:
        raise NotImplementedError


class EntryRow(Row):
    """A person's message, an event or a notice, as plain text."""

    def compose(self) -> ComposeResult:
        yield Static(classes="head")
        yield Static(classes="body", markup=False)

    async def on_mount(self) -> None:
        self.set_class(True, "summary" if is_summary(self.want) else f"role-{self.want['role']}")
        await self.draw()

    async def _draw(self) -> None:
        self.query_one(".head", Static).update(head(self.want, self.place))
        self.query_one(".body", Static).update(visible(body(self.want)))


class AgentRow(Row):
    """An agent's message as Markdown; while it streams, new text is appended."""

    def compose(self) -> ComposeResult:
        yield Static(classes="head")
        yield Markdown(parser_factory=_parser, classes="body")

    async def on_mount(self) -> None:
        self.set_class(True, "role-agent")
        await self.draw()

    async def _draw(self) -> None:
        self.query_one(".head", Static).update(head(self.want))
        markdown = self.query_one(Markdown)
        text = visible(body(self.want))
        if text == markdown.source:
            return
        if not text.startswith(markdown.source):
            await markdown.update("")
        # Not `update(text)`: a later `append` would continue from its last line and lose earlier lines of that block.
        await markdown.append(text[len(markdown.source) :])


class ItemRow(Row):
    """A tool call, thought, plan or permission request: a head line and an excerpt of its text, whole once opened."""

    def compose(self) -> ComposeResult:
        yield Static(classes="head")
        yield Static(classes="body", markup=False)

    async def on_mount(self) -> None:
        self.set_class(True, f"kind-{self.want['kind']}")
        await self.draw()

    async def on_click(self, event: events.Click) -> None:
        event.stop()
        self.opened = not self.opened
        await self.draw()

    async def _draw(self) -> None:
        self.query_one(".head", Static).update(item_head(self.want))
        text = _excerpt(item_text(self.want), self.opened)
        inside = self.query_one(".body", Static)
        inside.update(text)
        inside.display = bool(text)


def head(entry: Json, place: int | None = None) -> Text:
    line = Text(visible(speaker(entry)))
    noted = [mark for mark in marks(entry, place) if mark != "live"]
    if noted:
        line.append("  " + visible(" · ".join(noted)), "dim")
    return line


def item_head(item: Json) -> Text:
    kind, title = item["kind"], visible(" ".join(str(item.get("title") or "").split()))
    if kind == "tool":
        sign, style = STATUS.get(item.get("status", ""), ("○", "dim"))
        line = Text(f"{sign} ", style).append(title or "a tool", "bold")
        if item.get("exit") not in (None, 0):
            line.append(f"  exit {item['exit']}", "red")
        return line
    if kind == "permission":
        return Text("? ", "yellow").append(title, "bold").append(f"  {_fate(item)}", "dim")
    return Text({"thought": "thought", "plan": "plan"}.get(kind, ""), "dim italic")


def _fate(item: Json) -> str:
    state = str(item.get("state", "open"))
    if state != "answered":
        return state
    names = {option.get("optionId"): called(option) for option in item.get("options", [])}
    by = f" by {item['by']}" if item.get("by") else ""
    return visible(f"{names.get(item.get('answer', ''), item.get('answer', ''))}{by}")


def item_text(item: Json) -> str:
    """The text of an item: tool output as head, stated gap and tail (Law 8), a plan as a list."""
    if item["kind"] == "plan":
        steps = item.get("entries", [])
        return "\n".join(visible(f"{STEP.get(s.get('status'), '☐')} {s.get('content', '')}") for s in steps)
    text = str(item.get("text", ""))
    if item.get("truncated") or item.get("tail"):
        text += f"\n… {item.get('gap', '')} left out …\n{item.get('tail', '')}"
    files = [visible(file_line(file)) for file in item.get("files", [])]
    return "\n".join(part for part in (visible(text).rstrip("\n"), *files) if part)


def _excerpt(text: str, opened: bool) -> str:
    lines = text.split("\n")
    if opened or len(lines) <= MAX_COLLAPSED_LINES + 1:
        return text
    return "\n".join([*lines[:MAX_COLLAPSED_LINES], f"… {len(lines) - MAX_COLLAPSED_LINES} more lines (ctrl+o)"])


def _parser() -> MarkdownIt:
    """A Markdown parser with the rules of chats: line breaks are kept, and links show their address."""
    parser = reader()
    parser.core.ruler.disable("whole_fences")  # streamed text needs one widget per block
    parser.core.ruler.push("for_the_terminal", _for_the_terminal)
    return parser


def _for_the_terminal(state: StateCore) -> None:
    spell_links(state.tokens, follows_no_links, keep=True)
    for token in state.tokens:
        if token.type == "fence":
            token.info, told = language_of(token.info)
            token.content = f"{told}\n{token.content}" if told else token.content
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
