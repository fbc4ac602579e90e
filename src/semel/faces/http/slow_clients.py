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
reading one byte now and then. A stream without changes is not limited: its client has nothing to do. `CLIENT_LIMITS`
holds the table; each connection is checked every 5 s. No HTTP server has options for such limits, hence a subclass of
a class that uvicorn does not document (docs/decisions/http-server.md).

A client that is still sending a body reads its answer only afterwards. If the server closed the connection with bytes
unread, the kernel would answer further bytes with a reset, and the client would see a broken pipe, not the answer. So
the server closes only its own half and discards what still arrives (lingering close, RFC 9112, 9.6).
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

from semel.faces.http.problems import Problem
from semel.faces.http.security import is_of_another_user

log = structlog.get_logger("semel.http")

CHECK_INTERVAL_S = 5.0  # between two checks of a connection
MIN_PROGRESS_BYTES = 30_000  # bytes that must move per period
MAX_DISCARDED_BYTES = 256 * 1024 * 1024
"""Bytes of a refused body that are discarded before the connection is closed. The time limit is that of "rest"."""
CLIENT_LIMITS: dict[str, tuple[float, float]] = {
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

    step: str
    cycle: object
    since: float
    moved_bytes: int


class TimedConnection(H11Protocol):
    """An HTTP/1.1 connection that is closed when its client exceeds a limit of `CLIENT_LIMITS`."""

    warned_at = -math.inf  # time of the last warning about too many connections
    peer: str | None = None  # key under which connections are counted; None for the owner's

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._lingering = _LingeringTransport(transport, self)
        super().connection_made(self._lingering)  # type: ignore[arg-type]  # it delegates to a transport
        self._received_bytes = 0
        self._pending = _PendingStep("head", None, self.loop.time(), 0)
        self._timer = self.loop.call_later(CHECK_INTERVAL_S, self._check)
        other_user = is_of_another_user(transport)
        self.app_state = {**self.app_state, "other_user": other_user}
        self.peer = "another user" if other_user else peer_key(self.client[0] if self.client else "")
        if not self._has_room():
            self._refuse()

    def _has_room(self) -> bool:
        limit = max_connections()
        if len(self.connections) > limit:
            return False
        if self.peer is None:
            return True
        other_peers = [
            connection.peer
            for connection in self.connections
            if isinstance(connection, TimedConnection) and connection.peer is not None
        ]
        return len(other_peers) <= limit * 3 // 4 and other_peers.count(self.peer) <= limit // 4

    def _refuse(self) -> None:
        """Refuse the connection. Logs at most once a minute, so that a flood of connections cannot fill the log."""
        if self.loop.time() >= TimedConnection.warned_at + 60:
            TimedConnection.warned_at = self.loop.time()
            log.warning("too many connections: no more are accepted", most=max_connections())
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._lingering.is_half_closed:
            self._lingering.discard(data)
            return
        super().data_received(data)

    def is_client_sending(self) -> bool:
        """Whether the client is still sending the body of a request that was answered already."""
        cycle: Any = self.cycle
        answered = cycle is not None and cycle.response_complete
        return answered and self.conn.their_state is h11.SEND_BODY and not self.conn.they_are_waiting_for_100_continue

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP, with a 400 unless an answer has begun, and close the connection.

        If a request is in progress (its body became invalid), its handler is told that the client has disconnected.
        If the handler answered after that, h11 would raise, and a client could fill the log with errors. h11 also
        raises where a 400 cannot be sent whole: the answer to HEAD has no body, and a request has one answer only.
        """
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:  # too late for a 400
                self.transport.close()
                return
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.transport.close()

    def _check(self) -> None:
        self._timer = self.loop.call_later(CHECK_INTERVAL_S, self._check)
        step, moved_bytes = self._find_pending_step()
        now, pending = self.loop.time(), self._pending
        if step != pending.step or self.cycle is not pending.cycle:
            self._pending = _PendingStep(step, self.cycle, now, moved_bytes)
            return
        seconds, min_bytes = CLIENT_LIMITS[step]
        if now - pending.since < seconds:
            return
        if moved_bytes - pending.moved_bytes < min_bytes:
            self._disconnect(step)
        self._pending = _PendingStep(step, self.cycle, now, moved_bytes)

    def _find_pending_step(self) -> tuple[str, int]:
        """Return what the client must do next and its progress, as (key of `CLIENT_LIMITS`, bytes moved so far)."""
        cycle: Any = self.cycle  # None until the first request's head is complete
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes and (
            self.flow.write_paused or self.transport.is_closing() or (cycle and cycle.response_complete)
        ):
            return "answer", -unsent_bytes  # nothing is added to this buffer, so its shrinking is the client's progress
        if cycle is None:
            return "head", self._received_bytes
        if self.conn.their_state is h11.SEND_BODY:
            if cycle.response_complete:
                return "rest", self._received_bytes
            return ("", 0) if self.flow.read_paused else ("body", self._received_bytes)
        if self.conn.their_state is h11.IDLE and cycle.response_complete:
            return ("head" if self.conn.trailing_data[0] else "idle"), self._received_bytes
        return "", 0

    def _disconnect(self, step: str) -> None:
        log.debug("a slow client was disconnected", waited_for=step or "nothing", seconds=CLIENT_LIMITS[step][0])
        if step == "answer":
            self.transport.abort()
            return
        has_begun = step == "head" and self.conn.trailing_data[0]  # no 408 without the beginning of a request
        if has_begun or (step == "body" and not self.cycle.response_started):
            self.transport.write(_encode_too_slow())
        self.transport.close()


class _LingeringTransport:
    """A transport whose `close` is a half-close while the client still sends. All else is delegated to `transport`.

    uvicorn closes the transport after an answer with `Connection: close`.
    """

    def __init__(self, transport: asyncio.Transport, connection: TimedConnection) -> None:
        self._transport = transport
        self._connection = connection
        self.is_half_closed = False
        self._discarded_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.is_half_closed or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing() or not self._connection.is_client_sending() or not self._transport.can_write_eof():
            self._transport.close()
            return
        self.is_half_closed = True
        self._transport.write_eof()
        self._transport.resume_reading()

    def discard(self, data: bytes) -> None:
        """Drop bytes that came after the last answer; close the connection when there are too many."""
        self._discarded_bytes += len(data)
        if self._discarded_bytes > MAX_DISCARDED_BYTES:
            self._transport.close()


def max_connections() -> int:
    """Return the limit of connections: half of the open-file limit, 64 to 4096. The other half is for agents, channels
    and files."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 4096 if soft == resource.RLIM_INFINITY else max(64, min(4096, soft // 2))


def peer_key(host: str) -> str | None:
    """Return the key under which a remote host's connections are counted: its IPv4 address or IPv6 /64.

    Returns `None` for loopback and for the unix socket: their connections count only towards the total.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None  # a unix socket
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return None if address.is_loopback else str(ipaddress.ip_network((address, 64), strict=False))
        address = address.ipv4_mapped
    return None if address.is_loopback else str(address)


def _encode_too_slow() -> bytes:
    """Encode a 408 response, without h11: it cannot answer an incomplete request."""
    answer = Problem("too-slow", "The request came too slowly or incompletely. Nothing of it was accepted.").response()
    head = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
    fields = b"".join(b"%s: %s\r\n" % field for field in answer.raw_headers)
    return head + fields + b"\r\n" + bytes(answer.body)
