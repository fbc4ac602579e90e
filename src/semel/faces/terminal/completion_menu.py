"""The menu above the prompt that completes the word at its cursor."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from semel.faces.terminal.completion import Candidate, Completion, format_candidate

MAX_USAGE_CELLS = 40


class CompletionMenu(OptionList, can_focus=False):
    """Lists candidates while the prompt keeps the focus and gives the keys (prompt.py)."""

    def __init__(self) -> None:
        super().__init__(id="completion", markup=False)
        self.completion: Completion | None = None
        self._closed_word: str | None = None  # the word for which the person closed the menu

    def on_mount(self) -> None:
        self.display = False

    @property
    def is_open(self) -> bool:
        return self.completion is not None

    @property
    def choice(self) -> Candidate | None:
        """The marked candidate; None if the menu is closed."""
        if self.completion is None or self.highlighted is None:
            return None
        return self.completion.candidates[self.highlighted]

    def show(self, completion: Completion | None) -> None:
        """Show a completion, or close the menu. A word for which the person closed it stays closed."""
        if completion is not None and completion.word == self._closed_word:
            completion = None
        elif completion is not None:
            self._closed_word = None
        if completion == self.completion:
            return
        self.completion = completion
        self.display = completion is not None
        if completion is not None:
            listed = [format_candidate(one) for one in completion.candidates]
            cells = min(max(cell_len(usage) for usage, _ in listed), MAX_USAGE_CELLS)
            self.set_options([Option(_format_line(*each, cells)) for each in listed])
            self.highlighted = 0

    def close(self) -> None:
        """Close the menu until another word is at the cursor."""
        self._closed_word = self.completion.word if self.completion else None
        self.show(None)

    def move(self, step: int) -> None:
        (self.action_cursor_down if step > 0 else self.action_cursor_up)()


def _format_line(usage: str, meaning: str, cells: int) -> Text:
    line = Text(usage, no_wrap=True, overflow="ellipsis")
    line.pad_right(max(cells - cell_len(usage), 0))
    return line.append(f"  {meaning}", "dim")
