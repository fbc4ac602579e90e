"""Operations: watch a session live, or the list of all sessions.

The stream consists of server-sent events (WHATWG HTML, 9.2) with the rev as `id:`, by which a watcher resumes (Law 8).
Each watcher reads at its own pace. A slow one holds back only its own generator; the gateway drops the changes that it
missed and sends a snapshot instead. A watcher that reads nothing for `Settings.send_timeout` is disconnected. A large
frame is held in memory once for all watchers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from semel.faces.frame_types import Frame, SessionListFrame
from semel.faces.http.markdown import add_html
from semel.faces.http.operations.transcripts import WithHtml
from semel.faces.http.routing import MAX_INT, ApiCall, Param, Returns, Router, SessionKey, read_int, run_until_stopped
from semel.gateway.errors import NoSuchSession

log = structlog.get_logger("semel.http")
router = Router("read")

MAX_CHUNK_BYTES = 64 * 1024  # bytes handed to a connection at once, because its buffer holds a copy
STILL_HERE = ServerSentEvent(comment="still here", sep="\n")
RETRY_FIELD = b"retry: 1000\n\n"  # a browser reconnects after 1 s, with the last id it saw

LAST_EVENT_ID = Param("Sent by browsers that reconnect; wins over `after`.", name="Last-Event-ID", kind=int)


@router.route(
    "GET",
    "/v1/sessions/{key}/stream",
    Returns("The stream, until the client or the gateway closes it.", Frame, "text/event-stream"),
    headers=(LAST_EVENT_ID,),
    errors=("no-such-session",),
)
async def watch(
    call: ApiCall,
    key: SessionKey,
    after: Annotated[int | None, Param("Rev to resume after.")] = None,
    html: WithHtml = False,
    ping: Annotated[bool, Param("Send `ping` events instead of comments.")] = False,
) -> Response:
    """Watch a session as a stream of `snapshot` and `change` events. The id of an event is the rev of the view after
    it. The stream resumes after the rev in `Last-Event-ID` or `after`; without one, or if that rev is too old, the
    first event is a snapshot. A comment every 4 seconds keeps proxies from closing the connection. With `ping`, an
    event `ping` takes its place, and comes first, too: browsers do not show comments to a page.
    """
    after = _read_resume_rev(call.request, after)
    # Raises now if there is no such session: once the stream has begun, it is too late for a 404.
    await call.gateway.entries(key, after=MAX_INT, limit=1)
    return _make_stream(call, partial(_encode_frames, call, key, after, html), ping)


@router.route(
    "GET",
    "/v1/stream",
    Returns("The stream, until the client or the gateway closes it.", SessionListFrame, "text/event-stream"),
    headers=(LAST_EVENT_ID,),
)
async def watch_list(
    call: ApiCall,
    after: Annotated[int | None, Param("Rev to resume after.")] = None,
    limit: Annotated[int, Param("Maximum number of sessions in a snapshot.", minimum=1, maximum=1000)] = 200,
    ping: Annotated[bool, Param("Send `ping` events instead of comments.")] = False,
) -> Response:
    """Watch the list of sessions as a stream of `snapshot` and `change` events, with what is unread and what needs
    somebody. It resumes, and is kept alive, as the stream of a session is.
    """
    after = _read_resume_rev(call.request, after)
    return _make_stream(call, partial(_encode_list_frames, call, after, limit), ping)


def _make_stream(call: ApiCall, encode: Callable[[bytes], AsyncIterator[bytes]], ping: bool) -> Stream:
    """Return the stream of what `encode` yields when it is given the stream's first bytes."""
    if not ping:
        return Stream(encode(RETRY_FIELD), call)
    beat = _make_ping(call.settings.heartbeat_s)
    return Stream(encode(RETRY_FIELD + beat.encode()), call, heartbeat=beat)


def _read_resume_rev(request: Request, after: int | None) -> int | None:
    """Return the rev to resume after, or `None`. `Last-Event-ID` wins over `after`: a browser that reconnects repeats
    its first URL, with an older rev."""
    header = request.headers.get("last-event-id", "").strip()
    return read_int("Last-Event-ID", header) if header else after


def _make_ping(every_s: float) -> ServerSentEvent:
    data = msgspec.json.encode({"every_ms": round(every_s * 1000)}).decode()
    return ServerSentEvent(data, event="ping", sep="\n")


