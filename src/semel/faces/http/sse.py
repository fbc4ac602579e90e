"""The live stream: server-sent events (WHATWG HTML, 9.2) with the rev as `id:`, by which a watcher resumes (Law 8).

Each watcher reads at its own pace. A slow one holds back only its own generator; the gateway drops the changes that it
missed and sends a snapshot instead. A watcher that reads nothing for `Settings.send_timeout` is disconnected. A large
frame is held in memory once for all watchers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from semel.faces.http.dressing import dress_message
from semel.faces.http.read import HTML
from semel.faces.http.table import MAX_INT, Answers, Call, Operation, Param, read_int
from semel.gateway.errors import NoSuchSession

log = structlog.get_logger("semel.http")

MAX_CHUNK_BYTES = 64 * 1024  # bytes handed to a connection at once, because its buffer holds a copy
RETRY = b"retry: 1000\n\n"  # a browser reconnects after 1 s, with the last id it saw


async def stream(call: Call) -> Response:
    key, after = call.session, _after(call.request, call.query["after"])
    # Raises now if there is no such session: once the stream has begun, it is too late for a 404.
    await call.gateway.entries(key, after=MAX_INT, limit=1)
    stopping: asyncio.Event = call.request.app.state.stopping
    return Stream(_frames(call, key, after), call, stopping)


def _after(request: Request, query: int | None) -> int | None:
    """The rev to resume from. `Last-Event-ID` wins: a reconnecting browser repeats its first URL with an older rev."""
    last = request.headers.get("last-event-id", "").strip()
    return read_int("Last-Event-ID", last) if last else query


async def _frames(call: Call, key: str, after: int | None) -> AsyncIterator[bytes]:
    """Encode the messages of one watcher as frames. A slow watcher holds back only this generator."""
    yield RETRY
    try:
        watch = call.gateway.watch(key, after)
        async with contextlib.aclosing(watch) as messages:  # type: ignore[type-var]
            async for message in messages:
                with share_frame(frame(await dress_message(message) if call.query["html"] else message)) as data:
                    del message  # a slow watcher keeps only the encoded frame in memory
                    yield data
    except NoSuchSession:
        return  # the session was deleted meanwhile


@dataclass
class _Leaving:
    """A frame being sent, and the number of watchers it is being sent to."""

    data: bytes
    count: int = 0


_leaving: dict[bytes, _Leaving] = {}  # large frames by digest


@contextlib.contextmanager
def share_frame(data: bytes) -> Iterator[bytes]:
    """Share one copy of equal large frames among all watchers to which they are being sent."""
    if len(data) < MAX_CHUNK_BYTES:
        yield data
        return
    digest = hashlib.blake2b(data, digest_size=32).digest()
    one = _leaving.setdefault(digest, _Leaving(data))
    del data
    one.count += 1
    try:
        yield one.data
    finally:
        one.count -= 1
        if not one.count:
            del _leaving[digest]


LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""Escaped: no line ends by the standard, but for clients that split lines like Python or old JavaScript."""


def frame(message: dict[str, Any]) -> bytes:
    data = msgspec.json.encode(message)
    for raw, escaped in LINE_ENDS:
        data = data.replace(raw, escaped)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (message["rev"], message["type"].encode(), data)


def _heartbeat() -> ServerSentEvent:
    return ServerSentEvent(comment="still here", sep="\n")


class Stream(EventSourceResponse):
    """An event stream that ends at once, and cleanly, when the server stops."""

    def __init__(self, frames: AsyncIterator[bytes], call: Call, stopping: asyncio.Event):
        settings = call.settings
        super().__init__(
            frames,
            sep="\n",
            ping=settings.heartbeat,
            ping_message_factory=_heartbeat,
        )
        self._stopping = stopping
        self._patience = settings.send_timeout  # seconds for each piece

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stopped = ended = False
        turn = asyncio.Lock()  # keeps a heartbeat from being sent between two pieces of a frame

        async def until_stopped() -> Message:
            nonlocal stopped
            message = await _receive_until_stopped(receive, self._stopping)
            stopped = message is None
            return message or {"type": "http.disconnect"}

        async def watched(message: Message) -> None:
            nonlocal ended
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            async with turn:
                for piece in _pieces(message):
                    async with asyncio.timeout(self._patience):
                        await send(piece)

        try:
            await super().__call__(scope, until_stopped, watched)
        except TimeoutError:
            log.info("a watcher took nothing for too long and was let go", path=scope["path"])
            raise
        if stopped and not ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):  # a watcher that does not read is cut off
                    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _pieces(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    if len(body) <= MAX_CHUNK_BYTES:
        yield message
        return
    for start in range(0, len(body), MAX_CHUNK_BYTES):
        more = message.get("more_body", False) or start + MAX_CHUNK_BYTES < len(body)
        yield {**message, "body": body[start : start + MAX_CHUNK_BYTES], "more_body": more}


async def _receive_until_stopped(receive: Receive, stopping: asyncio.Event) -> Message | None:
    """The client's next ASGI message, or `None` if the server stops first."""
    message = asyncio.ensure_future(receive())
    stop = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({message, stop}, return_when=asyncio.FIRST_COMPLETED)
        return None if stop.done() else message.result()
    finally:
        message.cancel()
        stop.cancel()


OPERATIONS = [
    Operation(
        "GET",
        "/v1/sessions/{key}/stream",
        "watch",
        "Watch a session: events `snapshot` and `change`, each with the rev it leads to as its id. "
        "Resumes after `Last-Event-ID` or `after`; without one, or where it is too old, a snapshot is first. "
        "A comment every 15 seconds keeps proxies from hanging up.",
        stream,
        {200: Answers("The stream, until the client or the gateway leaves.", str, "text/event-stream")},
        "read",
        query=(Param("after", int, "A rev to resume after."), HTML),
        headers=(Param("Last-Event-ID", int, "What a browser sends when it reconnects; goes before `after`."),),
        errors=("no-such-session",),
    ),
]
