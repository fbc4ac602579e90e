"""Socket Mode: one WebSocket connection (https://docs.slack.dev/apis/events-api/using-socket-mode).

Slack sends envelopes; each is acknowledged by its `envelope_id`, after the commit (Law 1). What is not acknowledged
within three seconds comes again, also over a later connection. Slack renews connections every few hours: it says so
with `disconnect`, and the next one is opened before this one is closed.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from semel.channels.http import USER_AGENT, system_tls_context
from semel.channels.slack.account import SlackDirectory
from semel.gateway.ports import Denied, Offline
from semel.text.json_types import Json, object_at, text_at

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

MAX_ENVELOPE_BYTES = 16 * 1024 * 1024
PING_INTERVAL_S = 20.0
"""Seconds between our pings. A connection that answers none for as long is taken as lost."""
MAX_WAITING_ENVELOPES = 10_000
"""Envelopes that may wait while the history is read. If there are twice as many (these are kept here, and as many by
the library), the connection is not read, not even a pong.

Their bytes are not counted: Slack sends at most 30,000 events of a workspace in an hour
(https://docs.slack.dev/reference/events/app_rate_limited), so this many take 20 minutes, and as most have a few
kilobytes, they take tens of megabytes.
"""


@dataclass(frozen=True)
class SlackEnvelope:
    """One message of Slack. `kind`: its type. `id`: by which it is acknowledged, "" if it needs none."""

    kind: str
    id: str = ""
    payload: Json = field(default_factory=dict)
    reason: str = ""  # of a disconnect


class SlackSocket:
    """An open connection. Every method raises Offline if it is lost."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._put_back: deque[SlackEnvelope] = deque()

    def put_back(self, envelopes: Iterable[SlackEnvelope]) -> None:
        """Let `next` return envelopes once more, before others."""
        self._put_back.extend(envelopes)

    async def next(self) -> SlackEnvelope:
        """Wait for the next message that is one."""
        from websockets.exceptions import ConnectionClosed

        if self._put_back:
            return self._put_back.popleft()
        while True:
            try:
                message = await self._connection.recv()
            except ConnectionClosed as error:
                raise Offline(f"Slack closed the connection ({_describe(error)})") from None
            if (envelope := parse_envelope(message)) is not None:
                return envelope

    async def acknowledge(self, envelope: SlackEnvelope) -> None:
        """Tell Slack that an envelope was kept."""
        from websockets.exceptions import ConnectionClosed

        if not envelope.id:
            return
        try:
            await self._connection.send(json.dumps({"envelope_id": envelope.id}))
        except ConnectionClosed as error:
            raise Offline(f"Slack closed the connection ({_describe(error)})") from None


@asynccontextmanager
async def open_socket(directory: SlackDirectory, timeout: float) -> AsyncIterator[SlackSocket]:
    """Open a connection and wait for Slack's greeting. Raises Denied if `app_token` is refused, and Offline.

    `timeout`: in seconds, for each step.
    """
    url = await request_url(directory)
    async with connect_socket(url, timeout) as socket:
        yield socket


async def request_url(directory: SlackDirectory) -> str:
    """Return the address of the next connection; it can be used once. Raises Denied or Offline."""
    reply = await directory.read("apps.connections.open", as_app=True)
    url = text_at(reply.data, "url")
    if url is None or not url.startswith(("wss://", "ws://")):
        raise Offline("Slack's answer to apps.connections.open names no address")
    return url


@asynccontextmanager
async def connect_socket(url: str, timeout: float) -> AsyncIterator[SlackSocket]:
    """Open the connection at this address. Raises Offline."""
    import asyncio

    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    tls = await asyncio.to_thread(system_tls_context) if url.startswith("wss:") else None
    try:
        connection = await connect(
            url, ssl=tls, proxy=None, user_agent_header=USER_AGENT, open_timeout=timeout, close_timeout=1.0,
            ping_interval=PING_INTERVAL_S, ping_timeout=PING_INTERVAL_S, max_size=MAX_ENVELOPE_BYTES,
            max_queue=MAX_WAITING_ENVELOPES,
        )  # fmt: skip
    except (OSError, TimeoutError, WebSocketException) as error:
        raise Offline(f"Slack's connection cannot be opened: {_describe(error)}") from None
    async with connection:
        socket = SlackSocket(connection)
        try:
            async with asyncio.timeout(timeout):
                greeting = await socket.next()
        except TimeoutError:
            raise Offline("Slack opened a connection and did not greet") from None
        if greeting.kind == "disconnect":
            raise classify_disconnect(greeting) or Offline("Slack closed a new connection at once")
        yield socket


def classify_disconnect(envelope: SlackEnvelope) -> Denied | Offline | None:
    """Return the error that a `disconnect` means; None if Slack only wants another connection."""
    if envelope.reason == "too_many_websockets":  # a reconnect at once would add to them
        return Offline("this app has more than ten connections: stop the other programs that use it")
    if envelope.reason == "link_disabled":
        return Denied("Socket Mode is switched off for this app: switch it on under Socket Mode")
    return None


def parse_envelope(message: str | bytes) -> SlackEnvelope | None:
    """Parse a message of Slack; None if it is none, such as a text that is no JSON."""
    try:
        data = json.loads(message)
    except (ValueError, RecursionError):
        return None
    kind = text_at(data, "type")
    if kind is None:
        return None
    return SlackEnvelope(
        kind, text_at(data, "envelope_id") or "", object_at(data, "payload"), text_at(data, "reason") or ""
    )


def _describe(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:200]
