"""The conversation of one session: the rows of its view, older ones when a person scrolls up, and unsent messages.

The link (link.py) keeps the view up to date and calls `_take_changes`, which only collects changed rows. `draw_rows`
draws them at most once per frame, so a fast stream costs no more than a slow one.
"""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from semel.faces.api_types import Accepted
from semel.faces.busy_texts import number_waiting
from semel.faces.client import NoGateway, RequestRefused
from semel.faces.terminal.end_scroll import EndScroll
from semel.faces.terminal.kept_files import KeptFiles
from semel.faces.terminal.link import SessionLink, State
from semel.faces.terminal.outgoing import OutgoingMessage, OutgoingQueue
from semel.faces.terminal.outgoing_list import OutgoingList
from semel.faces.terminal.rows import (
    AgentWidget,
    ItemWidget,
    Names,
    RowWidget,
    estimate_lines,
    is_shown,
    make_widget,
    row_key,
)
from semel.text.json_types import Json

PAGE_ROWS = 80  # rows drawn at the start, and per page of history when a person scrolls up, at most
SCREENS_DRAWN = 4  # and about so many screens of them
MAX_DRAWN_ROWS = 400  # rows on the screen while the reader is at its end
MAX_ROWS_BACK = 800  # rows of history that are drawn to find the place where a person was
SCREENS_AHEAD = 2  # drawn above what is in sight, as a reader comes near
SETTLED_FRAMES = 4  # for which a place is kept before its rows count as laid out
MAX_SETTLING_FRAMES = 60
ROWS_PER_FRAME = 40  # that are drawn at once, so that a key does not wait for hundreds
FRAME_INTERVAL_S = 0.05  # seconds between two redraws, which bounds the cost of a fast stream


class Spot(NamedTuple):
    """Where a reader is. `row`: the first one in sight, and `row_y` where it begins; `oldest`: the first drawn one."""

    offset: int
    row: RowWidget
    row_y: int
    oldest: RowWidget


