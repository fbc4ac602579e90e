"""The other end of the gateway's socket (the format: semel.gateway.tools.rpc).

`Link` is for a process that lives on: it never blocks, and it asks again after a lost connection. A request
keeps its line, and so its call id, through every repeat: the gateway answers a repeat with the first outcome.
`ask_once` is one question and its answer, for a process that asks and ends.
"""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from semel.tools.lines import LIMIT, Lines, TooLong

Json = dict[str, Any]

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
"""Seconds between two attempts to connect: doubling from the first to the longest."""

CHUNK = 1 << 16
STOPPING = "stopping"
"""The one error code that means: ask again, the gateway did not take it."""


class Refused(Exception):
    """The gateway answered with an error. `code` is one word of its own."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


class Lost(Exception):
    """No answer in time. `handed`: the gateway may have got the request, so what it asked may have
    happened."""

    def __init__(self, why: str, *, handed: bool):
        super().__init__(why)
        self.handed = handed


Outcome = Json | Refused | Lost
Done = Callable[[Outcome], None]


class _Request:
    """One question until its answer. `line` never changes: a repeat is the same bytes."""

    __slots__ = ("deadline", "done", "handed", "line")

    def __init__(self, line: bytes, deadline: float, done: Done):
        self.line = line
        self.deadline = deadline
        self.done = done
        self.handed = False


class Link:
    """Requests to the gateway over one connection, which is made when there is something to ask.

    The owner polls `socket` for reading (and for writing while `wants_write`), calls `ready` when it is, and
    `tick` at least every `wait()` seconds. `done` of each request is called once, from `ready` or `tick`.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic):
        self.socket: socket.socket | None = None
        self._path = path
        self._clock = clock
        self._asked: dict[int, _Request] = {}
        self._number = 0
        self._out: deque[tuple[memoryview, _Request]] = deque()
        self._lines = Lines()
        self._pause = FIRST_PAUSE
        self._again = 0.0  # no connection is tried before this
        self._why = "there is no connection"

    def __repr__(self) -> str:
        state = "connected" if self.socket else "apart"
        return f"<Link {state} open={len(self._asked)} unwritten={len(self._out)}>"

    @property
    def open(self) -> int:
        """How many requests wait for their answer."""
        return len(self._asked)

    @property
    def wants_write(self) -> bool:
        return bool(self._out)

    def ask(self, method: str, params: Json, patience: float, done: Done) -> int:
        """Ask, in order after what was asked before; the answer, or a Lost after `patience` seconds, goes to
        `done`. Returns a number for `forget`. Raises Refused if it is too long to be asked at all."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        line = json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        if len(line) > LIMIT:
            raise Refused("too_long", f"it takes {len(line)} bytes and the limit is {LIMIT}")
        asked = _Request(line, self._clock() + patience, done)
        self._asked[self._number] = asked
        if self.socket is not None:
            self._out.append((memoryview(line), asked))
            self._write()
        else:
            self._connect()
        return self._number

    def forget(self, number: int) -> None:
        """The answer is no longer wanted: what is not written yet is not written, nothing is asked again."""
        asked = self._asked.pop(number, None)
        if asked is not None and self._out:
            # A line of which a part is out must go out whole, or the next one would be glued to it.
            self._out = deque(o for o in self._out if o[1] is not asked or len(o[0]) < len(asked.line))

    def wait(self) -> float | None:
        """Seconds until `tick` has something to do; None: never."""
        if not self._asked:
            return None
        due = min(asked.deadline for asked in self._asked.values())
        if self.socket is None:
            due = min(due, self._again)
        return max(0.0, due - self._clock())

    def tick(self) -> None:
        now = self._clock()
        for number, asked in [(n, a) for n, a in self._asked.items() if a.deadline <= now]:
            self.forget(number)
            asked.done(Lost(self._why, handed=asked.handed))
        if self.socket is None and self._asked:
            self._connect()

    def ready(self) -> None:
        """The socket can be read or written."""
        self._write()
        self._read()

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def _connect(self) -> None:
        if self._clock() < self._again:
            return
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | getattr(socket, "SOCK_CLOEXEC", 0))
        link.setblocking(False)
        try:
            link.connect(self._path)
        except OSError as error:
            link.close()
            self._rest(f"the gateway cannot be reached ({error.strerror or error})")
            return
        self.socket = link
        self._lines = Lines()
        self._why = "the gateway has not answered"
        # In the order they were asked, as if the connection had never been lost.
        self._out = deque((memoryview(asked.line), asked) for asked in self._asked.values())
        self._write()

    def _rest(self, why: str) -> None:
        self.close()
        self._out.clear()
        self._why = why
        self._again = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _write(self) -> None:
        while self.socket is not None and self._out:
            view, asked = self._out[0]
            try:
                sent = self.socket.send(view)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._rest(f"the connection to the gateway broke ({error.strerror})")
                return
            if sent < len(view):
                self._out[0] = (view[sent:], asked)
            else:
                asked.handed = True  # only a whole line can have been understood
                self._out.popleft()

    def _read(self) -> None:
        while self.socket is not None:
            try:
                data = self.socket.recv(CHUNK)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            if not data:
                self._rest("the gateway closed the connection before it answered")
                return
            for line in self._lines.feed(data):
                if not self._answered(line):
                    self._rest("the gateway sent a line that is no answer")
                    return

    def _answered(self, line: bytes | TooLong) -> bool:
        """False: this is not the format; nothing after it can be trusted."""
        if isinstance(line, TooLong):
            return False
        try:
            answer = json.loads(line)
            number = answer["id"]
            outcome = _outcome(answer)
        except (ValueError, TypeError, KeyError):
            return False
        if isinstance(outcome, Refused) and outcome.code == STOPPING:
            return True  # it stays open, and is asked again when this connection has ended
        self._pause = FIRST_PAUSE
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked.done(outcome)
        return True


def ask_once(path: str, method: str, params: Json, timeout: float = 10.0) -> Json:
    """One question over a connection of its own; blocks. Raises Refused, or Lost (without asking again)."""
    outcome: list[Outcome] = []
    line = json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\n"
    handed = False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(timeout)
        try:
            link.connect(path)
            link.sendall(line)
            handed = True
            with link.makefile("rb") as answers:
                outcome.append(_outcome(json.loads(answers.readline(LIMIT))))
        except (OSError, ValueError, KeyError) as error:
            raise Lost(f"the gateway did not answer at {path} ({error})", handed=handed) from error
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _outcome(answer: Json) -> Json | Refused:
    if "error" in answer:
        return Refused(str(answer["error"]["code"]), str(answer["error"]["message"]))
    result: Json = answer["result"]
    return result
