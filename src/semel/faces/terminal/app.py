"""`semel chat` on a full screen: the conversation above, the prompt below, and a status line between them.

The link (link.py) keeps the view up to date and calls `_changed`, which only collects changed rows. `draw_rows`
draws them at most once per frame, so a fast stream costs no more than a slow one. Messages go to the gateway and appear
when the view holds them; nothing is drawn ahead of it (Law 8).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from semel.faces.busy import MODE_DESCRIPTIONS, soon, told
from semel.faces.busy import line as in_line
from semel.faces.client import NoGateway, OutcomeUnknown, RequestRefused
from semel.faces.terminal.link import SessionLink, State
from semel.faces.terminal.prompt import Prompt
from semel.faces.terminal.question import Question
from semel.faces.terminal.rows import ItemRow, Row, key, make, shown
from semel.law.busy import MODES, Busy
from semel.text.visible import visible

Json = dict[str, Any]

FIRST = 80  # rows drawn at the start, and per page of history when a person scrolls up
FRAME_INTERVAL_S = 0.05  # seconds between two redraws, which bounds the cost of a fast stream


class ChatApp(App[None]):
    """The full-screen chat of one session. It draws only what the view holds, never an optimistic guess."""

    CSS_PATH = "chat.tcss"
    TITLE = "semel"
    ENABLE_COMMAND_PALETTE = False
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
        self.link = SessionLink(data_dir, session, self._changed)
        self.sender = sender
        self._dirty: dict[str, Json] = {}
        self._drawn: dict[str, Row] = {}
        self._snapshot = False
        self._redraw = asyncio.Event()
        self._opened = False
        self._unseen = False
        self._note = ""
        self._leaving = 0.0
        self._fetching = False
        self._places: dict[int, int] = {}  # seq of a waiting entry -> its place in the queue
        self._mode: Busy | None = None  # for the message being written
        self._unsure: dict[str, str] = {}  # text that may have arrived -> id to send it again with (Law 1)

    def compose(self) -> ComposeResult:
        yield Static(id="top")
        yield VerticalScroll(id="log", can_focus=False)
        yield Question()
        yield Static(id="note")
        yield Static(id="status")
        yield Prompt()

    def on_mount(self) -> None:
        self.log_view.anchor()
        self.watch(self.log_view, "scroll_y", self._scrolled, init=False)
        self.query_one(Prompt).focus()
        self._draw_lines()
        self.set_interval(1, self._count_down)
        self.follow()
        self.draw_rows()

    @property
    def log_view(self) -> VerticalScroll:
        return self.query_one("#log", VerticalScroll)

    # ------------------------------------------------------------ from the gateway to the screen

    @work
    async def follow(self) -> None:
        try:
            await self.link.run()
        except RequestRefused as refused:
            self.exit(return_code=1, message=f"semel: {refused}")

    def _changed(self, rows: list[Json], state: State) -> None:
        """Called by the link after a change: mark the rows for the next redraw."""
        self._snapshot = self._snapshot or (bool(rows) and not self._drawn)
        self._dirty.update((key(row), row) for row in rows if shown(row))
        self._redraw.set()

    @work
    async def draw_rows(self) -> None:
        while True:
            await self._redraw.wait()
            self._redraw.clear()
            rows, self._dirty = self._dirty, {}
            await self._draw(sorted(rows.values(), key=lambda row: int(row["born"])))
            await asyncio.sleep(FRAME_INTERVAL_S)

    async def _draw(self, rows: list[Json]) -> None:
        first, self._snapshot = self._snapshot, False
        following = self.at_bottom
        fresh = [row for row in rows if key(row) not in self._drawn and not row.get("gone")]
        for row in rows:
            drawn = self._drawn.get(key(row))
            if drawn is not None:
                drawn.want = row
                await (self._forget(drawn) if row.get("gone") else drawn.draw())
        await self._add(fresh[-FIRST:] if first else fresh)
        await self._line_up()
        self._learn_history(fresh)
        if rows and not first and not following:
            self._unseen = True
        self.query_one(Question).show(self.link.view.questions())
        self.call_after_refresh(self._draw_lines)

    async def _add(self, rows: list[Json]) -> None:
        """Insert rows, given oldest first, at their places in the view, which is nearly always the end."""
        runs: list[tuple[Row | None, list[Row]]] = []
        for row in rows:
            widget = make(row)
            widget.opened = self._opened
            later = next((drawn for drawn in self._drawn.values() if drawn.born > widget.born), None)
            if not runs or runs[-1][0] is not later:
                runs.append((later, []))
            runs[-1][1].append(widget)
        for later, widgets in runs:
            await self.log_view.mount(*widgets, before=later)
        fresh = {str(widget.id): widget for _, widgets in runs for widget in widgets}
        self._drawn = dict(sorted((self._drawn | fresh).items(), key=lambda pair: pair[1].born))

    async def _line_up(self) -> None:
        """Update the queue place shown on waiting entries."""
        view = self.link.view
        if not self._places and not view.session.get("waiting"):
            return
        self._places = in_line(view.entries.values())
        for row in self._drawn.values():
            place = self._places.get(row.want.get("seq", 0))
            if row.place != place:
                row.place = place
                await row.draw()

    async def _forget(self, row: Row) -> None:
        self._drawn = {name: drawn for name, drawn in self._drawn.items() if drawn is not row}
        await row.remove()

    def _learn_history(self, rows: list[Json]) -> None:
        for row in rows:
            if row.get("role") == "user" and row.get("sender") == self.sender:
                self.query_one(Prompt).remember(row["text"])

    # ------------------------------------------------------------ the two lines

    def _draw_lines(self) -> None:
        view = self.link.view
        top = Text(f" {self.link.session}", "bold")
        if view.session.get("agent"):
            top.append(f"  {visible(str(view.session['agent']))}", "dim")
        if view.session.get("title"):
            top.append(f"  {visible(str(view.session['title']))}", "dim")
        self.query_one("#top", Static).update(top)
        self.query_one("#status", Static).update(Text(" ").append_text(self._state()))
        note = self.query_one("#note", Static)
        note.display = bool(self._note)
        note.update(Text(f" {self._note}", "yellow"))

    def _state(self) -> Text:
        words = {
            "connecting": ("connecting …", "dim"),
            "away": ("the gateway is away; trying again … (start it with: semel up)", "bold red"),
            "new": ("a new session: say something", "dim"),
            "connected": ("", ""),
        }
        line = Text(*words[self.link.state])
        if self.link.state == "connected":
            line = self._activity()
        if self._unseen and not self.at_bottom:
            line.append("   ↓ new below (ctrl+end)", "bold cyan")
        return line

    def _activity(self) -> Text:
        session = self.link.view.session
        waiting = session.get("waiting") or 0
        if session.get("state") == "running":
            doing = Text("◐ working", "cyan")
            if "retry_at" in session:
                doing = Text(f"◌ the turn failed, tried again {soon(session['retry_at'])}", "yellow")
            doing.append("  esc stops it  ctrl+t queues, steers, interrupts", "dim")
            return doing.append(f"  {waiting} waiting", "dim") if waiting else doing
        if waiting:
            return Text(f"◌ {waiting} waiting", "cyan")
        return Text("enter sends · ctrl+j new line · ctrl+o details · ctrl+d leaves", "dim")

    def _count_down(self) -> None:
        if "retry_at" in self.link.view.session:
            self._draw_lines()

    def note(self, text: str) -> None:
        """Show a note above the status line until the next message is sent."""
        self._note = text
        self._draw_lines()

    # ------------------------------------------------------------ scrolling

    @property
    def at_bottom(self) -> bool:
        log = self.log_view  # a log shorter than the screen sits at its bottom: the maximum offset is not positive
        return log.max_scroll_y <= 0 or log.scroll_offset.y >= log.max_scroll_y - 1

    def _scrolled(self) -> None:
        if self.at_bottom:
            self._unseen = False
        self._draw_lines()
        if self.log_view.scroll_offset.y <= 0 < self.log_view.max_scroll_y:
            self.more_history()

    @work
    async def more_history(self) -> None:
        """Add older rows above, without moving the rows that the reader sees (Law 8)."""
        if self._fetching:
            return
        self._fetching = True
        try:
            older = await self._older()
            below = self.log_view.virtual_size.height - self.log_view.scroll_offset.y
            with self.batch_update():
                await self._add(older)
            self.call_after_refresh(self._keep_place, below)
        except (NoGateway, RequestRefused) as error:
            self.note(str(error))
        finally:
            self._fetching = False

    async def _older(self) -> list[Json]:
        """The next older rows to draw: those the view holds already, else a page from the gateway."""
        held = [row for row in self.link.view.ordered() if shown(row) and key(row) not in self._drawn]
        if not held:
            held = [row for row in await self.link.older() if shown(row) and key(row) not in self._drawn]
        return held[-FIRST:]

    def _keep_place(self, below: int) -> None:
        self.log_view.scroll_to(y=self.log_view.virtual_size.height - below, animate=False, immediate=True)

    def action_page(self, way: int) -> None:
        (self.log_view.scroll_page_up if way < 0 else self.log_view.scroll_page_down)(animate=False)
        if way < 0 and self.log_view.scroll_offset.y <= 0:
            self.more_history()

    def action_bottom(self) -> None:
        self.log_view.anchor()

    async def action_open_all(self) -> None:
        self._opened = not self._opened
        for row in self._drawn.values():
            if isinstance(row, ItemRow):
                row.opened = self._opened
                await row.draw()

    # ------------------------------------------------------------ from the person to the gateway

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        self.say(self.query_one(Prompt).take())

    @work
    async def say(self, text: str) -> None:
        prompt = self.query_one(Prompt)
        self.note("")
        self.log_view.anchor()
        mode = self._take_as(None)
        try:
            heard = await self.link.say(text, self.sender, mode, self._unsure.pop(text, None))
            prompt.remember(text)
            if heard["status"] == "duplicate":
                self.note("it had arrived before, and was not said twice")
            elif heard.get("why"):
                self.note(told(heard))
        except OutcomeUnknown as error:
            self._unsure[text] = error.id
            self._put_back(text, mode, f"{error} Enter sends it again, at most once.")
        except (NoGateway, RequestRefused) as error:
            self._put_back(text, mode, f"not sent: {error}")

    def _put_back(self, text: str, mode: Busy | None, why: str) -> None:
        prompt = self.query_one(Prompt)
        prompt.put_back(text)
        prompt.remember(text)
        self._take_as(mode)
        self.note(why)

    def action_mode(self) -> None:
        """ctrl+t: switch the busy mode of the message being written; it applies to that message only."""
        modes = (None, *MODES)
        self._take_as(modes[(modes.index(self._mode) + 1) % len(modes)])

    def _take_as(self, mode: Busy | None) -> Busy | None:
        """Set the busy mode of the next message, and return the previous one."""
        before, self._mode = self._mode, mode
        prompt = self.query_one(Prompt)
        prompt.border_title = f"{mode} · {MODE_DESCRIPTIONS[mode]}" if mode else ""
        return before

    @work
    async def action_stop(self) -> None:
        if self.link.view.session.get("state") == "running":
            try:
                await self.link.stop(self.sender)
            except (NoGateway, RequestRefused) as error:
                self.note(str(error))

    def action_stop_or_leave(self) -> None:
        """ctrl+c: copy the selection, or stop the running turn, or leave if pressed twice within 2 s."""
        if selected := self.screen.get_selected_text() or self.query_one(Prompt).selected_text:
            self.copy_to_clipboard(selected)
            self.note("copied")
            return
        now = asyncio.get_running_loop().time()
        if self.link.view.session.get("state") == "running" and now - self._leaving > 2:
            self.action_stop()
            self.note("stopping the turn; ctrl+c again leaves")
        elif now - self._leaving <= 2:
            self.exit()
        else:
            self.note("ctrl+c again leaves")
        self._leaving = now

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
            self.note(f"not answered: {error}")
            return
        if outcome != "answered":
            self.note("somebody answered before you" if outcome == "already" else "it is not open any more")


def run_chat(data_dir: Path, session: str, sender: str) -> int:
    """Run the full-screen chat. Returns an exit code; raises NoGateway if no gateway runs at the start."""
    from semel.faces.client import Address

    Address.of(data_dir)
    app = ChatApp(data_dir, session, sender)
    app.run()
    return app.return_code or 0
