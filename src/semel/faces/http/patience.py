"""Timeouts and limits for HTTP connections, against slow or numerous clients.

| the client | limit |
|---|---|
| has sent no request head, or part of one (answered with 408) | 10 s |
| sends a body (else 408) | at least 30 kB in any 30 s; time in which the server did not read does not count |
| has its answer and still sends the body | 10 s |
| reads an answer | at least 30 kB in any 60 s, or all that is left |
| is idle after an answer | 75 s |

Connections may use half of the file descriptors of this process. Of that half, one remote address (for IPv6, one /64),
or all other users of this machine together, may hold a quarter; all of these together may hold three quarters. The rest
is reserved for the owner, who connects from this machine.

Without these limits a client could hold connections, and the descriptors that agents and channels need, by sending or
reading one byte now and then. A stream without news is not limited: its client owes nothing. `PATIENCE` holds the
table; each connection is checked every 5 s.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import resource
from dataclasses import dataclass
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from semel.faces.http.lingering import LingeringTransport
from semel.faces.http.neighbours import of_another_user
from semel.faces.http.problems import Problem

log = structlog.get_logger("semel.http")

LOOK = 5.0  # seconds between two checks of a connection
MIN_PROGRESS_BYTES = 30_000  # bytes that must move per period
PATIENCE: dict[str, tuple[float, float]] = {
    "head": (10.0, math.inf),
    "body": (30.0, MIN_PROGRESS_BYTES),
    "rest": (10.0, math.inf),
    "answer": (60.0, MIN_PROGRESS_BYTES),
    "idle": (75.0, math.inf),
    "": (math.inf, 0.0),
}
"""What the client must do next -> (period in seconds, bytes that must move in it). "": nothing to wait for."""


@dataclass
class _PendingStep:
    """What the client must do next, for which request, since when, and how many bytes had moved by then."""

    what: str
    cycle: object
    since: float
    moved: int


class TimedConnection(H11Protocol):
    """An HTTP/1.1 connection that is closed when its client exceeds a limit of `PATIENCE`."""

    told = -math.inf  # time of the last warning about too many connections
    peer: str | None = None  # key under which connections are counted; None for the owner's

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._ending = _ConnectionTransport(transport, self)
        super().connection_made(self._ending)  # type: ignore[arg-type]  # it delegates to a transport
        self._came = 0
        self._owed = _PendingStep("head", None, self.loop.time(), 0)
        self._timer = self.loop.call_later(LOOK, self._look)
        neighbour = of_another_user(transport)
        self.app_state = {**self.app_state, "neighbour": neighbour}
        self.peer = "another user" if neighbour else peer_of(self.client[0] if self.client else "")
        if not self._has_room():
            self._too_many()

    def _has_room(self) -> bool:
        most = most_connections()
        if len(self.connections) > most:
            return False
        if self.peer is None:
            return True
        others = [each.peer for each in self.connections if isinstance(each, TimedConnection) and each.peer is not None]
        return len(others) <= most * 3 // 4 and others.count(self.peer) <= most // 4

    def _too_many(self) -> None:
        """Refuse the connection. Logs at most once a minute, so that a flood of connections cannot fill the log."""
        if self.loop.time() >= TimedConnection.told + 60:
            TimedConnection.told = self.loop.time()
            log.warning("too many connections: more are not taken", most=most_connections())
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._came += len(data)
        if self._ending.lingers:
            self._ending.discard(data)
            return
        super().data_received(data)

    def still_sends(self) -> bool:
        """Whether the client is still sending the body of a request that was answered already."""
        cycle: Any = self.cycle
        answered = cycle is not None and cycle.response_complete
        return answered and self.conn.their_state is h11.SEND_BODY and not self.conn.they_are_waiting_for_100_continue

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP, and end the connection.

        A request in progress (its body became invalid) is told that its client disconnected: it could not send its
        answer after the refusal. Otherwise h11 would raise, and a client could fill the log with errors.
        """
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:  # too late for a 400
                self.transport.close()
                return
        super().send_400_response(msg)

    def _look(self) -> None:
        self._timer = self.loop.call_later(LOOK, self._look)
        what, moved = self._owes()
        now, owed = self.loop.time(), self._owed
        if what != owed.what or self.cycle is not owed.cycle:
            self._owed = _PendingStep(what, self.cycle, now, moved)
            return
        seconds, least = PATIENCE[what]
        if now - owed.since < seconds:
            return
        if moved - owed.moved < least:
            self._let_go(what)
        self._owed = _PendingStep(what, self.cycle, now, moved)

    def _owes(self) -> tuple[str, int]:
        """(key of `PATIENCE`, bytes moved so far): what the client must do next, and its progress."""
        cycle: Any = self.cycle  # None until the first request's head is complete
        unsent = self.transport.get_write_buffer_size()
        if unsent and (self.flow.write_paused or self.transport.is_closing() or (cycle and cycle.response_complete)):
            return "answer", -unsent  # nothing is added to this buffer, so its shrinking is the client's progress
        if cycle is None:
            return "head", self._came
        if self.conn.their_state is h11.SEND_BODY:
            if cycle.response_complete:
                return "rest", self._came
            return ("", 0) if self.flow.read_paused else ("body", self._came)
        if self.conn.their_state is h11.IDLE and cycle.response_complete:
            return ("head" if self.conn.trailing_data[0] else "idle"), self._came
        return "", 0

    def _let_go(self, what: str) -> None:
        log.debug("a connection was let go", waited_for=what or "nothing", seconds=PATIENCE[what][0])
        if what == "answer":
            self.transport.abort()
            return
        begun = what == "head" and self.conn.trailing_data[0]  # no 408 without the beginning of a request
        if begun or (what == "body" and not self.cycle.response_started):
            self.transport.write(_too_slow())
        self.transport.close()


class _ConnectionTransport(LingeringTransport):
    """A transport whose `close` lingers while the client still sends. uvicorn closes it after `Connection: close`."""

    def __init__(self, transport: asyncio.Transport, connection: TimedConnection) -> None:
        super().__init__(transport)
        self._connection = connection

    def close(self) -> None:
        if not self.is_closing() and self._connection.still_sends():
            self.close_half()
        else:
            self._transport.close()


def most_connections() -> int:
    """The connection limit: half of the open-file limit, 64 to 4096. Agents, channels and files need the other half."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 4096 if soft == resource.RLIM_INFINITY else max(64, min(4096, soft // 2))


def peer_of(host: str) -> str | None:
    """The key to count a remote host's connections by: its IPv4 address or IPv6 /64; `None` for loopback."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None  # a unix socket
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return None if address.is_loopback else str(ipaddress.ip_network((address, 64), strict=False))
        address = address.ipv4_mapped
    return None if address.is_loopback else str(address)


def _too_slow() -> bytes:
    """The bytes of a 408 answer, written past h11, which cannot answer an incomplete request."""
    answer = Problem("too-slow", "The request came too slowly or incompletely. Nothing of it was accepted.").response()
    head = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
    fields = b"".join(b"%s: %s\r\n" % field for field in answer.raw_headers)
    return head + fields + b"\r\n" + bytes(answer.body)