async def _encode_frames(call: ApiCall, key: str, after: int | None, html: bool, begin: bytes) -> AsyncIterator[bytes]:
    """Encode the messages of one watcher as frames, which follow `begin`.

    A slow watcher holds back only this generator.
    """
    yield begin
    try:
        watch = call.gateway.watch(key, after)
        async with contextlib.aclosing(watch) as messages:  # type: ignore[type-var]
            async for message in messages:
                if html:
                    name = "entries" if message["type"] == "snapshot" else "changes"
                    message = {**message, name: await add_html(message[name])}
                frame = share_frame(_Frame(encode_frame(message)))
                del message  # a slow watcher keeps only the encoded frame in memory
                yield frame.data
                del frame
    except NoSuchSession:
        return  # the session was deleted meanwhile


async def _encode_list_frames(call: ApiCall, after: int | None, limit: int, begin: bytes) -> AsyncIterator[bytes]:
    """Encode the frames of the list of sessions, which follow `begin`."""
    yield begin
    async with contextlib.aclosing(call.gateway.watch_list(after, limit)) as frames:  # type: ignore[type-var]
        async for frame in frames:
            yield encode_frame(frame)


class _Frame:
    """An encoded frame that is being sent."""

    def __init__(self, data: bytes):
        self.data = data


_shared_frames = weakref.WeakValueDictionary[bytes, _Frame]()  # large frames by digest


def share_frame(frame: _Frame) -> _Frame:
    """Return the one copy of equal large frames that is shared by all watchers to which they are being sent."""
    if len(frame.data) < MAX_CHUNK_BYTES:
        return frame
    return _shared_frames.setdefault(hashlib.blake2b(frame.data, digest_size=32).digest(), frame)


UNICODE_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""Characters to escape: the SSE standard has no line end there, but clients that use Python's `splitlines` do."""


def encode_frame(message: dict[str, Any]) -> bytes:
    return b"id: %d\nevent: %s\n%s" % (message["rev"], message["type"].encode(), encode_data(message))


def encode_data(message: Any) -> bytes:
    """Return a message as the data of an event that has neither id nor name, or as the end of one that has."""
    data = msgspec.json.encode(message)
    for raw, escaped in UNICODE_LINE_ENDS:
        data = data.replace(raw, escaped)
    return b"data: %s\n\n" % data


class Stream(EventSourceResponse):
    """An event stream that ends at once, and cleanly, when the server stops. `farewell`: what it sends then.

    `heartbeat`: what it sends every `Settings.heartbeat_s` seconds.
    """

    def __init__(
        self,
        frames: AsyncIterator[bytes],
        call: ApiCall,
        farewell: bytes = b"",
        headers: Mapping[str, str] | None = None,
        heartbeat: ServerSentEvent = STILL_HERE,
    ):
        super().__init__(
            frames, headers=headers, sep="\n", ping=call.settings.heartbeat_s, ping_message_factory=lambda: heartbeat
        )
        self._farewell = farewell
        self._stopping: asyncio.Event = call.request.app.state.stopping
        self._send_timeout = call.settings.send_timeout  # seconds for each chunk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stopped = ended = False
        send_lock = asyncio.Lock()  # keeps a heartbeat from being sent between two chunks of a frame

        async def until_stopped() -> Message:
            nonlocal stopped
            message = await run_until_stopped(receive(), self._stopping)
            stopped = message is None
            return message or {"type": "http.disconnect"}

        async def send_chunks(message: Message) -> None:
            nonlocal ended
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            async with send_lock:
                for chunk in _split_chunks(message):
                    async with asyncio.timeout(self._send_timeout):
                        await send(chunk)

        try:
            await super().__call__(scope, until_stopped, send_chunks)
        except TimeoutError:
            log.info("a watcher that read nothing was disconnected", path=scope["path"])
            raise
        if stopped and not ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):  # a watcher that does not read is cut off
                    await send({"type": "http.response.body", "body": self._farewell, "more_body": False})


def _split_chunks(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    if len(body) <= MAX_CHUNK_BYTES:
        yield message
        return
    for start in range(0, len(body), MAX_CHUNK_BYTES):
        more_body = message.get("more_body", False) or start + MAX_CHUNK_BYTES < len(body)
        yield {**message, "body": body[start : start + MAX_CHUNK_BYTES], "more_body": more_body}
