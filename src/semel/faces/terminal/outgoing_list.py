"""The messages below a conversation that the gateway has not acknowledged, or whose entry has not come yet."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from semel.faces.terminal.line_text import LineText, list_lines
from semel.faces.terminal.outgoing import OutgoingMessage
from semel.text.visible import visible


class OutgoingRow(Vertical):
    """One message, and where it is."""

    class Clicked(Message):
        def __init__(self, message: OutgoingMessage):
            super().__init__()
            self.message = message

    def __init__(self, message: OutgoingMessage):
        super().__init__(classes="row role-user outgoing")
        self.message = message

    def compose(self) -> ComposeResult:
        yield Static(self._format_head(), classes="head")
        files = [f"[file {file.label}]" for file in self.message.files]
        text = "\n".join(filter(None, (visible(self.message.text), *files)))
        yield LineText(list_lines(Content(text)), classes="body")

    def draw(self) -> None:
        for head in self.query(".head").results(Static):  # none while the screen is being left
            head.update(self._format_head())

    def _format_head(self) -> Text:
        style = "red" if self.message.state == "refused" else "dim"
        return Text("You").append(f"  {visible(self.message.state_text)}", f"not bold {style}")

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Clicked(self.message))


class OutgoingList(Vertical):
    """The messages of one session, in the order in which they are sent."""

    def __init__(self) -> None:
        super().__init__(classes="outgoing-list")
        self._rows: dict[str, OutgoingRow] = {}

    async def show(self, messages: list[OutgoingMessage]) -> None:
        """Show these messages and no others."""
        for id in self._rows.keys() - {message.id for message in messages}:
            await self._rows.pop(id).remove()
        for message in messages:
            if row := self._rows.get(message.id):
                row.draw()
            else:
                self._rows[message.id] = OutgoingRow(message)
                await self.mount(self._rows[message.id])
