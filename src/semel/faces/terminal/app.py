"""`semel chat` on a full screen: the conversation above, the prompt below, and a status line between them.

The link (link.py) keeps the view up to date and calls `_take_changes`, which only collects changed rows. `draw_rows`
draws them at most once per frame, so a fast stream costs no more than a slow one. A message that is sent appears only
when the view contains it (Law 8).
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from semel.faces.busy_texts import (
    MODE_DESCRIPTIONS,
    describe_silence,
    describe_waiting,
    format_time_left,
    number_waiting,
)
from semel.faces.client import NoGateway, OutcomeUnknown, RequestRefused
from semel.faces.terminal.link import SessionLink, State
from semel.faces.terminal.prompt import Prompt
from semel.faces.terminal.question import Question
from semel.faces.terminal.rows import ItemWidget, RowWidget, is_shown, make_widget, row_key
from semel.law.wake import MODES, Busy
from semel.text.json_types import Json
from semel.text.visible import visible

PAGE_ROWS = 80  # rows drawn at the start, and per page of history when a person scrolls up
FRAME_INTERVAL_S = 0.05  # seconds between two redraws, which bounds the cost of a fast stream


class ChatApp(App[None]):
    """The full-screen chat of one session. It draws only what the view holds, never an optimistic guess."""

    CSS_PATH = "chat.tcss"
    TITLE = "semel"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]  # noqa: RUF012 (rows; App has it as an instance variable)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "stop the turn", show=False),
        Binding("ctrl+c", "stop_or_leave", "stop or leave", priority=True, show=False),
        Binding("ctrl+d", "leave", "leave", priority=True, show=False),
        Binding("ctrl+t", "mode", "how this message is taken", priority=True, show=False),
        Binding("ctrl+o", "open_all", "open tool output", priority=True, show=False),
        Binding("pageup", "page(-1)", "older", priority=True, show=False),
        Binding("pagedown", "page(1)", "newer", priority=True, show=False),
        Binding("ctrl+end", "bottom", "newest", priority=True, show=False),
    ]

    def __init__(self, data_dir: Path, session: str, sender: str):
        super().__init__()
        self.link = SessionLink(data_dir, session, self._take_changes)
        self.sender = sender
        self._changed_rows: dict[str, Json] = {}
        self._drawn_rows: dict[str, RowWidget] = {}
        self._draws_snapshot = False
        self._redraw_needed = asyncio.Event()
        self._all_opened = False
        self._has_unseen_rows = False
        self._note_text = ""
        self._leave_pressed_at = 0.0
        self._changed_at = time.monotonic()  # when the view changed last
        self._is_fetching = False
        self._queue_places: dict[int, int] = {}  # seq of a waiting entry -> its place in the queue
        self._busy_mode: Busy | None = None  # for the message being written
        self._unsure_ids: dict[str, str] = {}  # text that may have arrived -> id to send it again with (Law 1)

    def compose(self) -> ComposeResult:
        yield Static(id="top")
        yield VerticalScroll(id="log", can_focus=False)
        yield Question()
        yield Static(id="note")
        yield Static(id="status")
        yield Prompt()

    def on_mount(self) -> None:
        self.log_view.anchor()
        self.watch(self.log_view, "scroll_y", self._on_scroll, init=False)
        self.query_one(Prompt).focus()
        self._draw_status_lines()
        self.set_interval(1, self._redraw_countdown)
        self.follow_link()
        self.draw_rows()

    @property
    def log_view(self) -> VerticalScroll:
        return self.query_one("#log", VerticalScroll)

    # ------------------------------------------------------------ from the gateway to the screen

    @work
    async def follow_link(self) -> None:
        try:
            await self.link.run()
        except RequestRefused as error:
            self.exit(return_code=1, message=f"semel: {error}")

    def _take_changes(self, rows: list[Json], state: State) -> None:
        """Mark changed rows for the next redraw. The link calls this after every change."""
        self._draws_snapshot = self._draws_snapshot or (bool(rows) and not self._drawn_rows)
        self._changed_at = time.monotonic()
        self._changed_rows.update((row_key(row), row) for row in rows if is_shown(row))
        self._redraw_needed.set()

    @work
    async def draw_rows(self) -> None:
        while True:
            await self._redraw_needed.wait()
            self._redraw_needed.clear()
            rows, self._changed_rows = self._changed_rows, {}
            await self._draw(sorted(rows.values(), key=lambda row: int(row["born"])))
            await asyncio.sleep(FRAME_INTERVAL_S)

    async def _draw(self, rows: list[Json]) -> None:
        is_snapshot, self._draws_snapshot = self._draws_snapshot, False
        was_at_bottom = self.at_bottom
        new_rows = [row for row in rows if row_key(row) not in self._drawn_rows and not row.get("gone")]
        for row in rows:
            widget = self._drawn_rows.get(row_key(row))
            if widget is not None:
                widget.data = row
                await (self._remove_row(widget) if row.get("gone") else widget.draw())
        await self._add_rows(new_rows[-PAGE_ROWS:] if is_snapshot else new_rows)
        await self._update_queue_places()
        self._remember_messages(new_rows)
        if rows and not is_snapshot and not was_at_bottom:
            self._has_unseen_rows = True
        self.query_one(Question).show(self.link.view.open_questions())
        self.call_after_refresh(self._draw_status_lines)

    async def _add_rows(self, rows: list[Json]) -> None:
        """Insert rows, given oldest first, at their places in the view (nearly always at the end)."""
        insertions: list[tuple[RowWidget | None, list[RowWidget]]] = []
        for row in rows:
            widget = make_widget(row)
            widget.opened = self._all_opened
            next_widget = next((drawn for drawn in self._drawn_rows.values() if drawn.born > widget.born), None)
            if not insertions or insertions[-1][0] is not next_widget:
                insertions.append((next_widget, []))
            insertions[-1][1].append(widget)
        for next_widget, widgets in insertions:
            await self.log_view.mount(*widgets, before=next_widget)
        new_widgets = {str(widget.id): widget for _, widgets in insertions for widget in widgets}
        self._drawn_rows = dict(sorted((self._drawn_rows | new_widgets).items(), key=lambda pair: pair[1].born))

    async def _update_queue_places(self) -> None:
        """Update the queue place shown on waiting entries."""
        view = self.link.view
        if not self._queue_places and not view.session.get("waiting"):
            return
        self._queue_places = number_waiting(view.entries.values())
        for row in self._drawn_rows.values():
            place = self._queue_places.get(row.data.get("seq", 0))
            if row.queue_place != place:
                row.queue_place = place
                await row.draw()

    async def _remove_row(self, row: RowWidget) -> None:
        self._drawn_rows = {name: drawn for name, drawn in self._drawn_rows.items() if drawn is not row}
        await row.remove()

    def _remember_messages(self, rows: list[Json]) -> None:
        for row in rows:
            if row.get("role") == "user" and row.get("sender") == self.sender:
                self.query_one(Prompt).remember(row["text"])

    # ------------------------------------------------------------ the two lines

    def _draw_status_lines(self) -> None:
        view = self.link.view
        top = Text(f" {self.link.session}", "bold")
        if view.session.get("agent"):
            top.append(f"  {visible(str(view.session['agent']))}", "dim")
        if view.session.get("title"):
            top.append(f"  {visible(str(view.session['title']))}", "dim")
        self.query_one("#top", Static).update(top)
        self.query_one("#status", Static).update(Text(" ").append_text(self._format_state()))
        note = self.query_one("#note", Static)
        note.display = bool(self._note_text)
        note.update(Text(f" {self._note_text}", "yellow"))

    def _format_state(self) -> Text:
        texts = {
            "connecting": ("connecting …", "dim"),
            "away": ("the gateway is away; trying again … (start it with: semel up)", "bold red"),
            "new": ("a new session: say something", "dim"),
            "connected": ("", ""),
        }
        line = Text(*texts[self.link.state])
        if self.link.state == "connected":
            line = self._format_activity()
        if self._has_unseen_rows and not self.at_bottom:
            line.append("   ↓ new below (ctrl+end)", "bold cyan")
        return line

    def _format_activity(self) -> Text:
        session = self.link.view.session
        waiting = session.get("waiting") or 0
        if session.get("state") == "running":
            doing = Text("◐ working", "cyan")
            if "retry_at" in session:
                doing = Text(f"◌ the turn failed, tried again {format_time_left(session['retry_at'])}", "yellow")
            elif silence := self._describe_silence():
                doing.append(f": {silence}", "yellow")
            doing.append("  esc stops it  ctrl+t queues, steers, interrupts", "dim")
            return doing.append(f"  {waiting} waiting", "dim") if waiting else doing
        if waiting:
            return Text(f"◌ {waiting} waiting", "cyan")
        return Text("enter sends · ctrl+j new line · ctrl+o details · ctrl+d leaves", "dim")

    def _describe_silence(self) -> str:
        """Say for how long the running turn has shown nothing new; "" if not for long, or if it waits for a person."""
        return "" if self.link.view.open_questions() else describe_silence(time.monotonic() - self._changed_at)

    def _redraw_countdown(self) -> None:
        session = self.link.view.session
        if "retry_at" in session or (session.get("state") == "running" and self._describe_silence()):
            self._draw_status_lines()

    def show_note(self, text: str) -> None:
        """Show a note above the status line until the next message is sent."""
        self._note_text = text
        self._draw_status_lines()

    # ------------------------------------------------------------ scrolling

    @property
    def at_bottom(self) -> bool:
        log = self.log_view  # a log shorter than the screen sits at its bottom: the maximum offset is not positive
        return log.max_scroll_y <= 0 or log.scroll_offset.y >= log.max_scroll_y - 1

    def _on_scroll(self) -> None:
        if self.at_bottom:
            self._has_unseen_rows = False
        self._draw_status_lines()
        if self.log_view.scroll_offset.y <= 0 < self.log_view.max_scroll_y:
            self.load_history()

    @work
    async def load_history(self) -> None:
        """Add older rows above, without moving the rows that the reader sees (Law 8)."""
        if self._is_fetching:
            return
        self._is_fetching = True
        try:
            older_rows = await self._load_older()
            height_below = self.log_view.virtual_size.height - self.log_view.scroll_offset.y
            with self.batch_update():
                await self._add_rows(older_rows)
            self.call_after_refresh(self._keep_scroll_place, height_below)
        except (NoGateway, RequestRefused) as error:
            self.show_note(str(error))
        finally:
            self._is_fetching = False

    async def _load_older(self) -> list[Json]:
        """Return the next older rows to draw: those that the view holds already, else a page from the gateway."""
        hidden_rows = [
            row for row in self.link.view.ordered() if is_shown(row) and row_key(row) not in self._drawn_rows
        ]
        if not hidden_rows:
            hidden_rows = [
                row for row in await self.link.load_older() if is_shown(row) and row_key(row) not in self._drawn_rows
            ]
        return hidden_rows[-PAGE_ROWS:]

    def _keep_scroll_place(self, height_below: int) -> None:
        self.log_view.scroll_to(y=self.log_view.virtual_size.height - height_below, animate=False, immediate=True)

    def action_page(self, direction: int) -> None:
        (self.log_view.scroll_page_up if direction < 0 else self.log_view.scroll_page_down)(animate=False)
        if direction < 0 and self.log_view.scroll_offset.y <= 0:
            self.load_history()

    def action_bottom(self) -> None:
        self.log_view.anchor()

    async def action_open_all(self) -> None:
        self._all_opened = not self._all_opened
        for row in self._drawn_rows.values():
            if isinstance(row, ItemWidget):
                row.opened = self._all_opened
                await row.draw()

    # ------------------------------------------------------------ from the person to the gateway

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        """Send the message, unless it is a key of the open question and its writer probably meant to answer."""
        text = self.query_one(Prompt).take_text()
        if self.query_one(Question).holds_back(text):
            self.query_one(Prompt).remember(text)
            self.show_note(f"not sent: press Tab, then {text.strip()}, to answer; or send it again as a message")
            return
        self.say(text)

    @work
    async def say(self, text: str) -> None:
        prompt = self.query_one(Prompt)
        self.show_note("the message waits a moment for the gateway …" if self.link.state == "away" else "")
        self.log_view.anchor()
        mode = self._set_busy_mode(None)
        try:
            accepted = await self.link.say(text, self.sender, mode, self._unsure_ids.pop(text, None))
            prompt.remember(text)
            self.show_note("")
            if accepted.status == "duplicate":
                self.show_note("it had arrived before, and was not accepted twice")
            elif accepted.why:
                self.show_note(describe_waiting(accepted))
            elif accepted.note:
                self.show_note(accepted.note)
        except OutcomeUnknown as error:
            self._unsure_ids[text] = error.id
            self._restore_message(text, mode, f"{error} Enter sends it again, at most once.")
        except (NoGateway, RequestRefused) as error:
            self._restore_message(text, mode, f"not sent: {error}")

    def _restore_message(self, text: str, mode: Busy | None, reason: str) -> None:
        prompt = self.query_one(Prompt)
        prompt.restore(text)
        prompt.remember(text)
        self._set_busy_mode(mode)
        self.show_note(reason)

    def action_mode(self) -> None:
        """ctrl+t: switch the busy mode of the message being written; it applies to that message only."""
        modes = (None, *MODES)
        self._set_busy_mode(modes[(modes.index(self._busy_mode) + 1) % len(modes)])

    def _set_busy_mode(self, mode: Busy | None) -> Busy | None:
        """Set the busy mode of the next message, and return the previous one."""
        previous, self._busy_mode = self._busy_mode, mode
        prompt = self.query_one(Prompt)
        prompt.border_title = f"{mode} · {MODE_DESCRIPTIONS[mode]}" if mode else ""
        return previous

    @work
    async def action_stop(self) -> None:
        if self.link.view.session.get("state") == "running":
            try:
                await self.link.stop(self.sender)
            except (NoGateway, RequestRefused) as error:
                self.show_note(str(error))

    def action_stop_or_leave(self) -> None:
        """ctrl+c: copy the selection, or stop the running turn, or leave if pressed twice within 2 s."""
        if selected := self.screen.get_selected_text() or self.query_one(Prompt).selected_text:
            self.copy_to_clipboard(selected)
            self.show_note("copied")
            return
        now = asyncio.get_running_loop().time()
        if self.link.view.session.get("state") == "running" and now - self._leave_pressed_at > 2:
            self.action_stop()
            self.show_note("stopping the turn; ctrl+c again leaves")
        elif now - self._leave_pressed_at <= 2:
            self.exit()
        else:
            self.show_note("ctrl+c again leaves")
        self._leave_pressed_at = now

    def action_leave(self) -> None:
        """ctrl+d, as in a shell: leave if the prompt is empty, else delete the next character."""
        prompt = self.query_one(Prompt)
        if prompt.text:
            prompt.action_delete_right()
        else:
            self.exit()

    @work
    async def on_question_answered(self, event: Question.Answered) -> None:
        try:
            outcome = await self.link.answer(event.item, event.option, self.sender)
        except (NoGateway, RequestRefused) as error:
            self.show_note(f"not answered: {error}")
            return
        problems = {"answered": "", "already": "somebody answered before you"}
        self.show_note(problems.get(outcome, "it is not open any more"))


def run_chat(data_dir: Path, session: str, sender: str) -> int:
    """Run the full-screen chat. Returns an exit code; raises NoGateway if no gateway runs at the start."""
    from semel.tools.address import find_socket

    find_socket(data_dir)
    app = ChatApp(data_dir, session, sender)
    app.run()
    return app.return_code or 0
