"""HTTP client of a running gateway, on the unix socket in its data directory. The CLI and the terminal use it.

Whoever can reach that socket is the owner, so no token is needed (`tools/address.py`).

Callers name an operation by its path, as in /v1/openapi.json: `await client.get("/v1/jobs")`. Only operations that take
more than one request and answer have methods of their own: sending a message with retries, listings of several pages,
streams and files.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

import httpx2

from semel.text.json_types import Json
from semel.tools.address import LOCAL_URL, find_socket
from semel.tools.address import GatewayNotTrusted as GatewayNotTrusted
from semel.tools.address import NoGateway as NoGateway

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


class Client:
    """Sends requests to the gateway of a data directory.

    Every method may raise NoGateway or RequestRefused; `say` may also raise OutcomeUnknown.
    """

    def __init__(self, data_dir: Path):
        self.data_dir = data_dir
        self._socket = find_socket(data_dir)
        transport = httpx2.AsyncHTTPTransport(uds=str(self._socket), verify=False, trust_env=False)  # no TLS
        self._http = httpx2.AsyncClient(transport=transport, base_url=LOCAL_URL, timeout=30, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"<Client at {self._socket}>"

    # ------------------------------------------------------------ one request, one answer

    async def get(self, path: str, **query: str | int | None) -> Json:
        """Make a GET request and return the JSON answer. Values of the query that are `None` are not sent."""
        parameters = {name: value for name, value in query.items() if value is not None}
        return await self._ask("GET", path + (f"?{urlencode(parameters)}" if parameters else ""))

    async def post(self, path: str, body: Json | None = None) -> Json:
        return await self._ask("POST", path, body)

    async def put(self, path: str, body: Json) -> Json:
        return await self._ask("PUT", path, body)

    async def patch(self, path: str, body: Json) -> Json:
        return await self._ask("PATCH", path, body)

    async def delete(self, path: str) -> None:
        await self._ask("DELETE", path)

    # ------------------------------------------------------------ a message

    async def say(
        self,
        session: str,
        text: str,
        *,
        sender: str | None = None,
        id: str | None = None,
        busy: str | None = None,
        automatic: bool = False,
        seen: int | None = None,
    ) -> Json:
        """Send a message and return the gateway's answer. If the answer is lost, send the message again with the same
        id, so that it is accepted once.

        `seen`: the rev of the view that the person was looking at.

        Raises NoGateway if the message provably did not arrive, OutcomeUnknown if it may have arrived.
        """
        body: Json = {"text": text, "id": id or uuid.uuid4().hex}
        optional = {"sender": sender, "busy": busy, "automatic": automatic, "seen": seen}
        body.update((name, value) for name, value in optional.items() if value)
        may_have_arrived = False  # whether any attempt got past connecting
        for delay in (*RETRY_DELAYS_S, None):
            try:
                return await self._call("POST", f"{session_path(session)}/messages", body)
            except httpx2.TransportError as error:
                may_have_arrived = may_have_arrived or not isinstance(error, httpx2.ConnectError)
                if delay is None:
                    raise (
                        OutcomeUnknown("the message", body["id"]) if may_have_arrived else NoGateway(self.data_dir)
                    ) from None
                await asyncio.sleep(delay)
        raise AssertionError

    # ------------------------------------------------------------ listings of many pages

    async def sessions(self, archived: bool = False) -> list[Json]:
        """Return all sessions that are not archived, newest first; with `archived`, the archived ones instead."""
        rows: list[Json] = []
        while True:
            before = rows[-1]["key"] if rows else None
            page = await self.get("/v1/sessions", limit=1000, archived=int(archived), before=before)
            rows += page["sessions"]
            if not page.get("more"):
                return rows

    async def entries(self, session: str, after: int = 0) -> list[Json]:
        """Return every entry whose rev is above `after`, in the order of the view."""
        entries: dict[int, Json] = {}
        while True:
            page = await self.get(f"{session_path(session)}/entries", after=after)
            entries.update((entry["seq"], entry) for entry in page["entries"])
            if not page["entries"] or page["rev"] <= after:
                return sorted(entries.values(), key=lambda entry: int(entry["born"]))
            after = page["rev"]

    # ------------------------------------------------------------ streams and files

    async def stream(self, session: str, after: int | None = None) -> AsyncIterator[Json]:
        """Yield the frames of one connection, {"type": "snapshot" | "change", "rev", ...}, until it ends or breaks.

        `after`: the rev after which the stream resumes; without one, it begins with a snapshot.
        """
        path = f"{session_path(session)}/stream" + (f"?after={after}" if after is not None else "")
        timeout = httpx2.Timeout(30, read=60)  # the gateway's heartbeat comes well within it
        try:
            async with self._open_stream(path, timeout) as response:
                async for event in httpx2.EventSource(response, max_event_size=None):
                    if event.data:
                        yield {"type": event.event, **json.loads(event.data)}
        except httpx2.ConnectError:
            raise NoGateway(self.data_dir) from None
        except (httpx2.TransportError, ValueError):
            return  # the stream broke off: complete frames were yielded already, and the caller resumes by rev

    async def export(self, session: str, format: str) -> AsyncGenerator[bytes, None]:
        """Yield the exported document in pieces. Raises NoGateway if the connection breaks."""
        path = f"{session_path(session)}/export?format={format}"
        try:
            async with self._open_stream(path, httpx2.Timeout(300)) as response:
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx2.TransportError:
            raise NoGateway(self.data_dir) from None

    @contextlib.asynccontextmanager
    async def _open_stream(self, path: str, timeout: httpx2.Timeout) -> AsyncIterator[httpx2.Response]:
        async with self._http.stream("GET", path, timeout=timeout) as response:
            if response.is_error:
                await response.aread()
                raise _parse_refusal(response)
            yield response

    async def import_file(self, path: Path, key: str | None = None) -> Json:
        """Import an exported session. Returns {"session", "status": "imported" | "known", "entries"}.

        `key`: the new session's key, if not the exported one. Repeating the import is harmless.
        """
        url = "/v1/import" + (f"?{urlencode({'as': key})}" if key else "")
        headers = {"Content-Type": "application/jsonl"}
        try:
            response = await self._http.post(url, content=_read_pieces(path), headers=headers, timeout=3600)
        except httpx2.TransportError:
            raise NoGateway(self.data_dir) from None
        if response.is_error:
            raise _parse_refusal(response)
        return dict(response.json())

    # ------------------------------------------------------------ requests

    async def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        try:
            return await self._call(method, path, body)
        except httpx2.TransportError:
            raise NoGateway(self.data_dir) from None

    async def _call(self, method: str, path: str, body: Json | None) -> Json:
        response = await self._http.request(method, path, json=body)
        if response.is_error:
            raise _parse_refusal(response)
        return dict(response.json()) if response.content else {}


def quote_segment(text: str) -> str:
    """Quote a name, key or id as one segment of a path."""
    return quote(text, safe=":@!+=~")


def session_path(key: str) -> str:
    return f"/v1/sessions/{quote_segment(key)}"


async def _read_pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, 1 << 18):
            yield piece


def _parse_refusal(response: httpx2.Response) -> RequestRefused:
    """Return the error for a refused request, from its problem document (RFC 9457) or, without one, its status."""
    try:
        problem = response.json()
        code = str(problem["type"]).rpartition(":")[2]
        return RequestRefused(response.status_code, code, str(problem.get("detail") or problem["title"]))
    except (ValueError, KeyError, TypeError):
        return RequestRefused(response.status_code, "", f"the gateway answered {response.status_code}")
