"""The gateway of the double: a WebSocket server (https://docs.discord.com/developers/events/gateway)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from semel.testing.discord.sessions import GUILDS, KNOWN_INTENTS, MESSAGE_CONTENT, Session
from semel.text.json_types import Json, object_at

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection

    from semel.testing.discord.double import DiscordDouble

MAX_PAYLOAD_BYTES = 4096
LATE_HEARTBEATS = 2.0
"""After so many intervals without a heartbeat, the connection is closed."""
UNKNOWN_OPCODE, DECODE_ERROR, NOT_AUTHENTICATED, AUTHENTICATION_FAILED, ALREADY_AUTHENTICATED = (
    4001,
    4002,
    4003,
    4004,
    4005,
)
INVALID_SEQ, SESSION_TIMED_OUT, INVALID_INTENTS, DISALLOWED_INTENTS = 4007, 4009, 4013, 4014


@asynccontextmanager
async def serve_gateway(double: DiscordDouble, port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Serve the gateway until the `async with` block ends. Yields its URL."""
    from websockets.asyncio.server import serve as serve_websocket  # an extra: see `semel.testing.discord.__main__`

    async def handle(socket: ServerConnection) -> None:
        await _Client(double, socket).run()

    server: Server = await serve_websocket(
        handle, host, port, ping_interval=None, compression=None, close_timeout=0.2, max_size=1 << 20
    )
    try:
        yield f"ws://{host}:{next(iter(server.sockets)).getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


class _Close(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Client:
    """One connection of the bot."""

    def __init__(self, double: DiscordDouble, socket: ServerConnection) -> None:
        self._double = double
        self._socket = socket
        self._session: Session | None = None
        self._beat_at = asyncio.get_running_loop().time()

    async def run(self) -> None:
        from websockets.exceptions import ConnectionClosed

        sending: asyncio.Task[None] | None = None
        code = 1006
        try:
            await self._send({"op": 10, "d": {"heartbeat_interval": round(self._double.heartbeat_s * 1000)}})
            while self._session is None:
                await self._receive(await self._recv())
            sending = asyncio.create_task(self._forward(self._session))
            while True:
                await self._receive(await self._recv())
        except _Close as close:
            await self._socket.close(close.code)
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else 1006
        finally:
            if sending is not None:
                sending.cancel()
            if self._session is not None:
                self._double.sessions.close(self._session, code)

    async def _recv(self) -> str | bytes:
        late = self._beat_at + LATE_HEARTBEATS * self._double.heartbeat_s
        try:
            async with asyncio.timeout_at(late):
                return await self._socket.recv()
        except TimeoutError:
            raise _Close(SESSION_TIMED_OUT if self._session is None else 4000) from None

    async def _send(self, payload: Json) -> None:
        await self._socket.send(json.dumps(payload))

    async def _forward(self, session: Session) -> None:
        from websockets.exceptions import ConnectionClosed

        queue = session.queue
        assert queue is not None
        with suppress(ConnectionClosed):
            while True:
                payload = await queue.get()
                if isinstance(payload, int):
                    self._double.sessions.close(session, payload)
                    await self._socket.close(payload)
                    return
                await self._send(payload)

    async def _receive(self, message: str | bytes) -> None:
        if len(message) > MAX_PAYLOAD_BYTES:
            raise _Close(DECODE_ERROR)
        try:
            payload = json.loads(message)
            op, data = payload["op"], payload["d"]
        except (ValueError, KeyError, TypeError):
            raise _Close(DECODE_ERROR) from None
        if op == 1:
            self._beat_at = asyncio.get_running_loop().time()
            if self._double.answers_heartbeats:
                await self._send({"op": 11})
        elif op in (2, 6):
            if self._session is not None:
                raise _Close(ALREADY_AUTHENTICATED)
            if object_at({"d": data}, "d").get("token") != self._double.token:
                raise _Close(AUTHENTICATION_FAILED)
            await (self._identify(data) if op == 2 else self._resume(data))
        else:
            raise _Close(UNKNOWN_OPCODE if self._session is not None else NOT_AUTHENTICATED)

    async def _identify(self, data: Json) -> None:
        double, intents = self._double, data.get("intents")
        if not isinstance(intents, int) or intents & ~KNOWN_INTENTS:
            raise _Close(INVALID_INTENTS)
        if intents & MESSAGE_CONTENT and not double.content_switch:
            raise _Close(DISALLOWED_INTENTS)
        if not double.answers_identify:
            return
        double.starts_left -= 1
        too_soon, double.identified_at = double.now() - double.identified_at < double.identify_s, double.now()
        if too_soon:
            await self._send({"op": 9, "d": False})
            return
        session = double.sessions.open(intents)
        session.queue = asyncio.Queue()
        ready: Json = {
            "v": 10, "user": double.me.json(), "session_id": session.id, "resume_gateway_url": double.gateway_url,
            "guilds": [{"id": guild.id, "unavailable": True} for guild in double.guilds.values()],
            "application": {"id": double.me.id, "flags": 0},
        }  # fmt: skip
        session.dispatch("READY", ready, double.sessions.keep)
        for guild in double.guilds.values():
            if intents & GUILDS and not guild.unavailable:
                session.dispatch("GUILD_CREATE", double.guild_json(guild), double.sessions.keep)
        self._session = session

    async def _resume(self, data: Json) -> None:
        double, seq = self._double, data.get("seq")
        session = double.sessions.resume(str(data.get("session_id")), seq if isinstance(seq, int) else 0)
        if session is None:
            await self._send({"op": 9, "d": False})
            return
        if not isinstance(seq, int) or seq > session.seq:
            raise _Close(INVALID_SEQ)
        session.queue, session.ends_at = asyncio.Queue(), None
        for event in list(session.events):
            if event["s"] > seq:
                session.queue.put_nowait(event)
        session.dispatch("RESUMED", {}, double.sessions.keep)
        self._session = session
