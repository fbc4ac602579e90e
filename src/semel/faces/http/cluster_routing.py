"""Let the right gateway of a cluster answer a request.

What concerns a session is answered by the gateway that serves it: it has the session's agent, and whoever watches. All
else is answered by the active one. So people, programs and editors may ask any of them.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from semel.faces.http.forwarding import Forwarder, Unavailable, Unreachable
from semel.faces.http.routing import FORWARDED_BY, Operation, check_and_log_access, handle_checked
from semel.faces.http.security import Access
from semel.faces.http.settings import Settings
from semel.gateway.api.gateway import Gateway
from semel.gateway.seats import Seats
from semel.ledger.storage.cluster import ClusterGateway
from semel.ledger.turns.seats import find_session_row

MAX_REPEATS = 10
REPEAT_DELAY_S = 0.3  # with the repeats, this is longer than it takes to notice that a gateway was killed
OWN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""They ask about this gateway, so no other one answers."""
ANY_PATHS = frozenset({"/v1/gateways"})
"""Every gateway answers them from the ledger, also while the active one does not."""
OF_AGENTS = frozenset({Access.SPAWN, Access.LOOPBACK_SPAWN})
"""Access of operations for agents' processes, which run beside the gateway that they ask."""


class ClusterRouting:
    """Answers the requests of a gateway that shares its ledger with others."""

    def __init__(self, gateway: Gateway, seats: Seats, settings: Settings, forwarder: Forwarder) -> None:
        self._gateway = gateway
        self._seats = seats
        self._settings = settings
        self._forwarder = forwarder

    async def answer(self, request: Request, operation: Operation) -> Response:
        """Answer a request here, or let another gateway answer it. Raises a Problem."""
        check_and_log_access(request, operation, self._gateway, self._settings)
        if operation.path not in OWN_PATHS | ANY_PATHS and operation.access not in OF_AGENTS:
            other = await self._find_other(request, operation)
            if other is not None and other.address is not None:
                return await self._let_answer(request, operation, other)
        return await handle_checked(request, operation, self._gateway, self._settings)

    async def _let_answer(self, request: Request, operation: Operation, other: ClusterGateway) -> Response:
        """Let another gateway answer. If it cannot be reached, wait a moment: one that is gone is soon replaced."""
        body = await self._forwarder.read_body(request, operation)
        for _ in range(0 if operation.streamed else MAX_REPEATS):
            try:
                return await self._forwarder.forward(request, operation, other, body)
            except Unreachable:
                await asyncio.sleep(REPEAT_DELAY_S)
            next_one = await self._find_other(request, operation)
            if next_one is None or next_one.address is None:
                request = Request(request.scope, _replay_body(request, body if isinstance(body, bytes) else b""))
                return await handle_checked(request, operation, self._gateway, self._settings)
            other = next_one
        return await self._forwarder.forward(request, operation, other, body)

    async def _find_other(self, request: Request, operation: Operation) -> ClusterGateway | None:
        """Return the gateway that has to answer; None if this one does."""
        key = request.path_params.get("key")
        if isinstance(key, str):
            session = await self._gateway.record.read(find_session_row, key)
            if session is None and operation.makes_session:
                return None
            seat = None if session is None else session.seat
            if seat == self._seats.name:
                return None
            other = self._seats.find_other_gateway(seat)
            if other is not None and not _came_from(request, other):
                return other
        if self._seats.has_duties:
            return None
        active = self._seats.active
        if active is not None and not _came_from(request, active):
            return active
        if active is None and request.method not in ("GET", "HEAD"):
            raise Unavailable("No gateway is the active one just now; nothing was accepted.")
        return None  # the session's seat was given up meanwhile, or it only reads


def _replay_body(request: Request, body: bytes) -> Receive:
    """Return an ASGI `receive` for a request whose body was read already."""
    unread = [body]

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await request.receive()

    return receive


def _came_from(request: Request, gateway: ClusterGateway) -> bool:
    return gateway.name in request.headers.get(FORWARDED_BY, "").split(",")
