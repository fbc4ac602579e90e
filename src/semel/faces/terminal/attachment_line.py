"""The line above the prompt with the files that go with the message being written."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from semel.faces.terminal.attachments import Attachment


class AttachmentLine(Static):
    """A click on a file removes it."""

    class Clicked(Message):
        def __init__(self, number: int):
            super().__init__()
            self.number = number

    def __init__(self) -> None:
        super().__init__(id="attachments")

    def on_mount(self) -> None:
        self.display = False

    def show(self, attached: Sequence[Attachment]) -> None:
        line = Text(" with this message: ", "dim")
        for number, one in enumerate(attached):
            line.append(f" {one.label} ✕ ", Style(reverse=True, meta={"attachment": number})).append(" ")
        line.append(" backspace in the empty prompt removes the last", "dim")
        self.display = bool(attached)
        self.update(line)

    def on_click(self, event: events.Click) -> None:
        number = event.style.meta.get("attachment")
        if number is not None:
            event.stop()
            self.post_message(self.Clicked(number))
