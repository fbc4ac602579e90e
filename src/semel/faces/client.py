"""HTTP client of a running gateway, with the owner's token. The CLI and the terminal use it.

The client reads the gateway's address and token from the data directory (`gateway.json`, `owner.token`): whoever can
read those files is the owner. It never sends the token to a process of another user (`tools/address.py`). Requests and
answers are those of /v1/openapi.json.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import httpx2

from semel.tools.address import Address as Address
from semel.tools.address import AnotherUsers as AnotherUsers
from semel.tools.address import NoGateway as NoGateway
from semel.tools.address import look_async

Json = dict[str, Any]

RETRIES = (0.1, 0.4, 1.0, 2.0)
"""Seconds between attempts to send a message whose answer was lost. All attempts carry the same id (Law 1)."""


class RequestRefused(Exception):
    """The gateway refused a request. `code` is the last part of the problem's type, such as `no-such-session`."""

    def __init__(self, status: int, code: str, detail: str):
        super().__init__(detail)
        self.status = status
        self.code = code


class OutcomeUnknown(Exception):
    """The connection broke before the answer came. It is safe to send the message again with the same `id` (Law 1)."""

    def __init__(self, what: str, id: str):
        super().__init__(f"the gateway went away before it answered: {what} may or may not have been accepted.")
        self.id = id


