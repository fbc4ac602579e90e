"""The panel for a permission request or a question.

The panel ignores keys until the person focuses it (Tab or a click): text typed while a request appears must never
become an answer to it (Law 8: an update never moves the reader's input). If a person sends the key of an option from
the prompt, it is held back once, and they are told to press Tab first.
"""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from semel.faces.terminal.diffs import format_diffs
from semel.faces.terminal.rows import MARGIN_CELLS, OPEN_KEY, estimate_lines
from semel.law.permission_questions import arrange_input, cut_input, name_option
from semel.text.json_types import Json
from semel.text.visible import visible

MAX_DIFF_LINES = 200  # of a change that is to be allowed; the row of its tool call has all of them
MIN_ASKED_LINES = 4  # of what is asked, on a screen that has no room for more
MAX_OPTION_LINES = 9  # as in chat.tcss
FRAME_CELLS = 4  # of a line of the panel: its border and its padding
OPTION_KEYS = "abcdefghi"
"""Keys that choose an option while the panel has the focus. Numbers belong to `/approve N` (Law 13)."""


def format_input(input: Any) -> str:
    """Format the input of a tool call for a person: the command alone, or one line per field."""
    if not isinstance(input, dict):
        return cut_input(str(arrange_input(input) or ""))
    if list(input) == ["command"]:
        return cut_input(str(arrange_input(input["command"])))
    return cut_input("\n".join(f"{key}: {value}" for key, value in arrange_input(input).items()))


def _name_keys(options: int) -> str:
    """Return the keys that choose one of so many options, such as "a or b" or "a to c"."""
    keys = OPTION_KEYS[:options]
    if len(keys) < 2:
        return keys
    return f"{keys[0]} {'or' if len(keys) == 2 else 'to'} {keys[-1]}"


class Question(Vertical):
    """Shows the oldest open question, and posts `Answered` with the chosen option."""

    class Answered(Message):
        def __init__(self, item: int, option: str | None):
            super().__init__()
            self.item = item
            self.option = option

    def __init__(self) -> None:
        super().__init__(id="question")
        self.item: Json | None = None
        self._more_questions = 0  # open ones after this
        self._hint = ""
        self._explained_item: int | None = None  # the last question whose key was held back

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="asked-area", can_focus=False):
            yield Static(id="asked")
        yield OptionList(id="options", markup=False)
        yield Static(id="hint")

    def on_mount(self) -> None:
        self.display = False

    def show(self, open_questions: list[Json]) -> None:
        """Show the oldest open question. If it is shown already, the panel keeps its highlight."""
        item = open_questions[0] if open_questions else None
        if (item and item["id"]) == (self.item and self.item["id"]):
            return
        self.item = item
        had_focus = self.has_focus_within
        self.display = item is not None
        if item is not None:
            self._fill(item, len(open_questions) - 1)
        if had_focus:
            self._focus_prompt()  # the next question is not answered by the same key press

    def on_resize(self) -> None:
        if self.item is not None:
            self._draw_asked(self.item)
            self._limit_asked_height()

    def turn_page(self, direction: int) -> bool:
        """Scroll what is asked one page up (-1) or down (1). Returns False if the panel has not the focus, or if there
        is nothing to scroll.
        """
        area = self.query_one("#asked-area", VerticalScroll)
        if not self.has_focus_within or not area.max_scroll_y:
            return False
        (area.scroll_page_up if direction < 0 else area.scroll_page_down)(animate=False)
        return True

    def focus_options(self) -> None:
        """Give the focus to the options at once: `Widget.focus` would give it behind a key that has come already."""
        self.screen.set_focus(self.query_one(OptionList))

    def _focus_prompt(self) -> None:
        """Give the focus back to the prompt of the same session at once: no later key press may meet the panel."""
        if self.parent is not None:
            self.screen.set_focus(self.parent.query_one("#prompt", Widget))

    def _fill(self, item: Json, more_questions: int) -> None:
        self._more_questions = more_questions
        self._draw_asked(item)
        options = self.query_one(OptionList)
        options.clear_options()
        names = [
            f"{OPTION_KEYS[n : n + 1]:1}  {visible(name_option(one))}" for n, one in enumerate(item.get("options", []))
        ]
        options.add_options([Option(name) for name in names])
        options.highlighted = None
        self._draw_hint()
        self.query_one("#asked-area", VerticalScroll).scroll_home(animate=False)

    def _draw_asked(self, item: Json) -> None:
        question = str(item.get("title") or item["text"].split("\n1. ")[0])  # its options stand below
        text = Content.assemble(("The agent asks: ", "bold $text-warning"), visible(question))
        detail = visible(format_input(item.get("input")))
        if detail and detail != question:
            text += Content.styled("\n" + detail, "dim")
        if diffs := item.get("diffs"):
            width, is_ansi = self.app.size.width - MARGIN_CELLS, self.app.native_ansi_color
            changes = format_diffs(diffs, MAX_DIFF_LINES, width, OPEN_KEY, is_ansi=is_ansi)
            text += Content("\n") + changes
        if self._more_questions:
            text += Content.styled(f"\n({self._more_questions} more after this one)", "dim")
        self.query_one("#asked", Static).update(text)

    def _limit_asked_height(self) -> None:
        """Let what is asked take half of the screen, less the options and the hint below it."""
        width, height = self.app.size
        names = [str(option.prompt) for option in self.query_one(OptionList).options]
        below = min(sum(estimate_lines(name, width - FRAME_CELLS) for name in names), MAX_OPTION_LINES)
        below += estimate_lines(self._hint, width - FRAME_CELLS)
        area = self.query_one("#asked-area", VerticalScroll)
        area.styles.max_height = max(height // 2 - below - 2, MIN_ASKED_LINES)

    def _draw_hint(self) -> None:
        """Show the keys that work now: the panel's own, or those that lead to it. What is asked gets the rest."""
        keys = _name_keys(len(self._options))
        if not keys:
            is_permission = self.item is not None and self.item["kind"] == "permission"
            hint = "To answer, type /approve or /deny" if is_permission else "To answer, write a message"
        elif self.has_focus_within:
            hint = f"{keys} answers · Enter answers with the marked one · Esc goes back"
        else:
            hint = f"To answer, press Tab, then {keys}"
        self._hint = hint
        self.query_one("#hint", Static).update(hint)
        self._limit_asked_height()

    def on_descendant_focus(self) -> None:
        self._draw_hint()

    def on_descendant_blur(self) -> None:
        self.call_after_refresh(self._draw_hint)

    def holds_back(self, text: str) -> bool:
        """Whether the message `text` is the key of an option, and the first such message during this question."""
        key = text.strip()
        if self.item is None or key not in OPTION_KEYS[: len(self._options)] or len(key) != 1:
            return False
        before, self._explained_item = self._explained_item, int(self.item["id"])
        return before != self._explained_item

    @property
    def _options(self) -> list[Json]:
        return list(self.item.get("options", [])) if self.item else []

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option_index)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            self._focus_prompt()
        elif event.character and event.character in OPTION_KEYS:
            event.stop()
            self._choose(OPTION_KEYS.index(event.character))

    def _choose(self, index: int) -> None:
        if self.item is not None and 0 <= index < len(self._options):
            self.post_message(self.Answered(self.item["id"], self._options[index]["optionId"]))
