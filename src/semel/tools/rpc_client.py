"""Client of the gateway's unix socket; `semel.gateway.tools.rpc` is the server and describes the format.

There are two clients. The link, for a long-running process, never blocks and repeats open requests after a lost
connection; a repeat is the same bytes with the same call id, so the gateway answers it with the first outcome.
`ask_once` sends one request and blocks, for a process that asks and exits.
"""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from semel.tools.lines import LIMIT, Lines, OverlongLine

Json = dict[str, Any]

MIN_RECONNECT_DELAY_S = 0.05
MAX_RECONNECT_DELAY_S = 1.0
"""Seconds between two attempts to connect: the pause doubles from the shortest to the longest."""

CHUNK_BYTES = 1 << 16
STOPPING_CODE = "stopping"
"""The only error code after which a request is repeated: a gateway that stops did not accept it."""


class GatewayRefused(Exception):
    """The gateway answered with an error. `code` is one of its error codes, a single word."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


class NoGatewayAnswer(Exception):
    """No answer in time. `handed`: the request was sent completely, so the gateway may have carried it out; the
    outcome is unknown. Otherwise it certainly was not."""

    def __init__(self, why: str, *, handed: bool):
        super().__init__(why)
        self.handed = handed


Outcome = Json | GatewayRefused | NoGatewayAnswer
Done = Callable[[Outcome], None]


class _Request:
    """One open request. `line` never changes, so a repeat is the same bytes."""

    __slots__ = ("deadline", "done", "handed", "line")

    def __init__(self, line: bytes, deadline: float, done: Done):
        self.line = line
        self.deadline = deadline
        self.done = done
        self.handed = False


class GatewayLink:
    """Non-blocking requests to the gateway over one connection, which is opened when there is a request.

    The owner polls `socket` for reading (and for writing while `wants_write`), calls `ready` when it is ready, and
    `tick` after at most `wait()` seconds. Each request's `done` is called once, from `ready` or `tick`.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic):
        self.socket: socket.socket | None = None
        self._path = path
        self._clock = clock
        self._asked: dict[int, _Request] = {}
        self._number = 0
        self._out: deque[tuple[memoryview, _Request]] = deque()
        self._lines = Lines()
        self._pause = MIN_RECONNECT_DELAY_S
        self._again = 0.0  # earliest time of the next attempt to connect
        self._why = "there is no connection"

    def __repr__(self) -> str:
        state = "connected" if self.socket else "apart"
        return f"<Link {state} open={len(self._asked)} unwritten={len(self._out)}>"

    @property
    def open(self) -> int:
        """The number of unanswered requests."""
        return len(self._asked)

    @property
    def wants_write(self) -> bool:
        return bool(self._out)

    def ask(self, method: str, params: Json, patience: float, done: Done) -> int:
        """Send a request after all earlier ones. `done` gets its outcome, after `patience` seconds at the latest.

        Returns a number for `forget`. Raises the refusal "too_long" if the request exceeds the line limit.
        """
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        line = json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        if len(line) > LIMIT:
            raise GatewayRefused("too_long", f"it takes {len(line)} bytes and the limit is {LIMIT}")
        asked = _Request(line, self._clock() + patience, done)
        self._asked[self._number] = asked
        if self.socket is not None:
            self._out.append((memoryview(line), asked))
            self._write()
        else:
            self._connect()
        return self._number

    def forget(self, number: int) -> None:
        """Drop a request: it is not sent if it is still unsent, and not repeated; `done` is not called."""
        asked = self._asked.pop(number, None)
        if asked is not None and self._out:
            # A partly sent line must be sent completely, or the next line would be appended to it.
            self._out = deque(o for o in self._out if o[1] is not asked or len(o[0]) < len(asked.line))

    def wait(self) -> float | None:
        """Seconds until `tick` has something to do; `None` if no request is open."""
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
            asked.done(NoGatewayAnswer(self._why, handed=asked.handed))
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
        # Repeat all open requests in their order.
        self._out = deque((memoryview(asked.line), asked) for asked in self._asked.values())
        self._write()

    def _rest(self, why: str) -> None:
        self.close()
        self._out.clear()
        self._why = why
        self._again = self._clock() + self._pause
        self._pause = min(2 * self._pause, MAX_RECONNECT_DELAY_S)

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
                asked.handed = True  # the gateway ignores an incomplete line
                self._out.popleft()

    def _read(self) -> None:
        while self.socket is not None:
            try:
                data = self.socket.recv(CHUNK_BYTES)
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

    def _answered(self, line: bytes | OverlongLine) -> bool:
        """Handle one line; False if it is not a valid answer, so that the connection must be dropped."""
        if isinstance(line, OverlongLine):
            return False
        try:
            answer = json.loads(line)
            number = answer["id"]
            outcome = _read_outcome(answer)
        except (ValueError, TypeError, KeyError):
            return False
        if isinstance(outcome, GatewayRefused) and outcome.code == STOPPING_CODE:
            return True  # the request stays open and is repeated on the next connection
        self._pause = MIN_RECONNECT_DELAY_S
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked.done(outcome)
        return True


def ask_once(path: str, method: str, params: Json, timeout: float = 10.0) -> Json:
    """Send one request over a connection of its own and block for its result. Raises the outcome if it is a refusal
    or no answer; never repeats."""
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
                outcome.append(_read_outcome(json.loads(answers.readline(LIMIT))))
        except (OSError, ValueError, KeyError) as error:
            raise NoGatewayAnswer(f"the gateway did not answer at {path} ({error})", handed=handed) from error
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _read_outcome(answer: Json) -> Json | GatewayRefused:
    if "error" in answer:
        return GatewayRefused(str(answer["error"]["code"]), str(answer["error"]["message"]))
    result: Json = answer["result"]
    return result
