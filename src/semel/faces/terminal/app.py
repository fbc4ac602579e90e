"""`semel chat` on a full screen: the panes of the open sessions (pane.py), their tabs, and the live keys."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from semel.faces.terminal.conversation import ConversationView
from semel.faces.terminal.kept_files import list_unsent
from semel.faces.terminal.key_footer import KeyFooter
from semel.faces.terminal.pane import SessionPane
from semel.faces.terminal.session_rows import name_session
from semel.faces.terminal.switcher import SessionSwitcher
from semel.faces.terminal.tab_line import Tab, TabLine

MAX_OPEN_SESSIONS = 9  # each has a stream; the one in which the person was longest ago is closed then
LEAVE_PRESSES_S = 2.0  # ctrl+c leaves if it is pressed twice within this time


class ChatApp(App[None]):
    """The full-screen chat."""

    CSS_PATH = "chat.tcss"
    TITLE = "semel"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]  # noqa: RUF012 (rows; App has it as an instance variable)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+pagedown", "turn_tab(1)", "next session", priority=True, show=False),
        Binding("ctrl+pageup", "turn_tab(-1)", "previous session", priority=True, show=False),
        Binding("ctrl+c", "stop_or_leave", "stop or leave", priority=True, show=False),
    ]

    def __init__(self, data_dir: Path, session: str, sender: str | None):
        super().__init__()
        self.data_dir = data_dir
        self.sender = sender
        self.panes = {session: SessionPane(data_dir, session, sender)}  # by key, in the order of the tabs
        self.visited = [session]  # the keys of the open sessions; the one that is shown is the last
        self._shown_tabs: list[Tab] = []
        self._leave_pressed_at = 0.0

    def compose(self) -> ComposeResult:
        yield TabLine()
        yield self.pane
        yield KeyFooter()

    async def on_mount(self) -> None:
        self.query_one(TabLine).display = False
        self.pane.prompt.focus()
        for session in list_unsent(self.data_dir):  # opened, so that what waits is sent
            await self._open_pane(session)

    @property
    def pane(self) -> SessionPane:
        """The pane that is shown."""
        return self.panes[self.visited[-1]]

    # ------------------------------------------------------------ several sessions

    async def show_session(self, session: str) -> None:
        """Show a session. The others stay as they are: place, draft, open question."""
        left = self.pane
        left.report_seen()
        await self._open_pane(session)
        self.visited = [*(key for key in self.visited if key != session), session]
        left.focused = self.focused if self.focused and left in self.focused.ancestors else None
        for pane in self.panes.values():
            pane.display = pane is self.pane
        (self.pane.focused or self.pane.prompt).focus()
        await self._close_oldest()
        self._draw_tabs()

    async def _open_pane(self, session: str) -> None:
        if session not in self.panes:
            pane = self.panes[session] = SessionPane(self.data_dir, session, self.sender)
            pane.display = False
            self.visited.insert(0, session)
            await self.mount(pane, before=self.query_one(KeyFooter))

    async def _close_oldest(self) -> None:
        """Close the sessions in which the person was longest ago, but none with a draft, until few enough are open."""
        for session in self.visited[:-1]:
            if len(self.panes) > MAX_OPEN_SESSIONS and not self.panes[session].has_draft:
                self.visited.remove(session)
                self.panes[session].keep_bookmark()
                await self.panes.pop(session).remove()

    @work
    async def action_switch(self) -> None:
        """ctrl+k: choose a session from the list."""
        if session := await self.push_screen_wait(SessionSwitcher(self.data_dir, tuple(self.visited))):
            await self.show_session(session)

    async def action_show_tab(self, number: int) -> None:
        await self.show_session(list(self.panes)[number])

    async def action_turn_tab(self, step: int) -> None:
        """Show the next (1) or previous (-1) tab."""
        keys = list(self.panes)
        await self.show_session(keys[(keys.index(self.visited[-1]) + step) % len(keys)])

    def on_session_pane_changed(self) -> None:
        self._draw_tabs()

    def on_resize(self) -> None:
        self._draw_tabs()

    def _draw_tabs(self) -> None:
        tabs = [self._describe_tab(pane) for pane in self.panes.values()]
        if tabs != self._shown_tabs:
            self._shown_tabs = tabs
            self.query_one(TabLine).show(tabs)

    def _describe_tab(self, pane: SessionPane) -> Tab:
        view = pane.link.view
        is_current = pane is self.pane
        sign = "?" if pane.needs_person else "◐" if pane.is_running else "●" if pane.has_news and not is_current else ""
        return Tab(name_session({**view.session, "key": pane.link.session}), sign, is_current)

    # ------------------------------------------------------------ leaving

    def on_conversation_view_session_refused(self, event: ConversationView.SessionRefused) -> None:
        if len(self.panes) == 1:
            self.exit(return_code=1, message=f"semel: {event.reason}")
        else:
            self.pane.show_note(event.reason)

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
        self._leave()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for `leave` while the prompt has a text: there ctrl+d deletes a character, as in a shell."""
        return action != "leave" or not self.pane.prompt.text

    def _leave(self) -> None:
        """Leave, and say what was not sent: it is kept, and sent when `semel chat` is started again."""
        for pane in self.panes.values():
            pane.keep_bookmark()
        count = sum(len(pane.conversation.outgoing.unsent) for pane in self.panes.values())
        noun = "message waits" if count == 1 else "messages wait"
        self.exit(message=f"{count} {noun}, and will be sent by the next semel chat." if count else None)


def run_chat(data_dir: Path, session: str, sender: str | None, *, mouse: bool = True) -> int:
    """Run the full-screen chat. Returns an exit code; raises NoGateway if no gateway runs at the start.

    `mouse`: whether it takes clicks and the wheel. If not, they are the terminal's own, which selects text with them.
    """
    from semel.tools.address import find_socket

    find_socket(data_dir)
    app = ChatApp(data_dir, session, sender)
    app.run(mouse=mouse)
    return app.return_code or 0
