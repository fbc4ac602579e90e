"""`semel chat` line by line, for pipes, screen readers and simple terminals.

Each line of input is a message. Rows of the view are printed in order once they are final. At the end of the input,
the program waits for the answers to all of them. If the agent then asks something, nobody can answer here any more: the
program says who can, and fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path

from semel.faces.busy_texts import describe_waiting
from semel.faces.client import NoGateway, OutcomeUnknown, RequestRefused
from semel.faces.client.wait_for_answer import describe_answers, find_answer
from semel.faces.terminal.link import SessionLink, State
from semel.faces.transcript import format_body, format_file, speaker
from semel.law.permission_questions import name_option
from semel.text.json_types import Json
from semel.text.visible import visible
from semel.text.wellformed import shorten_to_line
from semel.tools.address import find_socket

MAX_QUESTION_CHARS = 200  # of a question that nobody answered


class LineChat:
    """Prints each final row once. Reads input on a thread, so that waiting for input does not block the output."""

    def __init__(self, data_dir: Path, session: str, sender: str | None, name_command: Callable[[str], str] = str):
        self.link = SessionLink(data_dir, session, self._take_changes)
        self.sender = sender
        self._name_command = name_command  # writes an advised command as it is typed here
        self._own_keys: set[str] = set()  # of the messages from here, which their writer has in sight
        self._printed: set[tuple[str, int]] = set()
        self._skips_old_rows = True
        self._view_known = asyncio.Event()  # the link has shown the session, or that it is new or away
        self._row_changed = asyncio.Event()
        self._sent: deque[int] = deque()  # event ids of the messages from here whose answer was not waited for
        self._answers_by_label: dict[
            str, tuple[int, str]
        ] = {}  # printed label -> (item, option); never reused (Law 13)
        self._answered: set[int] = set()  # items of the questions that were answered here
        self.failed = False

    def _take_changes(self, rows: list[Json], state: State) -> None:
        if state == "away":
            self._print_notice("the gateway is away; trying again")
        if state == "new":
            self._skips_old_rows = False  # nothing was there before
        for row in sorted(rows, key=lambda row: int(row["born"])):
            row_id = ("seq", row["seq"]) if "seq" in row else ("id", row["id"])
            is_open = row.get("state") == "open"
            if row_id in self._printed or row.get("gone") or (row.get("live") and not is_open):
                continue
            if (self._skips_old_rows and not is_open) or self._print_row(row):
                self._printed.add(row_id)
        self._skips_old_rows = self._skips_old_rows and state != "connected"
        self._view_known.set()
        self._row_changed.set()

    def _print_row(self, row: Json) -> bool:
        """Print a row if it has something to show yet. Returns False if it must be looked at again when it changes."""
        if "seq" in row:
            if row["role"] == "user" and row.get("key") in self._own_keys:
                return True
            text = f"{speaker(row)}: {format_body(row)}"
            sys.stdout.write((visible(text) if sys.stdout.isatty() else text) + "\n")
            sys.stdout.flush()
        elif row["kind"] == "tool" and row.get("status") in ("done", "failed", "cancelled", "no result"):
            self._print_notice(f"tool {row.get('title', '')}: {row['status']}")
            for file in row.get("files", []):
                self._print_notice(format_file(file).strip("[]"))
        elif row["kind"] in ("permission", "ask") and row.get("state") == "open":
            self._answers_by_label |= {label: (row["id"], option["optionId"]) for label, option in label_options(row)}
            names = ", ".join(f"/{label} {name_option(option)}" for label, option in label_options(row))
            self._print_notice(f"the agent asks: {row.get('title') or row['text']}  ({names})")
        else:
            return False
        return True

    def _print_notice(self, text: str) -> None:
        sys.stderr.write(f"[{visible(text)}]\n")
        sys.stderr.flush()

    async def run(self) -> int:
        link_task = asyncio.create_task(self.link.run())
        input_lines = read_lines()
        try:
            await self._wait_until_set(self._view_known, link_task)  # so that no answer is skipped as an old row
            while (line := await self._next_line(input_lines, link_task)) is not None:
                if line.strip():
                    await self._handle_line(line.rstrip("\n"))
            await self._wait_for_answer(link_task)
        finally:
            link_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await link_task
        return 1 if self.failed else 0

    async def _next_line(self, input_lines: asyncio.Queue[str | None], link_task: asyncio.Task[None]) -> str | None:
        next_line = asyncio.create_task(input_lines.get())
        await asyncio.wait({next_line, link_task}, return_when=asyncio.FIRST_COMPLETED)
        if link_task.done():
            next_line.cancel()
            link_task.result()
        return await next_line

    async def _handle_line(self, line: str) -> None:
        """Send a line as a message or gateway command, or, if it is the label of a printed option, as an answer."""
        try:
            item, option = self._answers_by_label.get(line.rstrip()[1:], (None, "")) if line[:1] == "/" else (None, "")
            if item is not None:
                self._answered.add(item)
                if await self.link.answer(item, option, self.sender) != "answered":
                    self._print_notice("that request is gone: it was answered already, or withdrawn")
            else:
                key = uuid.uuid4().hex
                self._own_keys.add(key)
                accepted = await self.link.say(line, self.sender, id=key)
                self._sent.append(accepted.event)
                if accepted.note:
                    self._print_notice(accepted.note)
                if waiting := describe_waiting(accepted):
                    self._print_notice(waiting)
        except (NoGateway, RequestRefused, OutcomeUnknown) as error:
            self._print_notice(str(error) if isinstance(error, OutcomeUnknown) else f"not sent: {error}")
            self.failed = True

    async def _wait_for_answer(self, link_task: asyncio.Task[None]) -> None:
        """Wait until the turns of all messages sent from here are over, or wait for an answer, or the link ends."""
        while not link_task.done():
            while self._sent and find_answer(self.link.view, self._sent[0]) is not None:
                self._sent.popleft()
            if not self._sent:
                return
            if questions := self._list_unanswerable():
                self._explain_unanswered(questions)
                return
            self._row_changed.clear()
            await self._wait_until_set(self._row_changed, link_task)

    def _list_unanswerable(self) -> list[Json]:
        """Return the open questions, once the view has all messages from here, one of which may be the answer."""
        view = self.link.view
        shown = {entry.get("event") for entry in view.entries.values()}
        if not shown.issuperset(self._sent):
            return []
        return [question for question in view.open_questions() if question["id"] not in self._answered]

    def _explain_unanswered(self, questions: list[Json]) -> None:
        for question in questions:
            about = question.get("title") or shorten_to_line(str(question["text"]), MAX_QUESTION_CHARS)
            how = self._name_command(describe_answers(question, self.link.session))
            self._print_notice(
                f"the input has ended, and the agent waits for an answer: {about} (answer it with: {how})"
            )
        self.failed = True

    async def _wait_until_set(self, event: asyncio.Event, link_task: asyncio.Task[None]) -> None:
        """Wait until the event is set, or the link ends."""
        waiting = asyncio.create_task(event.wait())
        await asyncio.wait({waiting, link_task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()


def label_options(question: Json) -> list[tuple[str, Json]]:
    """Return (label, option) pairs. The label is the option's number on all faces (Law 13); ITEM-N if it has none."""
    options = question.get("options", [])
    if "first" in question:
        return [(str(n), option) for n, option in enumerate(options, question["first"])]
    return [(f"{question['id']}-{n}", option) for n, option in enumerate(options, 1)]


def read_lines() -> asyncio.Queue[str | None]:
    """Return a queue of the lines from stdin, with `None` at the end. A daemon thread reads them."""
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop closed meanwhile
            for line in sys.stdin:
                loop.call_soon_threadsafe(queue.put_nowait, line)
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return queue


def run_lines(data_dir: Path, session: str, sender: str | None, name_command: Callable[[str], str]) -> int:
    """Run the line-by-line chat. Returns an exit code; raises NoGateway if none runs at the start."""
    find_socket(data_dir)
    return asyncio.run(LineChat(data_dir, session, sender, name_command).run())
