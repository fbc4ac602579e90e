"""One WebSocket connection (https://docs.mattermost.com/api/reference/mattermost-api, "WebSocket").

After the authentication challenge, the server says hello, and then numbers its events. A gap in the numbers means that
an event was lost: the connection is given up, and the history is read.

If the token was revoked, or the server's database failed when it looked up the session, the server no longer counts the
connection as logged in: it leaves it open and sends no more events (its source, app/platform/web_conn.go and
websocket_router.go). Only the answer to a request says so; therefore one is made at intervals.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

from semel.channels.http import USER_AGENT, system_tls_context
from semel.channels.mattermost.settings import MattermostSettings
from semel.channels.mattermost.transport import parse_body
from semel.gateway.ports import Offline
from semel.text.json_types import Json, text_at

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

MAX_EVENT_BYTES = 4 * 1024 * 1024
MAX_WAITING_EVENTS = 5_000
"""Events that may wait while the history is read; if there are more, the connection is not read."""
PING_INTERVAL_S = 20.0
"""Seconds between our pings. A connection that answers none for as long is taken as lost."""
LOGIN_CHECK_INTERVAL_S = 30.0
"""Seconds between two requests that ask whether the connection is still logged in."""
NOT_LOGGED_IN = "api.web_socket_router.not_authenticated.app_error"
"""The id of the error if it is not."""
MAX_BATCH = 200
_BURST_S = 0.005
"""Seconds in which a next event still belongs to the same batch."""


class MattermostSocket:
    """An open connection. `id`: the server's name of it. Every method raises Offline if it is lost."""

    def __init__(self, connection: ClientConnection) -> None:
        self.id = ""
        self._connection = connection
        self._seq: int | None = None
        self._loss: Offline | None = None  # what `next_batch` has found and not raised yet

    async def next(self) -> Json:
        """Wait for the next message that is a JSON object: an event, or the answer to a challenge."""
        from websockets.exceptions import ConnectionClosed

        while True:
            try:
                message = await self._connection.recv()
            except ConnectionClosed as error:
                raise Offline(f"Mattermost closed the WebSocket ({_describe(error)})") from None
            event = parse_event(message)
            if event is not None:
                if text_at(event, "error", "id") == NOT_LOGGED_IN:
                    raise Offline("Mattermost no longer counts the WebSocket as logged in", 0.0)
                self._check_number(event)
                return event

    async def next_batch(self) -> list[Json]:
        """Wait for the next event, and return it with those that came at once after it."""
        if self._loss is not None:
            raise self._loss
        events = [await self.next()]
        while len(events) < MAX_BATCH:
            try:
                async with asyncio.timeout(_BURST_S):
                    events.append(await self.next())
            except TimeoutError:
                break
            except Offline as loss:
                self._loss = loss  # for the next call; what came before is kept
                break
        return events

    async def log_in(self, token: str) -> None:
        """Answer the challenge, and wait for hello. The server closes the connection if it refuses the token."""
        from websockets.exceptions import ConnectionClosed

        challenge = {"seq": 1, "action": "authentication_challenge", "data": {"token": token}}
        try:
            await self._connection.send(json.dumps(challenge))
        except ConnectionClosed as error:
            raise Offline(f"Mattermost closed the WebSocket ({_describe(error)})") from None
        while True:
            event = await self.next()
            if event.get("event") == "hello":
                self.id = text_at(event, "data", "connection_id") or ""
                return

    async def check_login(self) -> None:
        """Ask at intervals whether the connection is still logged in, until it is closed. `next` reads the answers."""
        from websockets.exceptions import ConnectionClosed

        for number in count(2):
            await asyncio.sleep(LOGIN_CHECK_INTERVAL_S)
            try:
                await self._connection.send(json.dumps({"seq": number, "action": "ping"}))
            except ConnectionClosed:
                return

    def _check_number(self, event: Json) -> None:
        """Check an event's number. Raises Offline after a gap."""
        seq = event.get("seq")
        if "event" not in event or not isinstance(seq, int):
            return
        expected = None if self._seq is None else self._seq + 1
        self._seq = seq
        if expected is not None and seq != expected:
            raise Offline(f"Mattermost's WebSocket lost events (number {seq} came instead of {expected})", 0.0)


@asynccontextmanager
async def open_socket(settings: MattermostSettings) -> AsyncIterator[MattermostSocket]:
    """Open a connection and wait for hello. Raises Offline, also if the token is refused."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    url = settings.websocket_url
    tls = await asyncio.to_thread(system_tls_context) if url.startswith("wss:") else None
    try:
        connection = await connect(
            url, ssl=tls, proxy=None, user_agent_header=USER_AGENT, open_timeout=settings.timeout, close_timeout=1.0,
            ping_interval=PING_INTERVAL_S, ping_timeout=PING_INTERVAL_S, max_size=MAX_EVENT_BYTES,
            max_queue=MAX_WAITING_EVENTS,
        )  # fmt: skip
    except (OSError, TimeoutError, WebSocketException, EOFError) as error:
        raise Offline(
            f"Mattermost's WebSocket cannot be opened: {_describe(error)}; does a proxy before the server pass "
            "WebSockets on?"
        ) from None
    async with connection:
        socket = MattermostSocket(connection)
        try:
            async with asyncio.timeout(settings.timeout):
                await socket.log_in(settings.token)
        except TimeoutError:
            raise Offline("Mattermost opened a WebSocket and did not say hello") from None
        checking = asyncio.create_task(socket.check_login())
        try:
            yield socket
        finally:
            checking.cancel()


def parse_event(message: str | bytes) -> Json | None:
    """Parse a message of the WebSocket; None if it is no JSON object."""
    data = parse_body(message.encode("utf-8", "surrogatepass") if isinstance(message, str) else message)
    return data if isinstance(data, dict) else None


def _describe(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:200]
