"""`semel chat` line by line, for pipes, screen readers and simple terminals.

Each line of input is a message. Rows of the view are printed in order once they are final. At the end of the input,
the program waits for the running turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from pathlib import Path
from typing import Any

from semel.faces.busy import told
from semel.faces.client import Address, NoGateway, OutcomeUnknown, RequestRefused
from semel.faces.terminal.link import SessionLink, State
from semel.faces.transcript import body, file_line, speaker
from semel.law.permission_questions import called
from semel.text.visible import visible

Json = dict[str, Any]


class Lines:
    """Prints each final row once. Reads input on a thread, so that waiting for input does not block the output."""

    def __init__(self, data_dir: Path, session: str, sender: str):
        self.link = SessionLink(data_dir, session, self._changed)
        self.sender = sender
        self._printed: set[tuple[str, int]] = set()
        self._start = True
        self._moved = asyncio.Event()
        self._sent = 0  # event id of the last message sent from here
        self._options: dict[str, tuple[int, str]] = {}  # printed label -> (item, option); never reused (Law 13)
        self.failed = False

    def _changed(self, rows: list[Json], state: State) -> None:
        if state == "away":
            self._tell("the gateway is away; trying again")
        if state == "new":
            self._start = False  # nothing was there before
        for row in sorted(rows, key=lambda row: int(row["born"])):
            name = ("seq", row["seq"]) if "seq" in row else ("id", row["id"])
            is_open = row.get("state") == "open"
            if name in self._printed or row.get("gone") or (row.get("live") and not is_open):
                continue
            if (self._start and not is_open) or self._print(row):
                self._printed.add(name)
        self._start = self._start and state != "connected"
        self._moved.set()

    def _print(self, row: Json) -> bool:
        """Print a row, if it is of a kind that gets a line. False if it was not printed, and may be later."""
        if "seq" in row:
            if row["role"] == "user" and row.get("sender") == self.sender:
                return True
            text = f"{speaker(row)}: {body(row)}"
            sys.stdout.write((visible(text) if sys.stdout.isatty() else text) + "\n")
            sys.stdout.flush()
        elif row["kind"] == "tool" and row.get("status") in ("done", "failed", "cancelled", "no result"):
            self._tell(f"tool {row.get('title', '')}: {row['status']}")
            for file in row.get("files", []):
                self._tell(file_line(file).strip("[]"))
        elif row["kind"] in ("permission", "ask") and row.get("state") == "open":
            self._options |= {label: (row["id"], option["optionId"]) for label, option in label_options(row)}
            names = ", ".join(f"/{label} {called(option)}" for label, option in label_options(row))
            self._tell(f"the agent asks: {row.get('title') or row['text']}  ({names})")
        else:
            return False
        return True

    def _tell(self, text: str) -> None:
        sys.stderr.write(f"[{visible(text)}]\n")
        sys.stderr.flush()

    async def run(self) -> int:
        following = asyncio.create_task(self.link.run())
        lines = read_lines()
        try:
            while (line := await self._next(lines, following)) is not None:
                if line.strip():
                    await self._take(line.rstrip("\n"))
            await self._quiet(following)
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
        return 1 if self.failed else 0

    async def _next(self, lines: asyncio.Queue[str | None], following: asyncio.Task[None]) -> str | None:
        got = asyncio.create_task(lines.get())
        await asyncio.wait({got, following}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            got.cancel()
            following.result()
        return await got

    async def _take(self, line: str) -> None:
        """Send a line as a message or gateway command, or, if it is the label of a printed option, as an answer."""
        try:
            item, option = self._options.get(line.rstrip()[1:], (None, "")) if line[:1] == "/" else (None, "")
            if item is not None:
                if await self.link.answer(item, option, self.sender) != "answered":
                    self._tell("that request is gone: it was answered already, or withdrawn")
            else:
                heard = await self.link.say(line, self.sender)
                self._sent = int(heard["event"])
                if what := told(heard):
                    self._tell(what)
        except (NoGateway, RequestRefused, OutcomeUnknown) as error:
            self._tell(str(error) if isinstance(error, OutcomeUnknown) else f"not sent: {error}")
            self.failed = True

    async def _quiet(self, following: asyncio.Task[None]) -> None:
        """Wait until the turn of the last message is over, or the link ends."""
        while not following.done() and not self._over():
            self._moved.clear()
            moved = asyncio.create_task(self._moved.wait())
            await asyncio.wait({moved, following}, return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()

    def _over(self) -> bool:
        view = self.link.view
        heard = next((entry for entry in view.entries.values() if entry.get("event") == self._sent), None)
        if heard is not None and heard.get("kind") == "command" and heard["role"] == "user":
            return any(e.get("kind") == "command" and e.get("of") == heard["seq"] for e in view.entries.values())
        return not self._sent or (heard is not None and not view.busy)


def label_options(question: Json) -> list[tuple[str, Json]]:
    """(label, option) pairs. The label is the number that all faces show (Law 13), else ITEM-N."""
    options = question.get("options", [])
    if "first" in question:
        return [(str(n), option) for n, option in enumerate(options, question["first"])]
    return [(f"{question['id']}-{n}", option) for n, option in enumerate(options, 1)]


def read_lines() -> asyncio.Queue[str | None]:
    """A queue of lines from stdin, then `None` at its end. The reading thread is a daemon."""
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop closed meanwhile
            for line in sys.stdin:
                loop.call_soon_threadsafe(queue.put_nowait, line)
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return queue


def run_lines(data_dir: Path, session: str, sender: str) -> int:
    """Run the line-by-line chat. Returns an exit code; raises NoGateway if none runs at the start."""
    Address.of(data_dir)
    return asyncio.run(Lines(data_dir, session, sender).run())