class Client:
    """One method per API request. Methods raise NoGateway or RequestRefused; `say` may also raise OutcomeUnknown."""

    def __init__(self, data_dir: Path, transport: httpx2.AsyncBaseTransport | None = None):
        self.data_dir = data_dir
        self.address = Address.of(data_dir)
        hooks = {"request": [_check_peer_on_connect]}
        self._http = httpx2.AsyncClient(transport=transport, timeout=30, trust_env=False, event_hooks=hooks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"<Client of {self.address.url}>"

    # ------------------------------------------------------------ talking

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
        """Send a message; if the answer is lost, send it again with the same id, so that it is accepted once.

        `seen` is the rev of the view that the person was looking at.

        Raises NoGateway if the message provably did not arrive, OutcomeUnknown if it may have arrived.
        """
        body: Json = {"text": text, "id": id or uuid.uuid4().hex}
        told = {"sender": sender, "busy": busy, "automatic": automatic, "seen": seen}
        body.update((name, value) for name, value in told.items() if value)
        left = False  # whether any attempt got past connecting
        for pause in (*RETRIES, None):
            try:
                return await self._call("POST", _session(session, "messages"), body)
            except httpx2.TransportError as error:
                left = left or not isinstance(error, httpx2.ConnectError)
                if pause is None:
                    raise (OutcomeUnknown("the message", body["id"]) if left else NoGateway(self.data_dir)) from None
                await asyncio.sleep(pause)
                self.address = self._address()
        raise AssertionError

    def _address(self) -> Address:
        """The current address: a restarted gateway may listen on another port."""
        try:
            return Address.of(self.data_dir)
        except NoGateway:
            return self.address

    async def stop(self, session: str, by: str) -> bool:
        return bool((await self._ask("POST", _session(session, "stop"), {"by": by}))["stopped"])

    async def set_busy(self, session: str, mode: str | None) -> None:
        """Set the session's busy mode; `None` returns to the configured one."""
        await self._ask("PUT", _session(session, "busy"), {"mode": mode})

    async def answer(self, session: str, item: int, option: str | None, by: str, seen: int | None = None) -> str:
        """Answer a request: "answered", "already" (somebody was faster) or "closed". `seen`: rev of the view shown."""
        body = {"item": item, "option": option, "by": by, "seen": seen}
        return str((await self._ask("POST", _session(session, "answers"), body))["outcome"])

    # ------------------------------------------------------------ looking

    async def sessions(self, archived: bool = False) -> list[Json]:
        """All sessions, newest first; with `archived`, the archived ones instead."""
        found: list[Json] = []
        while True:
            after = f"&before={quote(found[-1]['key'], safe='')}" if found else ""
            page = await self._ask("GET", f"/v1/sessions?limit=1000&archived={int(archived)}{after}")
            found += page["sessions"]
            if not page.get("more"):
                return found

    async def session(self, session: str) -> Json:
        return await self._ask("GET", _session(session))

    async def change_session(self, session: str, change: Json) -> Json:
        """Change "title" (`None`: use the agent's) or "archived"; keys left out stay. Returns the session."""
        return await self._ask("PATCH", _session(session), change)

    async def delete_session(self, session: str) -> None:
        await self._ask("DELETE", _session(session))

    async def new_chapter(self, session: str, by: str, id: str) -> Json:
        return await self._ask("POST", _session(session, "chapter"), {"by": by, "id": id})

    async def entries(self, session: str, after: int = 0) -> list[Json]:
        """Every entry whose rev is above `after`, in the order of the view."""
        found: dict[int, Json] = {}
        while True:
            page = await self._ask("GET", _session(session, f"entries?after={after}"))
            found.update((entry["seq"], entry) for entry in page["entries"])
            if not page["entries"] or page["rev"] <= after:
                return sorted(found.values(), key=lambda entry: int(entry["born"]))
            after = page["rev"]

    async def history(self, session: str, before: int, limit: int = 100) -> Json:
        """One page of the view: at most `limit` entries before the entry with seq `before`."""
        return await self._ask("GET", _session(session, f"history?before={before}&limit={limit}"))

    async def stream(self, session: str, after: int | None = None) -> AsyncIterator[Json]:
        """The frames of one connection, {"type": "snapshot" | "change", "rev", ...}, until it ends or breaks."""
        path = _session(session, "stream" + (f"?after={after}" if after is not None else ""))
        timeout = httpx2.Timeout(30, read=60)  # the gateway's heartbeat comes well within it
        try:
            async with self._http.stream(
                "GET", self.address.url + path, headers=self._headers(), timeout=timeout
            ) as response:
                if response.is_error:
                    await response.aread()
                    raise _parse_refusal(response)
                async for event in httpx2.EventSource(response, max_event_size=None):
                    if event.data:
                        yield {"type": event.event, **json.loads(event.data)}
        except httpx2.ConnectError:
            raise NoGateway(self.data_dir) from None
        except (httpx2.TransportError, ValueError):
            return  # cut off: complete frames were yielded already, and the caller resumes by rev

    # ------------------------------------------------------------ search, export, import

    async def search(self, text: str, **where: Any) -> Json:
        """One page of search results. `where` holds parameters of GET /v1/search; `None` values are not sent."""
        query = {"q": text, **{name: value for name, value in where.items() if value is not None}}
        return await self._ask("GET", f"/v1/search?{urlencode(query)}")

    async def export(self, session: str, format: str) -> AsyncGenerator[bytes, None]:
        """The exported document in pieces. Raises NoGateway if the connection breaks."""
        url = self.address.url + _session(session, f"export?format={format}")
        try:
            async with self._http.stream("GET", url, headers=self._headers(), timeout=300) as response:
                if response.is_error:
                    await response.aread()
                    raise _parse_refusal(response)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx2.TransportError:
            raise NoGateway(self.data_dir) from None

    async def import_file(self, path: Path, key: str | None = None) -> Json:
        """Import an export: {"session", "status": "imported" | "known", "entries"}. Repeating it is harmless."""
        url = self.address.url + "/v1/import" + (f"?as={quote(key, safe='')}" if key else "")
        headers = {**self._headers(), "Content-Type": "application/jsonl"}
        try:
            response = await self._http.post(url, content=_pieces(path), headers=headers, timeout=3600)
        except httpx2.TransportError:
            raise NoGateway(self.data_dir) from None
        if response.is_error:
            raise _parse_refusal(response)
        return dict(response.json())

    # ------------------------------------------------------------ the books and the outbox

    async def diff_agent(self, session: str) -> Json:
        return await self._ask("GET", _session(session, "memory"))

    async def why(self, ref: str) -> Json:
        return await self._ask("GET", f"/v1/why/{quote(ref, safe='')}")

    async def doctor(self) -> Json:
        return await self._ask("GET", "/v1/doctor")

    async def status(self) -> Json:
        return await self._ask("GET", "/v1/status")

    async def parts(self, state: str | None = None) -> list[Json]:
        query = f"?state={quote(state)}" if state else ""
        return list((await self._ask("GET", f"/v1/parts{query}"))["parts"])

    async def part(self, id: int) -> Json:
        return await self._ask("GET", f"/v1/parts/{id}")

    async def decide(self, id: int, verdict: str) -> Json:
        """Decide about a held part: `verdict` is `resend`, `arrived` or `drop`. Returns the part."""
        return await self._ask("POST", f"/v1/parts/{id}/{verdict}")

    # ------------------------------------------------------------ background jobs

    async def channels(self) -> list[Json]:
        """Every channel with its connection state, counters and last error."""
        return list((await self._ask("GET", "/v1/channels"))["channels"])

    async def quarantined(self) -> list[Json]:
        """The newest quarantined events: input that could not be read or accepted."""
        return list((await self._ask("GET", "/v1/quarantined"))["quarantined"])

    async def jobs(self, session: str | None = None) -> list[Json]:
        """The jobs of a session, newest first; without `session`, the unfinished jobs of all sessions."""
        return list((await self._ask("GET", _session(session, "jobs") if session else "/v1/jobs"))["jobs"])

    async def cancel_job(self, id: str, by: str) -> Json:
        return await self._ask("POST", f"/v1/jobs/{quote(id, safe='')}/cancel", {"by": by})

    # ------------------------------------------------------------ schedules

    async def schedules(self, session: str | None = None) -> list[Json]:
        query = f"?session={quote(session, safe='')}" if session else ""
        return list((await self._ask("GET", f"/v1/schedules{query}"))["schedules"])

    async def schedule(self, name: str) -> Json:
        return await self._ask("GET", _schedule(name))

    async def add_schedule(self, told: Json) -> Json:
        """Create a schedule from the fields of a `NewSchedule`."""
        return await self._ask("POST", "/v1/schedules", told)

    async def remove_schedule(self, name: str) -> None:
        await self._ask("DELETE", _schedule(name))

    async def turn_schedule(self, name: str, verb: str) -> Json:
        """Pause or resume a schedule: `verb` is "pause" or "resume"."""
        return await self._ask("POST", f"{_schedule(name)}/{verb}")

    # ------------------------------------------------------------ people

    async def people(self) -> list[Json]:
        """Everyone who may talk on a channel, ordered by name."""
        return list((await self._ask("GET", "/v1/people"))["people"])

    async def strangers(self) -> Json:
        """Recently refused senders with counts, and the newest pairing codes."""
        return await self._ask("GET", "/v1/people/strangers")

    async def add_account(self, told: Json) -> Json:
        """Add an account from the fields of a `NewAccount`. Returns the person it belongs to."""
        return await self._ask("POST", "/v1/people", told)

    async def remove_account(self, account: str) -> None:
        await self._ask("DELETE", f"/v1/people/{quote(account, safe=':@')}")

    async def pair(self, told: Json) -> Json:
        """Create a pairing code from the fields of a `NewCode`. Only this answer ever holds the code."""
        return await self._ask("POST", "/v1/people/codes", told)

    # ------------------------------------------------------------ requests

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.address.token}"}

    async def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        try:
            return await self._call(method, path, body)
        except httpx2.TransportError:
            raise NoGateway(self.data_dir) from None

    async def _call(self, method: str, path: str, body: Json | None) -> Json:
        response = await self._http.request(method, self.address.url + path, json=body, headers=self._headers())
        if response.is_error:
            raise _parse_refusal(response)
        return dict(response.json()) if response.content else {}


async def _check_peer_on_connect(request: httpx2.Request) -> None:
    request.extensions["trace"] = look_async


def _session(key: str, rest: str = "") -> str:
    return f"/v1/sessions/{quote(key, safe=':@!+=~')}" + (f"/{rest}" if rest else "")


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, 1 << 18):
            yield piece


def _schedule(name: str) -> str:
    return f"/v1/schedules/{quote(name, safe='')}"


def _parse_refusal(response: httpx2.Response) -> RequestRefused:
    """The error for a refused request, from its problem document (RFC 9457) or, if there is none, its status."""
    try:
        problem = response.json()
        code = str(problem["type"]).rpartition(":")[2]
        return RequestRefused(response.status_code, code, str(problem.get("detail") or problem["title"]))
    except (ValueError, KeyError, TypeError):
        return RequestRefused(response.status_code, "", f"the gateway answered {response.status_code}")
