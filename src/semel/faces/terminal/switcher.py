"""The list of sessions above the screen: choose one, search for one, or begin a new one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from semel.faces.terminal.session_list import SessionList
from semel.faces.terminal.session_rows import find_sessions, format_session, sort_sessions
from semel.law.identity import BadKey, check_session_key
from semel.text.json_types import Json

AGE_INTERVAL_S = 30.0  # seconds after which the ages of the sessions are shown anew
HINT = "⏎ opens · ↑ ↓ choose · esc goes back"
NEW = "new:"  # in front of the id of the option that begins a session


class SessionSwitcher(ModalScreen[str | None]):
    """Shows the sessions, those that need the person first. Its result is the key of the chosen one, or None.

    `visited`: the keys of the sessions that the person was in; the newest, which is the last one, is shown behind it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+k", "dismiss", "back", priority=True, show=False),
        Binding("down,ctrl+n", "move(1)", "next", priority=True, show=False),
        Binding("up,ctrl+p", "move(-1)", "previous", priority=True, show=False),
    ]

    def __init__(self, data_dir: Path, visited: Sequence[str]):
        super().__init__()
        self._visited = visited
        self._list = SessionList(data_dir, self._take_change)

    def compose(self) -> ComposeResult:
        with Vertical(id="switcher"):
            yield Input(placeholder="Search, or name a new session", compact=True)
            yield OptionList(id="sessions", markup=False)
            yield Static(HINT, id="switcher-hint")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.follow_list()
        self.set_interval(AGE_INTERVAL_S, self._fill)

    @work
    async def follow_list(self) -> None:
        await self._list.follow()

    def _take_change(self, problem: str) -> None:
        self.query_one("#switcher-hint", Static).update(Text(problem or HINT))
        self._fill()

    def on_input_changed(self) -> None:
        self._fill(is_new_query=True)

    def on_resize(self) -> None:
        self.call_after_refresh(self._fill)  # once the list has its new width

    def _fill(self, *, is_new_query: bool = False) -> None:
        """Show what matches the query. The highlight stays on its session, unless the query is another one."""
        options = self.query_one("#sessions", OptionList)
        marked = None if is_new_query or options.highlighted_option is None else options.highlighted_option.id
        now_ms = time.time_ns() // 1_000_000
        width = max(self.query_one("#switcher").content_size.width - 2, 20)
        found = find_sessions(sort_sessions(self._list.sessions, self._visited), self.query_one(Input).value)
        lines = [format_session(one, width, now_ms, is_current=self._is_current(one)) for one in found]
        listed = [Option(line, one["key"]) for line, one in zip(lines, found, strict=True)]
        options.set_options([*listed, *self._offer_new()])
        ids = [option.id for option in options.options]
        default = next((n for n, one in enumerate(found) if not self._is_current(one)), 0)
        options.highlighted = ids.index(marked) if marked in ids else min(default, len(ids) - 1) if ids else None

    def _is_current(self, session: Json) -> bool:
        return bool(self._visited) and session["key"] == self._visited[-1]

    def _offer_new(self) -> list[Option]:
        """Offer to begin the session that the query names, if it could be a session's key and is none yet."""
        key = self.query_one(Input).value.strip()
        try:
            check_session_key(key)
        except BadKey:
            return []
        if any(session["key"] == key for session in self._list.sessions):
            return []
        return [Option(Text.assemble(("+ ", "green"), "a new session: ", (key, "bold")), f"{NEW}{key}")]

    def action_move(self, step: int) -> None:
        options = self.query_one("#sessions", OptionList)
        (options.action_cursor_down if step > 0 else options.action_cursor_up)()

    async def action_dismiss(self, result: str | None = None) -> None:
        self.dismiss(result)

    def on_input_submitted(self) -> None:
        self.query_one("#sessions", OptionList).action_select()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(str(event.option_id).removeprefix(NEW))
