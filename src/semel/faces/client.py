"""A client of a running gateway's HTTP API, with the owner's token: what the CLI and the terminal use.

Its address and token are read from the data directory (`gateway.json`, `owner.token`), so that whoever can
read those files is the owner. They go to no process of another user (`tools/address.py`). Shapes are those of
/v1/openapi.json.
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
"""Seconds between attempts to say something whose answer was lost: the same id makes a repeat harmless."""


class Refused(Exception):
    """The gateway said no. `code` is the last word of the problem's type, such as `no-such-session`."""

    def __init__(self, status: int, code: str, detail: str):
        super().__init__(detail)
        self.status = status
        self.code = code


class OutcomeUnknown(Exception):
    """The connection broke before an answer came. A repeat with the same id is accepted at most once."""

    def __init__(self, what: str, id: str):
        super().__init__(f"the gateway went away before it answered: {what} may or may not have been accepted.")
        self.id = id


class Client:
    """One method a request. Raises NoGateway, Refused, or (from `say`) OutcomeUnknown."""

    def __init__(self, data_dir: Path, transport: httpx2.AsyncBaseTransport | None = None):
        self.data_dir = data_dir
        self.address = Address.of(data_dir)
        hooks = {"request": [_watched]}
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
        """Say something, once: a lost answer is followed by the same message under the same id.

        `seen`: the rev of the view that the person had before them.

        Raises NoGateway where it provably did not arrive, OutcomeUnknown where it may have.
        """
        body: Json = {"text": text, "id": id or uuid.uuid4().hex}
        told = {"sender": sender, "busy": busy, "automatic": automatic, "seen": seen}
        body.update((name, value) for name, value in told.items() if value)
        left = False  # whether it ever got further than an attempt to connect
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
        """The address now: a gateway that was started again may listen elsewhere."""
        try:
            return Address.of(self.data_dir)
        except NoGateway:
            return self.address

    async def stop(self, session: str, by: str) -> bool:
        return bool((await self._ask("POST", _session(session, "stop"), {"by": by}))["stopped"])

    async def set_busy(self, session: str, mode: str | None) -> None:
        """What becomes of messages while it is busy; None: as configured."""
        await self._ask("PUT", _session(session, "busy"), {"mode": mode})

    async def answer(self, session: str, item: int, option: str | None, by: str, seen: int | None = None) -> str:
        """ "answered", "already" (somebody was faster) or "closed". `seen`: the rev of the view it is answered in."""
        body = {"item": item, "option": option, "by": by, "seen": seen}
        return str((await self._ask("POST", _session(session, "answers"), body))["outcome"])

    # ------------------------------------------------------------ looking

    async def sessions(self, archived: bool = False) -> list[Json]:
        """All of them, newest first."""
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
        """`change`: "title" (None: the agent's) and "archived", as far as they change."""
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
        """The stretch of the view before the entry with this seq."""
        return await self._ask("GET", _session(session, f"history?before={before}&limit={limit}"))

    async def stream(self, session: str, after: int | None = None) -> AsyncIterator[Json]:
        """One connection's frames, {"type": "snapshot" | "change", "rev", ...}, until the gateway ends it."""
        path = _session(session, "stream" + (f"?after={after}" if after is not None else ""))
        timeout = httpx2.Timeout(30, read=60)  # the gateway's heartbeat comes well within it
        try:
            async with self._http.stream(
                "GET", self.address.url + path, headers=self._headers(), timeout=timeout
            ) as response:
                if response.is_error:
                    await response.aread()
                    raise _refusal(response)
                async for event in httpx2.EventSource(response, max_event_size=None):
                    if event.data:
                        yield {"type": event.event, **json.loads(event.data)}
        except httpx2.ConnectError:
            raise NoGateway(self.data_dir) from None
        except (httpx2.TransportError, ValueError):
            return  # cut off in the middle: what came is whole, and the rest is asked for by rev

    # ------------------------------------------------------------ what was said before

    async def search(self, text: str, **where: Any) -> Json:
        """A page of what is found; `where`: the parameters of GET /v1/search, what is None is left out."""
        query = {"q": text, **{name: value for name, value in where.items() if value is not None}}
        return await self._ask("GET", f"/v1/search?{urlencode(query)}")

    async def export(self, session: str, format: str) -> AsyncGenerator[bytes, None]:
        """The document, piece by piece. Raises NoGateway where it breaks off."""
        url = self.address.url + _session(session, f"export?format={format}")
        try:
            async with self._http.stream("GET", url, headers=self._headers(), timeout=300) as response:
                if response.is_error:
                    await response.aread()
                    raise _refusal(response)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx2.TransportError:
            raise NoGateway(self.data_dir) from None

    async def import_file(self, path: Path, key: str | None = None) -> Json:
        """{"session", "status": "imported" | "known", "entries"}. A lost answer: the same once more is harmless."""
        url = self.address.url + "/v1/import" + (f"?as={quote(key, safe='')}" if key else "")
        headers = {**self._headers(), "Content-Type": "application/jsonl"}
        try:
            response = await self._http.post(url, content=_pieces(path), headers=headers, timeout=3600)
        except httpx2.TransportError:
            raise NoGateway(self.data_dir) from None
        if response.is_error:
            raise _refusal(response)
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
        """`resend`, `arrived` or `drop` a part that is held."""
        return await self._ask("POST", f"/v1/parts/{id}/{verdict}")

    # ------------------------------------------------------------ background jobs

    async def channels(self) -> list[Json]:
        """Every channel and how it fares."""
        return list((await self._ask("GET", "/v1/channels"))["channels"])

    async def quarantined(self) -> list[Json]:
        """The newest of what channels told of and nobody could use."""
        return list((await self._ask("GET", "/v1/quarantined"))["quarantined"])

    async def jobs(self, session: str | None = None) -> list[Json]:
        """Of a session, newest first; without one, all that are not over."""
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
        """`told`: the fields of a NewSchedule."""
        return await self._ask("POST", "/v1/schedules", told)

    async def remove_schedule(self, name: str) -> None:
        await self._ask("DELETE", _schedule(name))

    async def turn_schedule(self, name: str, verb: str) -> Json:
        """`pause` or `resume` it."""
        return await self._ask("POST", f"{_schedule(name)}/{verb}")

    # ------------------------------------------------------------ people

    async def people(self) -> list[Json]:
        """Everybody who may talk, by name."""
        return list((await self._ask("GET", "/v1/people"))["people"])

    async def strangers(self) -> Json:
        """Who was refused lately, how often, and the newest codes."""
        return await self._ask("GET", "/v1/people/strangers")

    async def add_account(self, told: Json) -> Json:
        """`told`: the fields of a NewAccount. The person it belongs to."""
        return await self._ask("POST", "/v1/people", told)

    async def remove_account(self, account: str) -> None:
        await self._ask("DELETE", f"/v1/people/{quote(account, safe=':@')}")

    async def pair(self, told: Json) -> Json:
        """`told`: the fields of a NewCode. The code, told once."""
        return await self._ask("POST", "/v1/people/codes", told)

    # ------------------------------------------------------------ how

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
            raise _refusal(response)
        return dict(response.json()) if response.content else {}


async def _watched(request: httpx2.Request) -> None:
    request.extensions["trace"] = look_async


def _session(key: str, rest: str = "") -> str:
    return f"/v1/sessions/{quote(key, safe=':@!+=~')}" + (f"/{rest}" if rest else "")


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, 1 << 18):
            yield piece


def _schedule(name: str) -> str:
    return f"/v1/schedules/{quote(name, safe='')}"


def _refusal(response: httpx2.Response) -> Refused:
    """A problem document (RFC 9457), or whatever else came instead of one."""
    try:
        problem = response.json()
        code = str(problem["type"]).rpartition(":")[2]
        return Refused(response.status_code, code, str(problem.get("detail") or problem["title"]))
    except (ValueError, KeyError, TypeError):
        return Refused(response.status_code, "", f"the gateway answered {response.status_code}")
