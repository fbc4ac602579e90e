"""`semel chat` on a full screen: the pane of a session (pane.py), and below it the keys that work now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from semel.faces.terminal.conversation import Conversation
from semel.faces.terminal.key_footer import KeyFooter
from semel.faces.terminal.pane import SessionPane

LEAVE_PRESSES_S = 2.0  # ctrl+c leaves if it is pressed twice within this time


class ChatApp(App[None]):
    """The full-screen chat."""

    CSS_PATH = "chat.tcss"
    TITLE = "semel"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]  # noqa: RUF012 (rows; App has it as an instance variable)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "stop_or_leave", "stop or leave", priority=True, show=False),
    ]

    def __init__(self, data_dir: Path, session: str, sender: str):
        super().__init__()
        self.pane = SessionPane(data_dir, session, sender)
        self._leave_pressed_at = 0.0

    def compose(self) -> ComposeResult:
        yield self.pane
        yield KeyFooter()

    def on_mount(self) -> None:
        self.pane.prompt.focus()

    def on_conversation_refused(self, event: Conversation.Refused) -> None:
        self.exit(return_code=1, message=f"semel: {event.reason}")

    def action_stop_or_leave(self) -> None:
        """ctrl+c: copy the selection, or stop the running turn, or leave if pressed twice within 2 s."""
        pane = self.pane
        if selected := self.screen.get_selected_text() or pane.prompt.selected_text:
            self.copy_to_clipboard(selected)
            pane.show_note("copied")
            return
        now = asyncio.get_running_loop().time()
        if pane.is_running and now - self._leave_pressed_at > LEAVE_PRESSES_S:
            pane.action_stop()
            pane.show_note("stopping the turn; ctrl+c again leaves")
        elif now - self._leave_pressed_at <= LEAVE_PRESSES_S:
            self._leave()
        else:
            pane.show_note("ctrl+c again leaves")
        self._leave_pressed_at = now

    def action_leave(self) -> None:
        """ctrl+d, as in a shell: leave if the prompt is empty, else delete the next character."""
        prompt = self.pane.prompt
        if prompt.text:
            prompt.action_delete_right()
        else:
            self._leave()

    def _leave(self) -> None:
        """Leave, and say what was not sent: it is kept, and sent when the session is opened again."""
        link, unsent = self.pane.link, self.pane.conversation.outgoing.unsent
        noun = "message waits" if len(unsent) == 1 else "messages wait"
        kept = f"{len(unsent)} {noun} to be sent: semel chat {link.session}"
        self.exit(message=kept if unsent else None)


def run_chat(data_dir: Path, session: str, sender: str) -> int:
    """Run the full-screen chat. Returns an exit code; raises NoGateway if no gateway runs at the start."""
    from semel.tools.address import find_socket

    find_socket(data_dir)
    app = ChatApp(data_dir, session, sender)
    app.run()
    return app.return_code or 0
