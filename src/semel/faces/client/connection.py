"""The connection to a gateway: one request and its answer, streams, and the errors of all of them.

A local gateway is reached on the unix socket in its data directory. Whoever can reach that socket is the owner, so no
token is needed (`tools/address.py`). A gateway elsewhere is reached by its URL, with the owner's token.

Callers name an operation by its path, as in /v1/openapi.json: `await client.get("/v1/jobs")`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self, cast
from urllib.parse import quote, urlencode

import httpx2

from semel.faces.client.iterators import OpenStreams
from semel.text.json_types import Json
from semel.tools.address import LOCAL_URL, GatewayUnreachable, NoGateway, find_socket

CONNECT_TIMEOUT_S = 10.0
"""How long connecting may take, which also covers the handshake of TLS. After it, nothing was sent."""
ANSWER_TIMEOUT_S = 30.0
AGENT_START_TIMEOUT_S = 300.0
"""How long an operation may take that starts an agent."""
STREAM_TIMEOUT_S = 60.0
"""How long a stream may be silent before a ping has said how often pings come."""
MAX_SILENT_PING_INTERVALS = 2.5
"""After so many intervals between two pings without a byte, the connection is dead, even if nothing says so."""
DOWNLOAD_TIMEOUT_S = 300.0
UPLOAD_TIMEOUT_S = 3600.0
NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout)
"""Errors after which nothing of a request has left."""
NO_LIMIT = httpx2.Limits(max_connections=None, max_keepalive_connections=16)
"""Each stream keeps a connection: with a limit, that many streams would let no request through."""
RETRY_DELAYS_S = (0.1, 0.4, 1.0, 2.0)
"""Seconds between attempts to send a message whose answer was lost. All attempts carry the same id (Law 1)."""


class RequestRefused(Exception):
    """The gateway refused a request. `code` is the last part of the problem's type, such as `no-such-session`."""

    def __init__(self, status: int, code: str, detail: str):
        super().__init__(detail)
        self.status = status
        self.code = code


class OutcomeUnknown(Exception):
    """The connection broke before the answer came. It is safe to send the message again with the same `id` (Law 1)."""

    def __init__(self, request: str, id: str):
        super().__init__(f"the gateway went away before it answered: {request} may or may not have been accepted.")
        self.id = id


class NoAnswer(NoGateway):
    """The gateway was reached and did not answer in time. It may still carry out the request."""

    def __init__(self, timeout_s: float):
        Exception.__init__(self, timeout_s)
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return (
            f"the gateway did not answer within {self.timeout_s:g} s; it may still carry out the request. "
            "Try again later."
        )


