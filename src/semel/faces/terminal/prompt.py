"""The input field: several lines, a history, and Enter to send."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import TextArea


class Prompt(TextArea):
    """Enter sends; ctrl+j, alt+enter or shift+enter starts a new line; up and down walk the history."""

    class Sent(Message):
        def __init__(self, text: str):
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(
            id="prompt", show_line_numbers=False, compact=True, highlight_cursor_line=False,
            placeholder="Say something. Enter sends, ctrl+j is a new line.", tab_behavior="focus",
        )  # fmt: skip
        self.past: list[str] = []
        self._place: int | None = None  # index in `past`; None while the draft is shown
        self._draft = ""

    def remember(self, text: str) -> None:
        if text and (not self.past or self.past[-1] != text):
            self.past.append(text)

    def take(self) -> str:
        """Return the text and empty the prompt."""
        text = self.text
        self.text = ""
        self._place = None
        return text

    def put_back(self, text: str) -> None:
        """Restore a message that could not be sent, unless the person has begun another one."""
        if not self.text:
            self.text = text
            self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            if self.text.strip():
                self.post_message(self.Sent(self.text))
        elif event.key in ("ctrl+j", "alt+enter", "shift+enter"):
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif (event.key == "up" and self.cursor_location[0] == 0 and self._walk(-1)) or (
            event.key == "down" and self.cursor_location[0] == self.document.line_count - 1 and self._walk(1)
        ):
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    def _walk(self, step: int) -> bool:
        """Move one step through the history; False at its ends."""
        place = len(self.past) if self._place is None else self._place
        there = place + step
        if not 0 <= there <= len(self.past) or there == place:
            return False
        if self._place is None:
            self._draft = self.text
        self._place = None if there == len(self.past) else there
        self.text = self._draft if self._place is None else self.past[there]
        self.move_cursor(self.document.end)
        return True