class ConversationView(EndScroll, can_focus=False):
    """Follows a session, and draws the rows of its view. An update never moves a reader (Law 8)."""

    class Drawn(Message):
        """Changes of rows, session or connection were drawn. `rows` are those that were not there before."""

        def __init__(self, rows: list[Json]):
            super().__init__()
            self.rows = rows

    class Scrolled(Message):
        """The reader is at another place."""

    class MessageAnswered(Message):
        """The gateway has accepted a message of the person, or refuses it: then `accepted` is None."""

        def __init__(self, message: OutgoingMessage, accepted: Accepted | None):
            super().__init__()
            self.message = message
            self.accepted = accepted

    class SessionRefused(Message):
        """The gateway refuses to show the session."""

        def __init__(self, reason: str):
            super().__init__()
            self.reason = reason

    def __init__(self, data_dir: Path, session: str, sender: str | None):
        super().__init__(classes="log")
        self._names = Names(me=sender or "")
        self.link = SessionLink(data_dir, session, self._take_changes)
        self.kept_files = KeptFiles(data_dir, session)
        self._redraw_needed = asyncio.Event()
        self.outgoing = OutgoingQueue(
            lambda message: self.link.post(message, self.kept_files.keep_message),
            keep=self.kept_files.keep_message,
            drop=self.kept_files.drop_message,
            on_change=self._redraw_needed.set,
            on_answer=self._take_answer,
        )
        self._outgoing_list = OutgoingList()
        self.changed_at = time.monotonic()  # when the view changed last
        self.has_unseen_rows = False
        self.usage: Json = {}  # the last usage item of the view
        self.problem = ""  # why older rows could not be loaded
        self._changed_rows: dict[str, Json] = {}
        self._drawn_rows: dict[str, RowWidget] = {}
        self._ordered_rows: list[RowWidget] = []  # the drawn rows, as they stand on the screen
        self._draws_snapshot = False
        self._place: tuple[str, int] | None = None  # where to begin: a row and how many of its lines are above
        self.has_opened_all = False  # whether the details of all rows are shown
        self._is_fetching = False
        self._is_drawing_above = False
        self._state: State = "connecting"  # of the link, at its last change
        self._queue_places: dict[int, int] = {}  # seq of a waiting entry -> its place in the queue

    def compose(self) -> ComposeResult:
        yield self._outgoing_list

    def on_mount(self) -> None:
        self.anchor()
        self.outgoing.add(*self.kept_files.load_messages())
        self.watch(self, "scroll_y", self._on_scroll, init=False)
        self.follow_link()
        self.draw_rows()
        self.send_messages()

    # ------------------------------------------------------------ from the gateway to the screen

    @work
    async def follow_link(self) -> None:
        try:
            await self.link.run()
        except RequestRefused as error:
            self.post_message(self.SessionRefused(str(error)))

    @work
    async def send_messages(self) -> None:
        await self.outgoing.run()

    def _take_answer(self, message: OutgoingMessage, accepted: Accepted | None) -> None:
        """Handle the gateway's answer to a message. Its entry is in the view already if the stream was faster, and may
        be older than the view if the message had arrived before.
        """
        if accepted is not None:
            entries = self.link.view.entries.values()
            is_seen = any(entry.get("event") == accepted.event for entry in entries)
            if is_seen or accepted.status == "duplicate":
                self.outgoing.remove(message)
        self.post_message(self.MessageAnswered(message, accepted))

    def _take_changes(self, rows: list[Json], state: State) -> None:
        """Mark changed rows for the next redraw. The link calls this after every change."""
        if self._state == "away" != state:
            self.outgoing.kick()
        self._state = state
        self._draws_snapshot = self._draws_snapshot or (bool(rows) and not self._drawn_rows)
        self.changed_at = time.monotonic()
        self.usage = next((row for row in reversed(rows) if row.get("kind") == "usage"), self.usage)
        self._changed_rows.update((row_key(row), row) for row in rows if is_shown(row))
        self._redraw_needed.set()

    @property
    def is_drawn(self) -> bool:
        """Whether every change that has come is on the screen."""
        return not self._changed_rows

    @work
    async def draw_rows(self) -> None:
        while True:
            await self._redraw_needed.wait()
            self._redraw_needed.clear()
            await self._draw(self._take_changed_rows())
            await asyncio.sleep(FRAME_INTERVAL_S)

    def _take_changed_rows(self) -> list[Json]:
        """Take the rows to be drawn now, oldest first: all, or as many as a frame may have. The others come next."""
        rows = sorted(self._changed_rows.values(), key=lambda row: int(row["born"]))
        count = len(rows) if self._draws_snapshot else ROWS_PER_FRAME
        self._changed_rows = {row_key(row): row for row in rows[count:]}
        if self._changed_rows:
            self._redraw_needed.set()
        return rows[:count]

    async def _draw(self, rows: list[Json]) -> None:
        is_snapshot, self._draws_snapshot = self._draws_snapshot, False
        was_at_bottom = self.is_at_bottom
        spot = None if was_at_bottom else self._find_spot()
        self._names.agent = str(self.link.view.session.get("agent") or "")
        oldest = self._ordered_rows[0].born if self._ordered_rows else 0  # what is older is drawn on the way up to it
        new_rows = [
            row
            for row in rows
            if row_key(row) not in self._drawn_rows and not row.get("gone") and int(row["born"]) > oldest
        ]
        if is_snapshot:
            self.post_message(self.Drawn([]))  # the lines around it do not wait for its rows
        for row in rows:
            widget = self._drawn_rows.get(row_key(row))
            if widget is not None:
                widget.data = row
                await (self._remove_row(widget) if row.get("gone") else widget.draw())
        with self.app.batch_update():  # a message and its entry are never on the screen together
            self.outgoing.match(new_rows)
            await self._outgoing_list.show(self.outgoing.shown)
            await self._add_rows(self._take_newest(new_rows) if is_snapshot else new_rows)
        if was_at_bottom and self.is_at_bottom:
            await self._remove_oldest_rows()
        await self._update_queue_places()
        if is_snapshot and self._place is not None:
            place, self._place = self._place, None
            self.go_to(*place)
        if rows and not is_snapshot and not was_at_bottom:
            self.has_unseen_rows = True
        if rows and spot is not None:
            self.call_after_refresh(self._follow_spot, spot)
        self.post_message(self.Drawn(new_rows))

    async def _add_rows(self, rows: list[Json]) -> None:
        """Insert rows, given oldest first, at their places in the view (nearly always at the end)."""
        insertions: list[tuple[RowWidget | None, list[RowWidget]]] = []
        for row in rows:
            widget = make_widget(row, self._names)
            widget.opened = self.has_opened_all
            place = bisect.bisect_right(self._ordered_rows, widget.born, key=_read_born)
            next_widget = self._ordered_rows[place] if place < len(self._ordered_rows) else None
            if not insertions or insertions[-1][0] is not next_widget:
                insertions.append((next_widget, []))
            insertions[-1][1].append(widget)
        for next_widget, widgets in insertions:
            await self.mount(*widgets, before=next_widget or self._outgoing_list)
            for widget in widgets:
                self._drawn_rows[str(widget.id)] = widget
                bisect.insort_right(self._ordered_rows, widget, key=_read_born)

    async def _update_queue_places(self) -> None:
        """Update the queue place shown on waiting entries."""
        view = self.link.view
        if not self._queue_places and not view.session.get("waiting"):
            return
        self._queue_places = number_waiting(view.entries.values())
        for row in self._ordered_rows:
            place = self._queue_places.get(row.data.get("seq", 0))
            if row.queue_place != place:
                row.queue_place = place
                await row.draw()

    async def _remove_oldest_rows(self) -> None:
        """Bound the rows on the screen (Law 11). They are loaded again when the reader scrolls up to them."""
        surplus = self._ordered_rows[: max(len(self._ordered_rows) - MAX_DRAWN_ROWS, 0)]
        if surplus:
            self._ordered_rows = self._ordered_rows[len(surplus) :]
            for row in surplus:
                del self._drawn_rows[str(row.id)]
            await self.remove_children(surplus)

    async def _remove_row(self, row: RowWidget) -> None:
        del self._drawn_rows[str(row.id)]
        self._ordered_rows.remove(row)
        await row.remove()

    def open_all(self) -> None:
        """Open all tool output and thoughts, or shorten them again."""
        self.has_opened_all = not self.has_opened_all
        self._open_rows()

    @work(exclusive=True, group="details")
    async def _open_rows(self) -> None:
        """Open or shorten the rows, those in sight and their neighbours first. No key waits for all of them."""
        rows, first = list(self._ordered_rows), self._find_first_row()
        place = rows.index(first) if first in rows else 0
        nearest = sorted(range(len(rows)), key=lambda number: abs(number - place))
        items = [row for row in (rows[number] for number in nearest) if isinstance(row, ItemWidget)]
        for start in range(0, len(items), ROWS_PER_FRAME):
            spot = None if self.is_at_bottom else self._find_spot()
            for row in items[start : start + ROWS_PER_FRAME]:
                if row.is_attached and row.opened != self.has_opened_all:
                    await row.open(self.has_opened_all)
            if spot is not None:
                self.call_after_refresh(self._follow_spot, spot)
            await asyncio.sleep(FRAME_INTERVAL_S)

    @work(group="outputs")
    async def on_item_widget_output_needed(self, event: ItemWidget.OutputNeeded) -> None:
        """Load the whole output of a row that shows some of it; the view has its beginning and end, without colours."""
        row = event.row
        if row.can_load_output and (raw := await self.link.load_output(row.data["id"])) and row.is_attached:
            await row.set_output(raw)

    # ------------------------------------------------------------ scrolling

    def _on_scroll(self) -> None:
        if self.is_at_bottom:
            self.has_unseen_rows = False
        self.post_message(self.Scrolled())
        self._draw_older()

    def _draw_older(self) -> None:
        """Draw what is above the reader: the rest of a long message in sight, or older rows for a reader at the top."""
        if self._find_undrawn() is not None:
            self.draw_above()
        elif self.scroll_offset.y <= 0 < self.max_scroll_y:
            self.load_history()

    def _find_undrawn(self) -> AgentWidget | None:
        """Return the long message whose undrawn text the reader is near to; None if there is no such one."""
        if self.is_at_bottom:
            return None
        top, ahead = self.scroll_offset.y, SCREENS_AHEAD * self.size.height
        for row in self._ordered_rows:
            if row.virtual_region.bottom <= top or not isinstance(row, AgentWidget) or row.is_whole:
                continue
            if row.drawn_y > top - ahead and row.virtual_region.y < top + self.size.height + ahead:
                return row
        return None

    @work
    async def draw_above(self) -> None:
        """Draw the undrawn text that the reader is near to, part by part, without moving the reader (Law 8)."""
        if self._is_drawing_above:
            return
        self._is_drawing_above = True
        try:
            while (row := self._find_undrawn()) is not None:
                await self._draw_part_above(row)
                await asyncio.sleep(FRAME_INTERVAL_S)
        finally:
            self._is_drawing_above = False
        self._draw_older()

    async def _draw_part_above(self, row: AgentWidget) -> None:
        drawn_part, y = row.first_part, row.drawn_y
        with self.app.batch_update():
            await row.draw_part_above()
        await self._wait_for_layout(partial(self._follow_part, row, drawn_part, y))

    async def _wait_for_layout(self, act: Callable[[], None] = lambda: None) -> None:
        """Wait until what was drawn has its place on the screen, and call `act` at once then."""
        is_laid_out = asyncio.Event()

        def act_and_tell() -> None:
            act()
            is_laid_out.set()

        self.call_after_refresh(act_and_tell)
        await is_laid_out.wait()

    def _follow_part(self, row: AgentWidget, part: Widget, y: int) -> None:
        """Scroll as far as a part of a message was moved by what was drawn above it, for a reader in that message."""
        moved = row.virtual_region.y + part.virtual_region.y - y
        is_in_it = row.virtual_region.y < self.scroll_offset.y
        if moved and is_in_it and part.is_attached and not self.is_at_bottom:
            self.scroll_to(y=self.scroll_offset.y + moved, animate=False, immediate=True)

    @work
    async def load_history(self) -> None:
        """Add older rows above, without moving the rows that the reader sees (Law 8)."""
        if self._is_fetching:
            return
        self._is_fetching = True
        try:
            older_rows = await self._load_older()
            self.problem = ""
            if not older_rows:
                return  # to keep the place would be to scroll, after which new text is not followed
            height_below = self.virtual_size.height - self.scroll_offset.y
            with self.app.batch_update():
                await self._add_rows(older_rows)
            self.call_after_refresh(self._keep_scroll_place, height_below)
        except (NoGateway, RequestRefused) as error:
            self.problem = str(error)
            self.post_message(self.Scrolled())
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
        return self._take_newest(hidden_rows)

    def _take_newest(self, rows: list[Json]) -> list[Json]:
        """Return the last of these rows: a page of them, or as many as fill some screens (Law 11)."""
        width, height = self.app.size
        lines, count = 0, 0
        while count < min(len(rows), PAGE_ROWS) and lines < SCREENS_DRAWN * height:
            count += 1
            is_entry = "seq" in rows[-count]  # what an item has to say is shortened
            lines += 1 + estimate_lines(str(rows[-count].get("text") or "") if is_entry else "", width)
        return rows[len(rows) - count :]

    def _keep_scroll_place(self, height_below: int) -> None:
        self.scroll_to(y=self.virtual_size.height - height_below, animate=False, immediate=True)

    def begin_at(self, row: str, lines: int) -> None:
        """Have the conversation begin at a row, of which so many lines are above the screen, and not at its end."""
        self._place = row, lines

    @property
    def place(self) -> tuple[str, int] | None:
        """The first row in sight and how many of its lines are above the screen; None for a reader at the end.

        Of a long message, whose beginning may not be drawn, they are counted from its end: a negative number.
        """
        if self._place is not None:
            return self._place  # it was not reached yet
        if self.is_at_bottom:
            return None
        row = self._find_first_row()
        if row is None:
            return None
        is_long = isinstance(row, AgentWidget) and row.is_divided and not row.data.get("live")
        return str(row.id), self.scroll_offset.y - (row.virtual_region.bottom if is_long else row.virtual_region.y)

    def _find_first_row(self) -> RowWidget | None:
        """Return the first row in sight."""
        top = self.scroll_offset.y
        return next((row for row in self._ordered_rows if row.virtual_region.bottom > top), None)

    def _find_spot(self) -> Spot | None:
        row = self._find_first_row()
        return None if row is None else Spot(self.scroll_offset.y, row, row.virtual_region.y, self._ordered_rows[0])

    def _follow_spot(self, spot: Spot) -> None:
        """Scroll as far as the reader's row was moved by rows above it that grew or shrank (Law 8)."""
        is_same_page = self._ordered_rows[:1] == [spot.oldest]  # older rows that are loaded keep the place themselves
        if not is_same_page or not spot.row.is_attached or not (moved := spot.row.virtual_region.y - spot.row_y):
            return
        if self.scroll_offset.y == min(spot.offset, self.max_scroll_y):  # nobody has scrolled since
            self.scroll_to(y=spot.offset + moved, animate=False, immediate=True)
        elif not self.is_at_bottom:
            self.scroll_to(y=self.scroll_offset.y + moved, animate=False, immediate=True)

    @work
    async def go_to(self, row: str, lines: int) -> None:
        """Show a row, of which so many lines are above the screen. If it is too far back, stay."""
        rows_back = 0
        while row not in self._drawn_rows and rows_back < MAX_ROWS_BACK:
            if not (older_rows := await self._load_older_or_none()):
                return
            await self._add_rows(older_rows)
            rows_back += len(older_rows)
        if row in self._drawn_rows:
            await self._scroll_to_row(self._drawn_rows[row], lines)

    async def _scroll_to_row(self, row: RowWidget, lines: int) -> None:
        """Scroll until the place is kept for some frames: rows get their heights only when they are laid out."""
        settled_frames = 0
        for _ in range(MAX_SETTLING_FRAMES):
            self.release_anchor()
            await self._draw_up_to(row, lines)
            y = row.virtual_region.y if lines >= 0 else row.virtual_region.bottom
            self.scroll_to(y=y + lines, animate=False, immediate=True)
            await asyncio.sleep(FRAME_INTERVAL_S)
            settled_frames = settled_frames + 1 if self.place == (row.id, lines) else 0
            if settled_frames == SETTLED_FRAMES:
                return

    async def _draw_up_to(self, row: RowWidget, lines: int) -> None:
        """Draw what of a long message is in sight so many lines below its beginning or, if negative, above its end."""
        while isinstance(row, AgentWidget) and not row.is_whole:
            if lines < 0 and row.virtual_region.height >= self.size.height - lines:
                return
            await row.draw_part_above()
            await self._wait_for_layout()

    async def _load_older_or_none(self) -> list[Json]:
        try:
            return await self._load_older()
        except (NoGateway, RequestRefused):
            return []

    def turn_page(self, direction: int) -> None:
        """Scroll one page up (-1) or down (1). At the top, older rows are loaded."""
        (self.scroll_page_up if direction < 0 else self.scroll_page_down)(animate=False)
        if direction < 0 and self.scroll_offset.y <= 0 and self._find_undrawn() is None:
            self.load_history()


def _read_born(row: RowWidget) -> int:
    return row.born
