"""The input field: several lines, a history, and Enter to send."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from semel.faces.terminal.completion import Candidate, Completion
from semel.faces.terminal.completion_menu import CompletionMenu

HINTS = (
    "Say something. / for commands, @ for files, ctrl+j for a new line.",
    "Say something. / for commands, @ for files",
    "Say something.",
)
"""What an empty prompt says: the first one that fits."""


class Prompt(TextArea):
    """Enter sends; ctrl+j, alt+enter or shift+enter starts a new line; up and down walk the history.

    While the menu is open, Tab and Enter complete, up and down choose, and Esc closes it.
    """

    class Sent(Message):
        def __init__(self, text: str):
            super().__init__()
            self.text = text

    class ErasedBefore(Message):
        """Backspace was pressed in the empty prompt."""

    def __init__(self) -> None:
        super().__init__(
            id="prompt", show_line_numbers=False, compact=True, highlight_cursor_line=False,
            placeholder=HINTS[0], tab_behavior="focus",
        )  # fmt: skip
        self.menu: CompletionMenu | None = None
        self.has_files = False  # whether files go with the message: then it may be empty
        self.sent_texts: list[str] = []
        self._history_index: int | None = None  # index in `sent_texts`; None while the draft is shown
        self._draft = ""

    def on_resize(self) -> None:
        room = self.content_size.width - 1  # behind the cursor
        self.placeholder = next((hint for hint in HINTS if len(hint) <= room), HINTS[-1])

    def remember(self, text: str) -> None:
        """Add a sent text to the history, as the newest one."""
        if text in self.sent_texts:
            self.sent_texts.remove(text)
        if text:
            self.sent_texts.append(text)

    def take_text(self) -> str:
        """Return the text and empty the prompt."""
        text = self.text
        self.text = ""
        self._history_index = None
        return text

    def restore(self, text: str) -> bool:
        """Restore a message that could not be sent. Returns False if the person has begun another one."""
        if self.text:
            return False
        self.text = text
        self.move_cursor(self.document.end)
        return True

    async def _on_key(self, event: events.Key) -> None:
        if self.menu is not None and self.menu.is_open and self._press_in_menu(self.menu, event.key):
            event.stop()
            event.prevent_default()
        elif event.key == "enter":
            event.stop()
            event.prevent_default()
            self.send()
        elif event.key == "backspace" and not self.text and self.has_files:
            event.stop()
            event.prevent_default()
            self.post_message(self.ErasedBefore())
        elif event.key in ("ctrl+j", "alt+enter", "shift+enter"):
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif (event.key == "up" and self.cursor_location[0] == 0 and self._walk_history(-1)) or (
            event.key == "down" and self.cursor_location[0] == self.document.line_count - 1 and self._walk_history(1)
        ):
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    def _press_in_menu(self, menu: CompletionMenu, key: str) -> bool:
        """Handle a key of the open menu. Returns False if the key has no meaning there."""
        completion, choice = menu.completion, menu.choice
        if key in ("up", "down"):
            menu.move(1 if key == "down" else -1)
        elif key == "escape":
            menu.close()
        elif completion is None or choice is None or key not in ("tab", "enter"):
            return False
        elif key == "enter" and choice.text == completion.word:
            return False  # it is complete, and is sent
        else:
            self.complete(completion, choice)
        return True

    def complete(self, completion: Completion, choice: Candidate) -> None:
        """Replace the word at the cursor, and put a blank behind it, unless it is a folder, whose files may follow."""
        row, column = self.cursor_location
        self.replace(choice.text + ("" if choice.text.endswith("/") else " "), (row, completion.start), (row, column))

    def send(self) -> None:
        """Post the text as `Sent`, if there is any or files go with it, and empty the prompt: what is typed next is
        another message.
        """
        if self.text.strip() or self.has_files:
            self.post_message(self.Sent(self.take_text()))

    def _walk_history(self, step: int) -> bool:
        """Show the previous (-1) or next (1) sent text. Returns False if there is none."""
        index = len(self.sent_texts) if self._history_index is None else self._history_index
        new_index = index + step
        if not 0 <= new_index <= len(self.sent_texts) or new_index == index:
            return False
        if self._history_index is None:
            self._draft = self.text
        self._history_index = None if new_index == len(self.sent_texts) else new_index
        self.text = self._draft if self._history_index is None else self.sent_texts[new_index]
        self.move_cursor(self.document.end)
        return True
