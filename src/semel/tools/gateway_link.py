"""The link of an agent's MCP process to the gateway: HTTP/1.1 on its unix socket, without blocking.

Each open request has a connection of its own, which later requests reuse. A request whose connection broke before its
answer came is repeated: the same bytes with the same call id, so the gateway answers with the first outcome.

The client side of HTTP is written out here, because an agent waits for this process before its first prompt, and
importing `http.client` would raise its start time from 33 to 50 ms (docs/decisions/one-local-protocol.md).
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections.abc import Callable

from semel.text.json_types import Json

MAX_BODY_BYTES = 8 << 20
"""Longest body of a request to the gateway; the gateway has the same limit."""

MIN_RECONNECT_DELAY_S = 0.05
MAX_RECONNECT_DELAY_S = 1.0
"""Seconds between two attempts to connect: the pause doubles from the shortest to the longest."""

CHUNK_BYTES = 1 << 16
PROBLEM_URN = "urn:semel:problem:"
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})\r\n", re.IGNORECASE)


class GatewayRefused(Exception):
    """The gateway answered with an error. `failed`: whether the gateway itself failed, perhaps after the commit: then
    the outcome is unknown. If not, nothing was done."""

    def __init__(self, message: str, *, failed: bool = False):
        super().__init__(message)
        self.failed = failed


class NoGatewayAnswer(Exception):
    """No answer in time. `sent`: whether the request was sent completely: then the gateway may have carried it out, and
    the outcome is unknown. If not, the request was certainly not carried out."""

    def __init__(self, reason: str, *, sent: bool):
        super().__init__(reason)
        self.sent = sent


Outcome = Json | GatewayRefused | NoGatewayAnswer
OnOutcome = Callable[[Outcome], None]


class _Request:
    """One open request. `data` never changes, so a repeat is the same bytes."""

    __slots__ = ("connection", "data", "deadline", "in_order", "on_outcome", "sent")

    def __init__(self, data: bytes, deadline: float, on_outcome: OnOutcome, in_order: bool):
        self.data = data
        self.deadline = deadline
        self.on_outcome = on_outcome
        self.in_order = in_order
        self.sent = False
        self.connection: _Connection | None = None


class _BrokenConnection(Exception):
    """The connection cannot be used any more. The message says why."""


class _Connection:
    """One connection, with at most one request at a time."""

    def __init__(self, path: str):
        """Connect. Raises OSError."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | getattr(socket, "SOCK_CLOEXEC", 0))
        self.socket.setblocking(False)
        self.request_number: int | None = None  # of the request in progress
        self.unsent = memoryview(b"")
        self._received = bytearray()
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise

    def begin(self, number: int, data: bytes) -> None:
        self.request_number = number
        self.unsent = memoryview(data)

    def send(self) -> None:
        """Send as much as the socket takes. Raises _BrokenConnection."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise _BrokenConnection(f"the connection to the gateway broke ({error.strerror})") from None

    def receive(self) -> Json | GatewayRefused | None:
        """Read what is there. Returns the answer once it is complete, `None` until then. Raises _BrokenConnection."""
        while True:
            try:
                data = self.socket.recv(CHUNK_BYTES)
            except (BlockingIOError, InterruptedError):
                return None
            except OSError:
                data = b""
            if not data or self.request_number is None:
                raise _BrokenConnection("the gateway closed the connection before it answered")
            self._received += data
            if (answer := self._take_answer()) is not None:
                return answer

    def _take_answer(self) -> Json | GatewayRefused | None:
        end = self._received.find(b"\r\n\r\n") + 4
        if end < 4:
            return None
        head = bytes(self._received[: end - 2])
        length = _CONTENT_LENGTH.search(head)
        if length is None:
            raise _BrokenConnection("the gateway's answer cannot be read")
        if len(self._received) < end + int(length[1]):
            return None
        body = bytes(self._received[end : end + int(length[1])])
        self._received.clear()
        return _read_outcome(head, body)


def _read_outcome(head: bytes, body: bytes) -> Json | GatewayRefused:
    """Return the gateway's result, or its problem document (RFC 9457) as GatewayRefused.

    Raises _BrokenConnection for anything else, such as the HTTP server's own error when the gateway stops: then the
    request stays open and is repeated.
    """
    try:
        status = int(head.split(b" ", 2)[1])
        message = json.loads(body)
        if status == 200 and isinstance(message, dict):
            return message
        if str(message["type"]).startswith(PROBLEM_URN):
            return GatewayRefused(str(message["detail"]), failed=status >= 500)
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    raise _BrokenConnection("the gateway's answer cannot be read")


class GatewayLink:
    """Requests to the gateway at the socket `path`, with the fencing token of an agent's spawn.

    The owner polls what `register` registers, calls `handle_ready` with the descriptors that are ready, and `tick`
    after at most `seconds_until_due()`. Each request's `on_outcome` is called once, from `handle_ready` or `tick`.
    """

    def __init__(self, path: str, token: str, clock: Callable[[], float] = time.monotonic):
        self._path = path
        self._token = token
        self._clock = clock
        self._requests: dict[int, _Request] = {}  # open requests by number, in the order of the calls
        self._connections: dict[int, _Connection] = {}  # by descriptor
        self._number = 0
        self._reconnect_delay = MIN_RECONNECT_DELAY_S
        self._reconnect_at = 0.0  # earliest time of the next attempt to connect
        self._no_answer_reason = "there is no connection"

    def __repr__(self) -> str:
        return f"<GatewayLink open={len(self._requests)} connections={len(self._connections)}>"

    @property
    def open_requests(self) -> int:
        """The number of unanswered requests."""
        return len(self._requests)

    def send_request(
        self, operation: str, body: Json, timeout_s: float, on_outcome: OnOutcome, *, in_order: bool = False
    ) -> int:
        """Send a request. `on_outcome` is called with its outcome, or with NoGatewayAnswer after `timeout_s` seconds.

        `in_order`: wait until no earlier request with this flag is open, so that such requests arrive in the order of
        the calls. Returns a number for `drop_request`. Raises GatewayRefused if `body` is above MAX_BODY_BYTES as JSON.
        """
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        if len(content) > MAX_BODY_BYTES:
            raise GatewayRefused(f"it takes {len(content)} bytes and the limit is {MAX_BODY_BYTES}")
        head = (
            f"POST /v1/tools/{operation} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._number += 1
        self._requests[self._number] = _Request(
            head.encode() + content, self._clock() + timeout_s, on_outcome, in_order
        )
        self._send_waiting()
        return self._number

    def drop_request(self, number: int) -> None:
        """Drop a request: it is not sent if it is still unsent, and not repeated; `on_outcome` is not called."""
        self._remove_request(number)
        self._send_waiting()

    def register(self, poll: select.poll) -> None:
        for descriptor, connection in self._connections.items():
            poll.register(descriptor, select.POLLIN | (select.POLLOUT if connection.unsent else 0))

    def seconds_until_due(self) -> float | None:
        """Return the seconds until `tick` has something to do; `None` if no request is open."""
        if not self._requests:
            return None
        due = min(request.deadline for request in self._requests.values())
        if self._reconnect_at > self._clock() and any(
            request.connection is None for request in self._requests.values()
        ):
            due = min(due, self._reconnect_at)
        return max(0.0, due - self._clock())

    def tick(self) -> None:
        now = self._clock()
        overdue = {number: request for number, request in self._requests.items() if request.deadline <= now}
        for number, request in overdue.items():
            self._remove_request(number)
            request.on_outcome(NoGatewayAnswer(self._no_answer_reason, sent=request.sent))
        self._send_waiting()

    def handle_ready(self, descriptors: set[int]) -> None:
        """Read and write what is possible on these descriptors; descriptors of others are ignored."""
        for connection in [
            self._connections[descriptor] for descriptor in descriptors if descriptor in self._connections
        ]:
            self._send(connection)
            self._receive(connection)
        self._send_waiting()

    def close(self) -> None:
        for connection in list(self._connections.values()):
            self._close(connection)

    def _send_waiting(self) -> None:
        """Give each request that may be sent a connection, oldest request first."""
        in_order_sent = False
        for number, request in list(self._requests.items()):
            held_back = request.in_order and in_order_sent
            in_order_sent = in_order_sent or request.in_order
            if request.connection is not None or held_back:
                continue
            connection = self._idle_connection()
            if connection is None:
                return
            request.connection = connection
            connection.begin(number, request.data)
            self._send(connection)

    def _idle_connection(self) -> _Connection | None:
        """Return a connection without a request, opened if need be; `None` if the gateway cannot be reached now."""
        for connection in self._connections.values():
            if connection.request_number is None:
                return connection
        if self._clock() < self._reconnect_at:
            return None
        try:
            connection = _Connection(self._path)
        except OSError as error:
            self._delay_reconnect(f"the gateway cannot be reached ({error.strerror or error})")
            return None
        self._no_answer_reason = "the gateway has not answered"
        self._connections[connection.socket.fileno()] = connection
        return connection

    def _delay_reconnect(self, reason: str) -> None:
        self._no_answer_reason = reason
        self._reconnect_at = self._clock() + self._reconnect_delay
        self._reconnect_delay = min(2 * self._reconnect_delay, MAX_RECONNECT_DELAY_S)

    def _send(self, connection: _Connection) -> None:
        request = self._request_on(connection)
        try:
            connection.send()
        except _BrokenConnection as broken:
            self._close_broken(connection, str(broken))
            return
        if request is not None and not connection.unsent:
            request.sent = True

    def _receive(self, connection: _Connection) -> None:
        request = self._request_on(connection)
        try:
            outcome = connection.receive()
        except _BrokenConnection as broken:
            self._close_broken(connection, str(broken))
            return
        if outcome is None:
            return
        number, connection.request_number = connection.request_number, None
        self._reconnect_delay = MIN_RECONNECT_DELAY_S
        if request is not None and number is not None:
            del self._requests[number]
            request.on_outcome(outcome)

    def _request_on(self, connection: _Connection) -> _Request | None:
        """Return the open request that the connection serves; `None` if it is idle or the request was dropped."""
        return None if connection.request_number is None else self._requests.get(connection.request_number)

    def _remove_request(self, number: int) -> None:
        request = self._requests.pop(number, None)
        if request is not None and request.connection is not None and request.connection.unsent:
            self._close(request.connection)  # the gateway ignores an incomplete request

    def _close_broken(self, connection: _Connection, reason: str) -> None:
        """Close a broken connection. Its request stays open, and is repeated after a pause."""
        self._close(connection)
        if (request := self._request_on(connection)) is not None:
            request.connection = None
            self._delay_reconnect(reason)

    def _close(self, connection: _Connection) -> None:
        if self._connections.pop(connection.socket.fileno(), None) is not None:
            connection.socket.close()
