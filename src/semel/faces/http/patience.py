"""How long a connection may keep the server waiting, and how many there may be.

| the other side | patience |
|---|---|
| has sent no head, or half of one (which is answered 408) | 10 s |
| sends a body (else 408) | as long as 30 kB come in any 30 s; time in which we did not read does not count |
| was answered and still sends that body | 10 s |
| takes an answer | as long as 30 kB leave in any 60 s, or all that is left |
| says nothing after an answer | 75 s |

Half of what this process may open is for connections. Of that half, one address elsewhere (of IPv6, one /64), or the
other users of this machine together, may hold a quarter, and all of them three quarters: the rest is the owner's, who
comes from this machine.

So nobody holds a connection, and a file descriptor less for agents and channels, by sending or reading a byte now and
then. A stream that has nothing to tell waits for nobody. The table is `PATIENCE`; it is looked at every 5 s.
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

LOOK = 5.0  # seconds
FLOOR = 30_000  # bytes
PATIENCE: dict[str, tuple[float, float]] = {
    "head": (10.0, math.inf),
    "body": (30.0, FLOOR),
    "rest": (10.0, math.inf),
    "answer": (60.0, FLOOR),
    "idle": (75.0, math.inf),
    "": (math.inf, 0.0),
}
"""What is owed -> (seconds, bytes that must have moved in them)."""


@dataclass
class _Owed:
    """What the other side owes in which request, since when, and how many bytes had moved then."""

    what: str
    cycle: object
    since: float
    moved: int


class Patient(H11Protocol):
    """One connection, let go when it keeps us waiting."""

    told = -math.inf  # when it was last logged that there are too many
    peer: str | None = None  # who is at the other end, where that is not the owner's own machine

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._ending = _Ending(transport, self)
        super().connection_made(self._ending)  # type: ignore[arg-type]  # it has all that a transport has
        self._came = 0
        self._owed = _Owed("head", None, self.loop.time(), 0)
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
        others = [each.peer for each in self.connections if isinstance(each, Patient) and each.peer is not None]
        return len(others) <= most * 3 // 4 and others.count(self.peer) <= most // 4

    def _too_many(self) -> None:
        """Told once a minute: who comes a thousand times a second does not fill the log, either."""
        if self.loop.time() >= Patient.told + 60:
            Patient.told = self.loop.time()
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
        """Whether the request that was answered is not here as a whole, and the rest is on its way."""
        cycle: Any = self.cycle
        answered = cycle is not None and cycle.response_complete
        return answered and self.conn.their_state is h11.SEND_BODY and not self.conn.they_are_waiting_for_100_continue

    def send_400_response(self, msg: str) -> None:
        """What comes is no HTTP any more, and the connection ends.

        A request that is under way (its body turned into nonsense) learns that its caller is gone: what it would still
        say has no place behind the refusal, and h11 would raise, into the log, as often as a caller likes.
        """
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:  # an answer that has begun cannot become a refusal
                self.transport.close()
                return
        super().send_400_response(msg)

    def _look(self) -> None:
        self._timer = self.loop.call_later(LOOK, self._look)
        what, moved = self._owes()
        now, owed = self.loop.time(), self._owed
        if what != owed.what or self.cycle is not owed.cycle:
            self._owed = _Owed(what, self.cycle, now, moved)
            return
        seconds, least = PATIENCE[what]
        if now - owed.since < seconds:
            return
        if moved - owed.moved < least:
            self._let_go(what)
        self._owed = _Owed(what, self.cycle, now, moved)

    def _owes(self) -> tuple[str, int]:
        """What the other side has to do next, and how many bytes of it have moved."""
        cycle: Any = self.cycle  # None until the first request's head is complete
        unsent = self.transport.get_write_buffer_size()
        if unsent and (self.flow.write_paused or self.transport.is_closing() or (cycle and cycle.response_complete)):
            return "answer", -unsent  # nothing joins what waits to be taken
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
        begun = what == "head" and self.conn.trailing_data[0]  # whoever sent nothing asked nothing
        if begun or (what == "body" and not self.cycle.response_started):
            self.transport.write(_too_slow())
        self.transport.close()


class _Ending(LingeringTransport):
    """The transport of one connection, which uvicorn closes behind an answer that says `Connection: close`."""

    def __init__(self, transport: asyncio.Transport, connection: Patient) -> None:
        super().__init__(transport)
        self._connection = connection

    def close(self) -> None:
        if not self.is_closing() and self._connection.still_sends():
            self.close_half()
        else:
            self._transport.close()


def most_connections() -> int:
    """Half of what this process may open: agents, channels and files need the other."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 4096 if soft == resource.RLIM_INFINITY else max(64, min(4096, soft // 2))


def peer_of(host: str) -> str | None:
    """Who counts as one elsewhere; None: the owner's own machine."""
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
    """408, outside of the protocol's own state: the request that is cut off gets no other answer."""
    answer = Problem("too-slow", "The request came too slowly or incompletely. Nothing of it was accepted.").response()
    head = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
    fields = b"".join(b"%s: %s\r\n" % field for field in answer.raw_headers)
    return head + fields + b"\r\n" + bytes(answer.body)
