"""One session on the screen: its conversation, its open question, its status line and its prompt.

Each open session keeps its pane, so going to another session and back moves neither the reader's place nor a draft.
A message that is sent is shown where it is until the view contains it (outgoing.py).
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import ClassVar

import msgspec
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import OptionList, Static

from semel.faces.busy_texts import MODE_DESCRIPTIONS, describe_waiting
from semel.faces.client import NoGateway, RequestRefused
from semel.faces.terminal.attachment_line import AttachmentLine
from semel.faces.terminal.attachments import Attachment, CannotAttach, attach_file, read_attach
from semel.faces.terminal.completion import complete, list_commands, write_blocks
from semel.faces.terminal.completion_menu import CompletionMenu
from semel.faces.terminal.conversation import ConversationView
from semel.faces.terminal.kept_files import Bookmark
from semel.faces.terminal.link import SessionLink
from semel.faces.terminal.outgoing import OutgoingMessage
from semel.faces.terminal.outgoing_list import OutgoingRow
from semel.faces.terminal.prompt import Prompt
from semel.faces.terminal.question import Question
from semel.faces.terminal.seen_report import SeenReport
from semel.faces.terminal.status_line import describe_quiet_turn, format_activity, format_session_line
from semel.faces.terminal.workspace_files import list_files
from semel.law.commands import AgentMessage, read_command
from semel.law.wake import MODES, Busy
from semel.text.json_types import Json

KEEP_DELAY_S = 0.5
SEEN_INTERVAL_S = 1.0  # seconds between two reports of what was seen, which a fast stream does not multiply


class SessionPane(Vertical):
    """Shows a session, and sends what its person says, stops and answers."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send"),  # the footer shows the keys in this order
        Binding("escape", "close", "close"),  # what is open; if nothing is, the key stops the turn
        Binding("escape", "stop", "stop"),
        Binding("tab", "question", "answer", priority=True),  # the next key is the panel's already
        Binding("ctrl+end", "bottom", "newest", priority=True),
        Binding("ctrl+t", "mode", "how", priority=True),
        Binding("ctrl+k", "app.switch", "sessions", priority=True),
        Binding("ctrl+o", "open_all", "details", priority=True),
        Binding("ctrl+d", "app.leave", "leave", priority=True),
        Binding("pageup", "page(-1)", "older", priority=True, show=False),
        Binding("pagedown", "page(1)", "newer", priority=True, show=False),
    ]

    class Changed(Message):
        """What is known of the session, or of the connection to it, has changed."""

    def __init__(self, data_dir: Path, session: str, sender: str | None):
        super().__init__(classes="pane")
        self.conversation = ConversationView(data_dir, session, sender)
        self.sender = sender
        self.focused: Widget | None = None  # what had the focus when another session was shown
        self.has_news = False  # something was said since then
        self._seen_report = SeenReport(self.conversation.link)
        self._workspace: Path | None = None
        self._attached: list[Attachment] = []  # files that go with the message being written
        self._files: list[str] = []  # of the workspace, listed when "@" is typed
        self._keep_timer: Timer | None = None  # a text or place that changes is kept once it rests
        self._kept_place: tuple[str, int] | None = None
        self._note_text = ""
        self._live_keys: tuple[bool, ...] = ()  # which of the keys that come and go are live
        self._busy_mode: Busy | None = None  # for the message being written
        self._activity = (False, False)  # whether the agent asked something, and whether a turn ran

    def compose(self) -> ComposeResult:
        yield Static(id="top")
        yield self.conversation
        yield Question()
        yield Static(id="note")
        yield Static(id="status")
        yield CompletionMenu()
        yield AttachmentLine()
        yield Prompt()

    def on_mount(self) -> None:
        self.prompt.menu = self.menu
        self._return_to_bookmark()
        self.draw_status_lines()
        self.set_interval(1, self._redraw_countdown)
        self.set_interval(SEEN_INTERVAL_S, self.report_seen)

    def _return_to_bookmark(self) -> None:
        bookmark = self.conversation.kept_files.load_bookmark()
        self.prompt.restore(bookmark.draft)
        if bookmark.row is not None:
            self.conversation.begin_at(bookmark.row, bookmark.lines)
        self._set_attached(bookmark.files)

    def keep_bookmark(self) -> None:
        """Keep the draft, and where the person reads, for the next time that the session is opened."""
        self._kept_place = self.conversation.place
        row, lines = self._kept_place or (None, 0)
        self.conversation.kept_files.keep_bookmark(Bookmark(self.prompt.text, row, lines, self._attached))

    def _keep_soon(self) -> None:
        if self._keep_timer is not None:
            self._keep_timer.stop()
        self._keep_timer = self.set_timer(KEEP_DELAY_S, self.keep_bookmark)

    @property
    def link(self) -> SessionLink:
        return self.conversation.link

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    @property
    def menu(self) -> CompletionMenu:
        return self.query_one(CompletionMenu)

    @property
    def needs_person(self) -> bool:
        """Whether the agent asks for a permission or an answer."""
        return bool(self.link.view.open_questions())

    @property
    def has_draft(self) -> bool:
        """Whether something would be lost with the pane: a text or files, or a message that was not sent."""
        return bool(self.prompt.text or self._attached or self.conversation.outgoing.unsent)

    @property
    def is_running(self) -> bool:
        """Whether a turn runs, or is to be tried again: it can be stopped."""
        return self.link.view.session.get("state") == "running"

    @property
    def is_open(self) -> bool:
        """Whether something is open that Esc closes: the choice of a busy mode, or the details of all rows."""
        return self._busy_mode is not None or self.conversation.has_opened_all

    # ------------------------------------------------------------ the lines around the conversation

    def on_conversation_view_drawn(self, event: ConversationView.Drawn) -> None:
        self.has_news = not self.display and (self.has_news or bool(event.rows))
        for row in event.rows:
            if row.get("role") == "user" and row.get("sender") == self.sender and not row.get("mentions"):
                self.prompt.remember(row["text"])
        self.query_one(Question).show(self.link.view.open_questions())
        self._call_person(event.rows)
        self.call_after_refresh(self.draw_status_lines)

    def _call_person(self, new_rows: list[Json]) -> None:
        """Ring the bell if the agent asks something now, or a turn has ended, while another window has the focus."""
        asked, ran = self._activity
        self._activity = self.needs_person, self.is_running
        was_short = any(row.get("role") == "agent" for row in new_rows)  # it began and ended between two redraws
        has_ended = (ran or was_short) and not self.is_running
        if not self.app.app_focus and (has_ended or (self.needs_person and not asked)):
            self.app.bell()

    def on_conversation_view_scrolled(self) -> None:
        if self.conversation.problem:
            self._note_text = self.conversation.problem
        if self.conversation.place != self._kept_place:
            self._keep_soon()
        self.draw_status_lines()

    def on_resize(self) -> None:
        self.draw_status_lines()

    def draw_status_lines(self) -> None:
        link, conversation = self.link, self.conversation
        top = format_session_line(link.session, link.view.session, conversation.usage, link.state, self.app.size.width)
        self.query_one("#top", Static).update(top)
        status = format_activity(link.view, link.state, time.monotonic() - conversation.changed_at)
        if conversation.has_unseen_rows and not conversation.is_at_bottom:
            status.append("   ↓ new below (ctrl+end)", "bold cyan")
        self.query_one("#status", Static).update(Text(" ").append_text(status))
        note = self.query_one("#note", Static)
        note.display = bool(self._note_text)
        note.update(Text(f" {self._note_text}", "yellow"))
        self._refresh_keys()
        self.post_message(self.Changed())

    def _refresh_keys(self) -> None:
        """Have the footer drawn again if other keys are live now."""
        live_keys = (
            self.is_running, self.is_open, self.conversation.is_at_bottom, self.query_one(Question).display,
            bool(self.prompt.text),
        )  # fmt: skip
        if live_keys != self._live_keys:
            self._live_keys = live_keys
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for an action that has nothing to do now; the footer does not show its key."""
        live = {
            "send": self.prompt.has_focus,
            "close": self.is_open and self.prompt.has_focus,
            "stop": self.is_running and not self.is_open and self.prompt.has_focus,
            "question": self.query_one(Question).display and self.prompt.has_focus and not self.menu.is_open,
            "bottom": not self.conversation.is_at_bottom,
            "mode": self.is_running,
        }
        return live.get(action, True)

    def _redraw_countdown(self) -> None:
        view = self.link.view
        quiet_s = time.monotonic() - self.conversation.changed_at
        if "retry_at" in view.session or (self.is_running and describe_quiet_turn(view, quiet_s)):
            self.draw_status_lines()

    def report_seen(self) -> None:
        """Tell the gateway that the person has seen what is shown, if they look at its end."""
        conversation = self.conversation
        is_looked_at = self.display and self.app.app_focus and conversation.is_at_bottom and conversation.is_drawn
        if is_looked_at and self._seen_report.is_due:
            self.run_worker(self._seen_report.send(), group="seen")

    def show_note(self, text: str) -> None:
        """Show a note above the status line until the next message is sent."""
        self._note_text = text
        self.draw_status_lines()

    def action_send(self) -> None:
        self.prompt.send()

    def action_question(self) -> None:
        self.query_one(Question).focus_options()

    def action_page(self, direction: int) -> None:
        if not self.query_one(Question).turn_page(direction):
            self.conversation.turn_page(direction)

    def action_bottom(self) -> None:
        self.conversation.anchor()

    def action_open_all(self) -> None:
        self.conversation.open_all()
        self._refresh_keys()

    def action_close(self) -> None:
        """Esc: take back the choice of a busy mode; if there is none, shorten the details again."""
        if self._busy_mode is not None:
            self._set_busy_mode(None)
        elif self.conversation.has_opened_all:
            self.action_open_all()

    # ------------------------------------------------------------ completing

    def on_text_area_changed(self) -> None:
        self._keep_soon()
        self.complete()
        self._refresh_keys()

    def on_text_area_selection_changed(self) -> None:
        self.complete()

    def complete(self) -> None:
        """Show what completes the word at the cursor."""
        row, column = self.prompt.cursor_location
        line = self.prompt.document.get_line(row)
        if "@" in line and self._workspace is None:
            self.load_files()
        commands = list_commands(self.link.view.session) if line.startswith("/") else ()
        self.menu.show(complete(line, row, column, commands, self._files))

    @work(exclusive=True, group="files")
    async def load_files(self) -> None:
        """List the files of the agent's workspace, once for each message in which one is mentioned."""
        self._workspace = await self.link.find_workspace()
        if self._workspace is not None:
            self._files = await asyncio.to_thread(list_files, self._workspace)
            self.complete()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        menu = self.menu
        if event.option_list is menu and menu.completion is not None:
            self.prompt.complete(menu.completion, menu.completion.candidates[event.option_index])

    # ------------------------------------------------------------ from the person to the gateway

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        """Send the message, unless it is a key of the open question and its writer probably meant to answer."""
        text = event.text
        if (path := read_attach(text)) is not None:
            self._attach_path(path, text)
            return
        if self.query_one(Question).holds_back(text):
            self.prompt.remember(text)
            self.show_note(f"not sent: press Tab, then {text.strip()}, to answer; or send it again as a message")
            return
        self.say(text)

    def _attach_path(self, path: str, text: str) -> None:
        """Attach the file that the text names. If that fails, the text is put back."""
        try:
            if not path:
                raise CannotAttach("write the path of a file behind /attach")
            self._set_attached([*self._attached, attach_file(path, self._attached)])
            self.show_note("")
        except CannotAttach as error:
            self.show_note(f"not attached: {error}")
            self.prompt.restore(text)

    def _set_attached(self, files: list[Attachment]) -> list[Attachment]:
        """Have these files go with the message being written, and return those that went with it before."""
        previous, self._attached = self._attached, files
        self.prompt.has_files = bool(files)
        self.query_one(AttachmentLine).show(files)
        self.keep_bookmark()
        return previous

    def on_prompt_erased_before(self) -> None:
        self._set_attached(self._attached[:-1])

    def on_attachment_line_clicked(self, event: AttachmentLine.Clicked) -> None:
        self._set_attached([file for number, file in enumerate(self._attached) if number != event.number])

    def say(self, text: str) -> None:
        """Have a message sent. It is shown at once, with where it is, until its entry is in the view."""
        link, outgoing = self.link, self.conversation.outgoing
        self.show_note("")
        self.prompt.remember(text)
        self.conversation.anchor()
        refused = [one for one in outgoing.messages if one.state == "refused" and one.text == text and not one.files]
        for message in refused:
            outgoing.remove(message)
        message = OutgoingMessage(text=text, sender=self.sender, busy=self._set_busy_mode(None), seen=link.view.rev)
        if self._attached and isinstance(read_command(text), AgentMessage):  # a command takes no files
            message.files = self._set_attached([])
        if self._workspace is not None and not message.files:  # blocks and files do not go together
            message.blocks = write_blocks(text, self._workspace, set(self._files))
        self._workspace, self._files = None, []
        message.state = "waiting" if link.state == "away" else "sending"
        outgoing.add(message)
        self.keep_bookmark()  # the text is no draft any more

    def on_conversation_view_message_answered(self, event: ConversationView.MessageAnswered) -> None:
        """Say what became of a message. A refused one is put back into the prompt, or stays in sight."""
        if event.accepted is not None:
            self.show_note(describe_waiting(event.accepted) if event.accepted.why else event.accepted.note or "")
            return
        self.show_note(event.message.state_text)
        self._take_back(event.message)

    def on_outgoing_row_clicked(self, event: OutgoingRow.Clicked) -> None:
        if event.message.state == "refused":
            self._take_back(event.message)

    def _take_back(self, message: OutgoingMessage) -> None:
        """Put a refused message back into the prompt, unless another one is being written there."""
        if self.prompt.restore(message.text):
            self._set_busy_mode(message.busy)
            self._set_attached([*(msgspec.structs.replace(file, id=None) for file in message.files), *self._attached])
            self.conversation.outgoing.remove(message)

    def action_mode(self) -> None:
        """ctrl+t: switch the busy mode of the message being written; it applies to that message only."""
        modes = (None, *MODES)
        self._set_busy_mode(modes[(modes.index(self._busy_mode) + 1) % len(modes)])

    def _set_busy_mode(self, mode: Busy | None) -> Busy | None:
        """Set the busy mode of the next message, and return the previous one."""
        previous, self._busy_mode = self._busy_mode, mode
        self.prompt.border_title = f"{mode} · {MODE_DESCRIPTIONS[mode]}" if mode else ""
        self._refresh_keys()
        return previous

    @work
    async def action_stop(self) -> None:
        try:
            await self.link.stop(self.sender)
        except (NoGateway, RequestRefused) as error:
            self.show_note(str(error))

    @work
    async def on_question_answered(self, event: Question.Answered) -> None:
        try:
            outcome = await self.link.answer(event.item, event.option, self.sender)
        except (NoGateway, RequestRefused) as error:
            self.show_note(f"not answered: {error}")
            return
        problems = {"answered": "", "already": "somebody answered before you"}
        self.show_note(problems.get(outcome, "it is not open any more"))
