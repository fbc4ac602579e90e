"""The MCP server's event loop: the agent on stdin and stdout, the gateway on a socket, one poll loop, no threads.

Each tools/call gets a call id (an idempotency key) before the first request to the gateway, and every repeat of the
request carries the same id, so a gateway that restarted in between answers with the first outcome. After an answer is
written to the agent, the gateway is informed ("answered"): only a call that was never answered may be repeated by a
later server process of the same turn.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from collections.abc import Callable

from semel.tools import protocol, words
from semel.tools.catalogue import Greeting, Json
from semel.tools.lines import Lines
from semel.tools.protocol import Call, Cancel, Id, Reply
from semel.tools.rpc_client import GatewayLink, GatewayRefused, Outcome

CALL_TIMEOUT_S = 50.0
"""Seconds a call waits for the gateway: less than the minute after which several agents abandon a call."""

GREETING_TIMEOUT_S = 2.0
"""Seconds the agent's first request waits for the gateway's `hello`, which describes the session."""

SHUTDOWN_TIMEOUT_S = 1.0
"""Seconds to finish open calls after the agent has closed stdin."""

MAX_OPEN_CALLS = 256
"""Maximum number of open calls; while it is reached, stdin is not read."""

CHUNK_BYTES = 1 << 16


class Process:
    """One MCP connection, from start to the end of stdin.

    source, sink   the descriptors of the agent's pipes
    parent         a pidfd of the agent, or `None`
    patience       seconds a call waits for the gateway
    """

    def __init__(self, link: GatewayLink, token: str, *, source: int, sink: int, parent: int | None, patience: float):
        self.conn = os.urandom(8).hex()
        self._link = link
        self._token = token
        self._source = source
        self._sink = _StdoutQueue(sink)
        self._parent = parent  # a pidfd
        self._patience = patience
        self._lines = Lines()
        self._greeting: Greeting | None = None
        self._open: dict[Id, int] = {}  # JSON-RPC id -> number of the request on the link
        self._end: float | None = None  # when to exit, after stdin has ended (monotonic)

    def run(self) -> None:
        """Serve until the agent closes stdin or exits. Raises BrokenPipeError if it has closed our stdout."""
        hello = {"token": self._token, "conn": self.conn}
        self._link.ask("hello", hello, min(GREETING_TIMEOUT_S, self._patience), self._greeted)
        while not self._finished():
            ready = self._wait()
            if self._parent in ready:
                return
            if self._sink.fd in ready:
                self._sink.write()
            if self._link.socket is not None and self._link.socket.fileno() in ready:
                self._link.ready()
            self._link.tick()
            if self._source in ready:
                self._read()

    def _finished(self) -> bool:
        if self._end is None:
            return False
        return time.monotonic() >= self._end or not (self._sink.waiting or self._link.open)

    def _wait(self) -> set[int]:
        """Poll until a descriptor is ready or a timer is due; returns the ready descriptors."""
        poll = select.poll()
        # Requests stay unread in the pipe until the gateway has described the session, which their answers need.
        if self._greeting is not None and self._end is None and len(self._open) < MAX_OPEN_CALLS:
            poll.register(self._source, select.POLLIN)
        if self._sink.waiting:
            poll.register(self._sink.fd, select.POLLOUT)
        if self._link.socket is not None:
            write = select.POLLOUT if self._link.wants_write else 0
            poll.register(self._link.socket, select.POLLIN | write)
        if self._parent is not None:
            poll.register(self._parent, select.POLLIN)
        seconds = self._link.wait()
        if self._end is not None:
            left = max(0.0, self._end - time.monotonic())
            seconds = left if seconds is None else min(seconds, left)
        return {fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000 + 1)}

    def _greeted(self, outcome: Outcome) -> None:
        """Use the gateway's description of the session; if there is no answer, general texts (calls retry later)."""
        self._greeting = words.parse_greeting(outcome)

    def _read(self) -> None:
        data = os.read(self._source, CHUNK_BYTES)
        if not data:
            self._end = time.monotonic() + SHUTDOWN_TIMEOUT_S
            return
        assert self._greeting is not None
        for line in self._lines.feed(data):
            for effect in protocol.receive(line, self._greeting):
                self._do(effect)

    def _do(self, effect: protocol.Effect) -> None:
        if isinstance(effect, Reply):
            self._sink.put(effect.message)
        elif isinstance(effect, Call):
            self._call(effect)
        elif isinstance(effect, Cancel) and (number := self._open.pop(effect.id, None)) is not None:
            # The request may be sent already; then it is neither repeated nor reported as answered.
            self._link.forget(number)

    def _call(self, call: Call) -> None:
        id = f"{self.conn}-{os.urandom(8).hex()}"
        params: Json = {
            "token": self._token,
            "conn": self.conn,
            "call": id,
            "name": call.name,
            "arguments": call.arguments,
            "meta": call.meta,
        }
        if call.given != call.arguments:
            params["given"] = call.given
        try:
            self._open[call.id] = self._link.ask("call", params, self._patience, lambda o: self._told(call, id, o))
        except GatewayRefused as error:
            self._sink.put(protocol.answer(call, words.render_too_long(error), ok=False))

    def _told(self, call: Call, id: str, outcome: Outcome) -> None:
        self._open.pop(call.id, None)
        text, ok = words.render_outcome(outcome, self._patience)
        written = (lambda: self._answered(id)) if words.settled(outcome) else None
        self._sink.put(protocol.answer(call, text, ok=ok), written)

    def _answered(self, id: str) -> None:
        self._link.ask("answered", {"token": self._token, "call": id}, self._patience, lambda _: None)


class _StdoutQueue:
    """The queue for stdout, written only when poll reports room, so that an agent that does not read blocks nothing."""

    # After POLLOUT a pipe has room for at least this many bytes, so a write of them does not block (POSIX: PIPE_BUF).
    PIECE = select.PIPE_BUF

    def __init__(self, fd: int):
        self.fd = fd
        self._lines: deque[tuple[memoryview, Callable[[], object] | None]] = deque()

    @property
    def waiting(self) -> bool:
        return bool(self._lines)

    def put(self, message: Json, written: Callable[[], object] | None = None) -> None:
        """Queue a line; `written` is called after its last byte was written to the pipe."""
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        self._lines.append((memoryview(line.encode("utf-8", "replace") + b"\n"), written))

    def write(self) -> None:
        view, written = self._lines[0]
        sent = os.write(self.fd, view[: self.PIECE])
        if sent < len(view):
            self._lines[0] = (view[sent:], written)
            return
        self._lines.popleft()
        if written is not None:
            written()
