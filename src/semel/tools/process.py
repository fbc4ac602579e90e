"""The MCP server's event loop: the agent on stdin and stdout, the gateway on a unix socket, one poll loop, no threads.

Each tools/call gets a call id (an idempotency key) before the first request to the gateway, and every repeat of the
request carries the same id, so a gateway that restarted in between answers with the first outcome. After an answer is
written to the agent, the gateway is informed ("answered"). The gateway needs this to recognize repeats: some agents
restart a dead MCP server and silently send an unanswered call again. If the ids of the tool calls do not show whether a
call is such a repeat, it counts as one only if the first call was never answered.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from collections.abc import Callable

from semel.text.json_types import Json
from semel.tools import outcomes, protocol
from semel.tools.catalogue import SPEAKING_TOOLS, Greeting
from semel.tools.gateway_link import GatewayLink, GatewayRefused, Outcome
from semel.tools.lines import LineBuffer
from semel.tools.protocol import Id, McpCall, McpCancel, McpReply

CALL_TIMEOUT_S = 50.0
"""Seconds a call waits for the gateway: less than the minute after which several agents abandon a call."""

GREETING_TIMEOUT_S = 2.0
"""Seconds the agent's first request waits for the gateway's `hello`, which describes the session."""

SHUTDOWN_TIMEOUT_S = 1.0
"""Seconds to finish open calls after the agent has closed stdin."""

MAX_OPEN_CALLS = 256
"""Maximum number of open calls; while it is reached, stdin is not read."""

CHUNK_BYTES = 1 << 16


class McpProcess:
    """One MCP connection, from start to the end of stdin.

    source, sink   the descriptors of the agent's pipes
    parent         a pidfd of the agent, or `None`
    call_timeout   seconds a call waits for the gateway
    """

    def __init__(self, link: GatewayLink, *, source: int, sink: int, parent: int | None, call_timeout: float):
        self.conn = os.urandom(8).hex()
        self._link = link
        self._source = source
        self._sink = _StdoutQueue(sink)
        self._parent = parent  # a pidfd
        self._call_timeout = call_timeout
        self._lines = LineBuffer()
        self._greeting: Greeting | None = None
        self._open_calls: dict[Id, int] = {}  # JSON-RPC id -> number of the request on the link
        self._exit_at: float | None = None  # when to exit, after stdin has ended (monotonic)

    def run(self) -> None:
        """Serve until the agent closes stdin or exits. Raises BrokenPipeError if it has closed our stdout."""
        self._link.send_request("hello", {}, min(GREETING_TIMEOUT_S, self._call_timeout), self._take_greeting)
        while not self._is_finished():
            ready = self._poll()
            if self._parent in ready:
                return
            if self._sink.fd in ready:
                self._sink.write()
            self._link.handle_ready(ready)
            self._link.tick()
            if self._source in ready:
                self._read_requests()

    def _is_finished(self) -> bool:
        if self._exit_at is None:
            return False
        return time.monotonic() >= self._exit_at or not (self._sink.has_lines or self._link.open_requests)

    def _poll(self) -> set[int]:
        """Poll until a descriptor is ready or a timer is due; returns the ready descriptors."""
        poll = select.poll()
        # Requests stay unread in the pipe until the gateway has described the session, which their answers need.
        if self._greeting is not None and self._exit_at is None and len(self._open_calls) < MAX_OPEN_CALLS:
            poll.register(self._source, select.POLLIN)
        if self._sink.has_lines:
            poll.register(self._sink.fd, select.POLLOUT)
        self._link.register(poll)
        if self._parent is not None:
            poll.register(self._parent, select.POLLIN)
        seconds = self._link.seconds_until_due()
        if self._exit_at is not None:
            remaining = max(0.0, self._exit_at - time.monotonic())
            seconds = remaining if seconds is None else min(seconds, remaining)
        return {fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000 + 1)}

    def _take_greeting(self, outcome: Outcome) -> None:
        """Keep the gateway's description of the session. Without an answer, general texts are used."""
        self._greeting = outcomes.parse_greeting(outcome)

    def _read_requests(self) -> None:
        data = os.read(self._source, CHUNK_BYTES)
        if not data:
            self._exit_at = time.monotonic() + SHUTDOWN_TIMEOUT_S
            return
        assert self._greeting is not None
        for line in self._lines.feed(data):
            for effect in protocol.receive(line, self._greeting):
                self._carry_out(effect)

    def _carry_out(self, effect: protocol.Effect) -> None:
        if isinstance(effect, McpReply):
            self._sink.put(effect.message)
        elif isinstance(effect, McpCall):
            self._forward_call(effect)
        elif isinstance(effect, McpCancel) and (number := self._open_calls.pop(effect.id, None)) is not None:
            # The request may be sent already; then it is neither repeated nor reported as answered.
            self._link.drop_request(number)

    def _forward_call(self, call: McpCall) -> None:
        call_id = f"{self.conn}-{os.urandom(8).hex()}"
        params: Json = {
            "conn": self.conn,
            "call": call_id,
            "name": call.name,
            "arguments": call.arguments,
            "meta": call.meta,
        }
        if call.given != call.arguments:
            params["given"] = call.given
        try:
            self._open_calls[call.id] = self._link.send_request(
                "call",
                params,
                self._call_timeout,
                lambda o: self._answer_call(call, call_id, o),
                in_order=call.name in SPEAKING_TOOLS,
            )
        except GatewayRefused as error:
            self._sink.put(protocol.answer(call, outcomes.render_too_long(error), ok=False))

    def _answer_call(self, call: McpCall, call_id: str, outcome: Outcome) -> None:
        self._open_calls.pop(call.id, None)
        text, ok = outcomes.render_outcome(outcome, self._call_timeout)
        on_written = (lambda: self._report_answered(call_id)) if outcomes.is_outcome_known(outcome) else None
        self._sink.put(protocol.answer(call, text, ok=ok), on_written)

    def _report_answered(self, call_id: str) -> None:
        self._link.send_request("answered", {"call": call_id}, self._call_timeout, lambda _: None)


class _StdoutQueue:
    """Lines for stdout, written only when poll reports room: an agent that does not read must not block us."""

    # After POLLOUT a pipe has room for at least this many bytes, so a write of them does not block (POSIX: PIPE_BUF).
    PIECE = select.PIPE_BUF

    def __init__(self, fd: int):
        self.fd = fd
        self._lines: deque[tuple[memoryview, Callable[[], object] | None]] = deque()

    @property
    def has_lines(self) -> bool:
        return bool(self._lines)

    def put(self, message: Json, on_written: Callable[[], object] | None = None) -> None:
        """Queue a line; `on_written` is called after its last byte was written to the pipe."""
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        self._lines.append((memoryview(line.encode("utf-8", "replace") + b"\n"), on_written))

    def write(self) -> None:
        view, on_written = self._lines[0]
        sent = os.write(self.fd, view[: self.PIECE])
        if sent < len(view):
            self._lines[0] = (view[sent:], on_written)
            return
        self._lines.popleft()
        if on_written is not None:
            on_written()
