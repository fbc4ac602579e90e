"""One WebSocket connection to Discord's gateway (https://docs.discord.com/developers/events/gateway).

A task reads the connection, answers heartbeats at once and queues everything else, so that a long transaction or a
download does not let the connection die. A heartbeat that was not acknowledged when the next one is due means that the
connection is dead although it is open (a "zombie"): it is aborted.

The connection is never closed with 1000 or 1001, by which Discord would end the session: closed otherwise, the session
can be resumed for some minutes, by this process or the next one.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from semel.channels.discord.transport import USER_AGENT
from semel.channels.http import CONNECT_TIMEOUT_S, system_tls_context
from semel.text.json_types import Json, value_at
from semel.text.wellformed import UNSTORABLE_ESCAPE, scrub

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID_SESSION, HELLO, HEARTBEAT_ACK = 0, 1, 2, 6, 7, 9, 10, 11
"""Opcodes (https://docs.discord.com/developers/topics/opcodes-and-status-codes#gateway)."""
RESUMABLE_CLOSE = 4000
"""The code with which we close: the session stays."""
MAX_PAYLOAD_BYTES = 128 * 1024 * 1024
"""Maximum bytes of one payload. GUILD_CREATE of a large server has megabytes."""
MAX_BATCH = 500
"""Payloads that are handled together at most."""
HELLO_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 2.0
IDENTIFY_INTERVAL_S = 5.5
"""Seconds between two Identify. Discord takes one in five seconds; a sooner one is refused, and counts for the day
(https://docs.discord.com/developers/events/gateway#identifying)."""
QUERY = "/?v=10&encoding=json"


class GatewayClosed(Exception):
    """The connection is closed. `code`: Discord's close code; 0 if it broke without one."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason or f"Discord's gateway closed the connection ({code or 'without a code'})")
        self.code = code


class CannotConnect(Exception):
    """The gateway cannot be reached at this address."""


class IdentifyPace:
    """Keeps the time between two Identify. `clock`: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free_at = 0.0

    async def wait_for_turn(self) -> None:
        """Wait until the next Identify may be sent. The caller sends it at once."""
        await asyncio.sleep(max(0.0, self._free_at - self._clock()))
        self._free_at = self._clock() + IDENTIFY_INTERVAL_S


class GatewayConnection:
    """An open connection whose heartbeat runs. `seq`: the number of the last event, which heartbeats carry."""

    def __init__(self, socket: ClientConnection, jitter: Callable[[], float] = random.random) -> None:
        self.seq: int | None = None
        self._socket = socket
        self._jitter = jitter
        self._queue: asyncio.Queue[Json | GatewayClosed] = asyncio.Queue()
        self._has_ack = True
        self._is_zombie = False

    def __repr__(self) -> str:
        return f"<GatewayConnection at {self.seq}, {self._queue.qsize()} payloads wait>"

    async def send(self, op: int, data: Any) -> None:
        """Send a payload. If the connection is closed, nothing happens: `receive` reports that."""
        with suppress(ConnectionClosed):
            await self._socket.send(json.dumps({"op": op, "d": data}))

    async def receive(self, wait_s: float) -> list[Json]:
        """Return the next payloads in order, 1 to MAX_BATCH; [] after `wait_s` seconds. Raises GatewayClosed."""
        try:
            async with asyncio.timeout(wait_s):
                items = [await self._queue.get()]
        except TimeoutError:
            return []
        while not self._queue.empty() and isinstance(items[-1], dict) and len(items) < MAX_BATCH:
            items.append(self._queue.get_nowait())
        payloads = [item for item in items if isinstance(item, dict)]
        if isinstance(items[-1], GatewayClosed):
            if not payloads:
                raise items[-1]
            self._queue.put_nowait(items[-1])
        return payloads

    async def run(self, interval_s: float) -> None:
        """Read and send heartbeats, until cancelled or closed. `interval_s`: of heartbeats, as Hello named it."""
        beating = asyncio.create_task(self._beat(interval_s))
        try:
            while True:
                payload = parse_payload(await self._socket.recv())
                if payload is None:
                    raise GatewayClosed(0, "Discord's gateway sent something that is not JSON")
                if payload.get("op") == HEARTBEAT:
                    await self.send(HEARTBEAT, self.seq)
                elif payload.get("op") == HEARTBEAT_ACK:
                    self._has_ack = True
                else:
                    self._queue.put_nowait(payload)
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else 0
            reason = "Discord's gateway did not answer a heartbeat" if self._is_zombie else ""
            self._queue.put_nowait(GatewayClosed(code, reason))
        except Exception as error:  # whatever it is, `receive` must not wait for ever
            closed_by_us = error if isinstance(error, GatewayClosed) else GatewayClosed(0, f"it broke: {error!r}")
            self._queue.put_nowait(closed_by_us)
        finally:
            beating.cancel()

    async def _beat(self, interval_s: float) -> None:
        await asyncio.sleep(interval_s * self._jitter())
        while True:
            if not self._has_ack:
                self._is_zombie = True
                self._socket.transport.abort()
                return
            self._has_ack = False
            await self.send(HEARTBEAT, self.seq)
            await asyncio.sleep(interval_s)


@asynccontextmanager
async def open_gateway(url: str) -> AsyncIterator[GatewayConnection]:
    """Connect to the gateway at this URL, wait for Hello, and keep the heartbeat running. Raises CannotConnect."""
    tls = await asyncio.to_thread(system_tls_context) if url.startswith("wss:") else None
    try:
        socket = await connect(
            url.rstrip("/") + QUERY, ssl=tls, proxy=None, compression=None, max_size=MAX_PAYLOAD_BYTES,
            ping_interval=None, open_timeout=CONNECT_TIMEOUT_S, close_timeout=CLOSE_TIMEOUT_S,
            user_agent_header=USER_AGENT,
        )  # fmt: skip
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI, EOFError) as error:
        raise CannotConnect(f"Discord's gateway cannot be reached: {error or type(error).__name__}") from None
    reading: asyncio.Task[None] | None = None
    try:
        connection = GatewayConnection(socket)
        reading = asyncio.create_task(connection.run(await _read_hello(socket)))
        yield connection
    finally:
        if reading is not None:
            reading.cancel()
        await asyncio.shield(_close(socket))


async def _read_hello(socket: ClientConnection) -> float:
    """Return the interval of heartbeats in seconds. Raises CannotConnect."""
    try:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            hello = parse_payload(await socket.recv())
    except (TimeoutError, ConnectionClosed):
        raise CannotConnect("Discord's gateway did not say hello") from None
    interval = value_at(hello, "d", "heartbeat_interval")
    if value_at(hello, "op") != HELLO or not isinstance(interval, int | float) or not 0 < interval < 10**7:
        raise CannotConnect("Discord's gateway did not say hello: check the setting `gateway`")
    return interval / 1000


async def _close(socket: ClientConnection) -> None:
    with suppress(ConnectionClosed, OSError, TimeoutError):
        await socket.close(RESUMABLE_CLOSE)


def parse_payload(message: str | bytes) -> Json | None:
    """Parse a payload, a JSON object, and `scrub` its texts; None if it is something else."""
    raw = message.encode("utf-8", "surrogatepass") if isinstance(message, str) else message
    try:
        data = json.loads(raw)
        data = scrub(data) if UNSTORABLE_ESCAPE.search(raw) else data
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