class Connection:
    """Sends requests to the gateway of `data_dir` or, if that is None, to the one at `url` with the owner's `token`.

    Every method may raise NoGateway or RequestRefused.
    """

    def __init__(self, data_dir: Path | None, url: str | None = None, token: str | None = None):
        self.data_dir = data_dir
        self.open_streams = OpenStreams()
        self._place = url or str(data_dir)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if data_dir is None:
            self._http = httpx2.AsyncClient(
                base_url=url or "", headers=headers, timeout=ANSWER_TIMEOUT_S, limits=NO_LIMIT, trust_env=False
            )
            return
        socket = find_socket(data_dir)
        transport = httpx2.AsyncHTTPTransport(uds=str(socket), verify=False, limits=NO_LIMIT, trust_env=False)  # no TLS
        self._http = httpx2.AsyncClient(
            transport=transport, base_url=LOCAL_URL, timeout=ANSWER_TIMEOUT_S, trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.open_streams.close()
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._place}>"

    # ------------------------------------------------------------ one request, one answer

    async def get(self, path: str, **query: str | int | None) -> Json:
        """Make a GET request and return the JSON answer. Values of the query that are `None` are not sent."""
        parameters = {name: value for name, value in query.items() if value is not None}
        return await self._ask("GET", path + (f"?{urlencode(parameters)}" if parameters else ""))

    async def post(self, path: str, body: Json | None = None, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Json:
        """Make a POST request and return the JSON answer."""
        return await self._ask("POST", path, body, timeout_s)

    async def put(self, path: str, body: Json) -> Json:
        """Make a PUT request and return the JSON answer."""
        return await self._ask("PUT", path, body)

    async def patch(self, path: str, body: Json) -> Json:
        """Make a PATCH request and return the JSON answer."""
        return await self._ask("PATCH", path, body)

    async def delete(self, path: str) -> None:
        """Make a DELETE request."""
        await self._ask("DELETE", path)

    async def list_all(self, path: str, name: str, **query: str | int | None) -> list[Json]:
        """Return the rows of all pages of a listing. `name`: the field of an answer that holds them."""
        rows: list[Json] = []
        while True:
            page = await self.get(path, **query)
            rows += page[name]
            if not page["more"]:
                return rows
            query["after"] = page["next"]

    async def compare_memory(self, session: str) -> Json:
        """Compare the agent's own memory with the transcript (GET /v1/sessions/{key}/memory). This starts the agent."""
        return await self._ask("GET", f"{session_path(session)}/memory", timeout_s=AGENT_START_TIMEOUT_S)

    async def post_message(self, session: str, body: Json) -> Json:
        """Send a message, which needs an `id`, and return the gateway's answer. If the answer is lost, send the message
        again with the same id, so that it is accepted once.

        Raises NoGateway if the message provably did not arrive, OutcomeUnknown if it may have arrived.
        """
        last_error: Exception | None = None
        may_have_arrived = False  # whether any attempt got past connecting
        for delay in (*RETRY_DELAYS_S, None):
            try:
                return await self._call("POST", f"{session_path(session)}/messages", body, ANSWER_TIMEOUT_S)
            except httpx2.TransportError as error:
                last_error = error
                may_have_arrived = may_have_arrived or not isinstance(error, NOT_SENT)
            if delay is not None:
                await asyncio.sleep(delay)
        if may_have_arrived:
            raise OutcomeUnknown("the message", body["id"])
        raise self._explain_failure(last_error, ANSWER_TIMEOUT_S)

    # ------------------------------------------------------------ streams and files

    def stream(self, session: str, after: int | None = None) -> AsyncGenerator[Json, None]:
        """Yield the frames of one connection, {"type": "snapshot" | "change", "rev", ...}, until it ends or breaks.

        `after`: the rev after which the stream resumes; without one, it begins with a snapshot. Use it with `aclosing`.
        Raises NoGateway if the gateway did not begin to answer.
        """
        return self._read_frames(f"{session_path(session)}/stream", after)

    def stream_list(self, after: int | None = None) -> AsyncGenerator[Json, None]:
        """Yield the frames of one connection to the list of sessions, as `stream` does."""
        return self._read_frames("/v1/stream", after)

    async def _read_frames(self, path: str, after: int | None) -> AsyncGenerator[Json, None]:
        path += "?ping=1" if after is None else f"?ping=1&after={after}"
        has_begun = False
        try:
            async with self._open_stream(path, STREAM_TIMEOUT_S) as response:
                has_begun = True
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                response.stream = body = _LiveBody(response.stream, STREAM_TIMEOUT_S)
                async for event in httpx2.EventSource(response, max_event_size=None):
                    if event.event == "ping":
                        body.max_silence_s = MAX_SILENT_PING_INTERVALS * json.loads(event.data)["every_ms"] / 1000
                    elif event.data:
                        yield {"type": event.event, **json.loads(event.data)}
        except httpx2.TransportError as error:
            if not has_begun:
                raise self._explain_failure(error, STREAM_TIMEOUT_S) from None
            return  # the stream broke off: complete frames were yielded already, and the caller resumes by rev
        except ValueError:
            return  # it broke off within a frame

    async def read_pieces(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield what a GET request answers, in pieces. Raises NoGateway if the connection breaks."""
        try:
            async with self._open_stream(path, DOWNLOAD_TIMEOUT_S) as response:
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx2.TransportError as error:
            raise self._explain_failure(error, DOWNLOAD_TIMEOUT_S) from None

    @contextlib.asynccontextmanager
    async def _open_stream(self, path: str, timeout_s: float) -> AsyncIterator[httpx2.Response]:
        async with self._http.stream("GET", path, timeout=_limit_time(timeout_s)) as response:
            if response.is_error:
                await response.aread()
                raise _read_failure(response)
            yield response

    async def post_file(self, path: str, file: Path | bytes, media_type: str) -> Json:
        """Send a file, or its content, as the body of a POST request, and return the JSON answer. Raises OSError."""
        headers = {"Content-Type": media_type}
        content = file if isinstance(file, bytes) else _read_file(file)
        try:
            response = await self._http.post(
                path, content=content, headers=headers, timeout=_limit_time(UPLOAD_TIMEOUT_S)
            )
        except httpx2.TransportError as error:
            raise self._explain_failure(error, UPLOAD_TIMEOUT_S) from None
        if response.is_error:
            raise _read_failure(response)
        return dict(response.json())

    # ------------------------------------------------------------ requests

    async def _ask(self, method: str, path: str, body: Json | None = None, timeout_s: float = ANSWER_TIMEOUT_S) -> Json:
        try:
            return await self._call(method, path, body, timeout_s)
        except httpx2.TransportError as error:
            raise self._explain_failure(error, timeout_s) from None

    def _explain_failure(self, error: Exception | None, timeout_s: float) -> NoGateway:
        """Return the error for a request that failed on its way. `timeout_s`: how long its answer might take."""
        if isinstance(error, httpx2.ConnectTimeout):
            return GatewayUnreachable(self._place, min(timeout_s, CONNECT_TIMEOUT_S))
        if isinstance(error, httpx2.TimeoutException):
            return NoAnswer(timeout_s)
        return NoGateway(self.data_dir) if self.data_dir is not None else GatewayUnreachable(self._place)

    async def _call(self, method: str, path: str, body: Json | None, timeout_s: float) -> Json:
        response = await self._http.request(method, path, json=body, timeout=_limit_time(timeout_s))
        if response.is_error:
            raise _read_failure(response)
        return dict(response.json()) if response.content else {}


class _LiveBody(httpx2.AsyncByteStream):
    """The body of a stream. Reading it raises ReadTimeout when no byte has come for `max_silence_s` seconds."""

    def __init__(self, body: httpx2.AsyncByteStream, max_silence_s: float):
        self._body = body
        self.max_silence_s = max_silence_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with contextlib.aclosing(cast("AsyncGenerator[bytes, None]", aiter(self._body))) as pieces:
            while True:
                try:
                    async with asyncio.timeout(self.max_silence_s):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise httpx2.ReadTimeout(f"no ping within {self.max_silence_s:g} s") from None
                yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


def quote_segment(text: str) -> str:
    """Quote a name, key or id as one segment of a path."""
    return quote(text, safe=":@!+=~")


def session_path(key: str) -> str:
    return f"/v1/sessions/{quote_segment(key)}"


def _limit_time(timeout_s: float) -> httpx2.Timeout:
    return httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))


async def _read_file(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, 1 << 18):
            yield piece


def _read_failure(response: httpx2.Response) -> RequestRefused | httpx2.TransportError:
    """Return the error for a request that failed. A gateway or a proxy that passed it on and got no answer says 502."""
    refusal = _parse_refusal(response)
    if response.status_code == HTTPStatus.BAD_GATEWAY and not refusal.code:
        return httpx2.RemoteProtocolError(str(refusal))
    return refusal


def _parse_refusal(response: httpx2.Response) -> RequestRefused:
    """Return the error for a refused request, from its problem document (RFC 9457) or, without one, its status."""
    try:
        problem = response.json()
        code = str(problem["type"]).rpartition(":")[2]
        return RequestRefused(response.status_code, code, str(problem.get("detail") or problem["title"]))
    except (ValueError, KeyError, TypeError):
        return RequestRefused(response.status_code, "", f"the gateway answered {response.status_code}")
