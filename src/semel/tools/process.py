"""The MCP process: the agent on stdin and stdout, the gateway on its socket, one loop, no thread.

For each tools/call it mints a call id before the first request to the gateway, and every repeat of that
request carries the same one: a gateway that restarts in between answers with the first outcome (house: "Tools
an agent gets over MCP"). When an answer has been written to the agent, the gateway is told so: a call that
was never answered is the only kind that a later process of the same turn may be repeating.
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
from semel.tools.rpc_client import Link, Outcome, Refused

PATIENCE = 50.0
"""Seconds a call waits for the gateway: less than the minute after which several agents give a call up."""

GREETING = 2.0
"""Seconds the agent's first request waits for the gateway to describe the session."""

LAST = 1.0
"""Seconds for answers that are on their way when the agent closes stdin."""

AT_ONCE = 256
"""Calls open at a time; past that stdin waits unread."""

CHUNK = 1 << 16


class Process:
    """One MCP connection, from start to the end of stdin."""

    def __init__(self, link: Link, token: str, *, source: int, sink: int, parent: int | None, patience: float):
        self.conn = os.urandom(8).hex()
        self._link = link
        self._token = token
        self._source = source
        self._sink = _Sink(sink)
        self._parent = parent  # a pidfd
        self._patience = patience
        self._lines = Lines()
        self._greeting: Greeting | None = None
        self._open: dict[Id, int] = {}  # JSON-RPC id: the link's number of its call
        self._end: float | None = None  # when to leave, once stdin has ended

    def run(self) -> None:
        """Serve until the agent has closed stdin, or is gone. Raises BrokenPipeError if it reads no more."""
        hello = {"token": self._token, "conn": self.conn}
        self._link.ask("hello", hello, min(GREETING, self._patience), self._greeted)
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
        """Sleep until something can be done; returns the descriptors that are ready."""
        poll = select.poll()
        # Until the session is described, the agent's requests stay where they are: in order, unread.
        if self._greeting is not None and self._end is None and len(self._open) < AT_ONCE:
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
        """Without the gateway's words the general ones must do: the calls themselves will find it, or say
        so."""
        self._greeting = words.greeting(outcome)

    def _read(self) -> None:
        data = os.read(self._source, CHUNK)
        if not data:
            self._end = time.monotonic() + LAST
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
            # It may be out already; it is not asked again, and not reported as answered.
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
        except Refused as error:
            self._sink.put(protocol.answer(call, words.too_long(error), ok=False))

    def _told(self, call: Call, id: str, outcome: Outcome) -> None:
        self._open.pop(call.id, None)
        text, ok = words.for_agent(outcome, self._patience)
        written = (lambda: self._answered(id)) if words.settled(outcome) else None
        self._sink.put(protocol.answer(call, text, ok=ok), written)

    def _answered(self, id: str) -> None:
        self._link.ask("answered", {"token": self._token, "call": id}, self._patience, lambda _: None)


class _Sink:
    """stdout. Written only when it takes bytes, so that a reader who rests stops nothing else."""

    # poll(2) promises room for this many bytes (POSIX: PIPE_BUF), so that a write does not block.
    PIECE = select.PIPE_BUF

    def __init__(self, fd: int):
        self.fd = fd
        self._lines: deque[tuple[memoryview, Callable[[], object] | None]] = deque()

    @property
    def waiting(self) -> bool:
        return bool(self._lines)

    def put(self, message: Json, written: Callable[[], object] | None = None) -> None:
        """Queue a line; `written` is called when its last byte is out of this process."""
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
