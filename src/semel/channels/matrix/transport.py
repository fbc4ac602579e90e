"""One request to the homeserver, and what its answer means.

Two ways, for two needs. `once`: exactly one attempt that tells "provably not sent" from "unknown", for everything that
a part needs on its way out. `Link`: a connection that stays, for what `run` reads.

What an answer to a write means (spec, "Standard error response", and measured on Synapse 1.163):

| answer | taken as |
|---|---|
| 2xx with what was asked for | done |
| 429; 403 M_RESOURCE_LIMIT_EXCEEDED | not now: not taken (Retry-After, else retry_after_ms) |
| 401 | the token is not taken, so neither is the request |
| 3xx | not taken; nothing is followed |
| other 4xx with an errcode | a definite no |
| 4xx without one | not the homeserver, something before it: nothing is settled |
| 5xx, 408, 2xx without what was asked for | nothing is settled |
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote as _quote
from urllib.parse import urlencode

import httpx2

from semel.channels import http
from semel.channels.http import AGENT, Answer, request, trust
from semel.gateway.ports import NotSent, Offline, Rejected, Unknown
from semel.text.wellformed import scrub

Json = dict[str, Any]
CLIENT = "/_matrix/client/v3"
MOST = 8 * 1024 * 1024
"""Bytes of an answer: a page of 100 events of 65,536 bytes each fits."""
NEWS = 128 * 1024 * 1024
"""Bytes of an answer to what is read: a first /sync of an account in many rooms has tens of megabytes."""
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
LATER = 60.0
"""Seconds after which what a person has to mend first is tried again."""


class Refusal(Exception):
    """The homeserver's answer was no. `code` is its errcode, "" where it gave none."""

    def __init__(self, status: int, data: Json, headers: Mapping[str, str]) -> None:
        self.status = status
        self.code = str(data.get("errcode") or "")[:100]
        self.data = data
        self.retry_after = retry_after(headers, data)
        said = str(data.get("error") or "")[:200]
        super().__init__(" ".join(part for part in (f"HTTP {status}", self.code, said) if part.isprintable() and part))


@dataclass(frozen=True)
class Reply:
    """An answer's status, and its JSON: {} where it is none."""

    status: int
    headers: Mapping[str, str]
    data: Json = field(default_factory=dict)

    @property
    def token_refused(self) -> bool:
        return self.status == 401

    def refusal(self) -> Refusal:
        return Refusal(self.status, self.data, self.headers)


def quote(text: str) -> str:
    """One segment of a path."""
    return _quote(text, safe="")


def room_path(room: str, *more: str) -> str:
    """A path below a room."""
    return "/".join((f"{CLIENT}/rooms", quote(room), *map(quote, more)))


def query(**values: str) -> str:
    return "?" + urlencode(values)


def retry_after(headers: Mapping[str, str], data: Json) -> float | None:
    """Seconds: the header Retry-After, else `retry_after_ms` (which the header replaced in version 1.10)."""
    asked = http.retry_after(headers)
    if asked is not None:
        return asked
    ms = data.get("retry_after_ms")
    if isinstance(ms, int | float) and not isinstance(ms, bool) and 0 <= ms < 10**11:
        return ms / 1000
    return None


def parse(body: bytes) -> Json:
    """A JSON object; {} where it is none. Halves of surrogate pairs become U+FFFD: no path and no store takes them."""
    text = body.decode("utf-8", "replace")
    try:
        data = json.loads(text)
        data = scrub(data) if _HALF.search(text) else data
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


async def once(
    method: str,
    url: str,
    body: Json | bytes | None = None,
    *,
    token: str | None = None,
    mime: str = "application/json",
    timeout: float = 30.0,
) -> Reply:
    """Exactly one request. `timeout`: seconds for the answer, once connected. Raises NotSent or Unknown.

    The address stands in the configuration, so it may lead to this machine or its network.
    """
    content = body if body is None or isinstance(body, bytes) else dump(body)
    headers = {"accept": "application/json", "user-agent": AGENT, "accept-encoding": "identity"}
    headers |= {} if content is None else {"content-type": mime}
    headers |= {} if token is None else {"authorization": f"Bearer {token}"}
    answer: Answer = await request(method, url, content, headers, timeout=timeout, allow_private=True, most=MOST)
    return Reply(answer.status, answer.headers, parse(answer.body))


def dump(body: Json) -> bytes:
    """As short as it can be; half of a surrogate pair becomes a question mark."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def settle(reply: Reply, wanted: str) -> Json:
    """What the answer to a write means; `wanted` is the field that a good one has. Raises as the table says."""
    status = reply.status
    if 200 <= status < 300:
        if wanted and not (isinstance(reply.data.get(wanted), str) and reply.data[wanted]):
            raise Unknown(f"HTTP {status}, without {wanted}")
        return reply.data
    no = reply.refusal()
    if status == 429 or no.code in ("M_LIMIT_EXCEEDED", "M_RESOURCE_LIMIT_EXCEEDED"):
        raise NotSent(f"not now: {no}", no.retry_after if status == 429 else no.retry_after or LATER)
    if status == 401:
        raise NotSent(f"the homeserver does not take the access token: {no}")
    if status == 408 or status >= 500 or (status >= 400 and not no.code):
        raise Unknown(str(no))
    if status < 400:
        raise NotSent(f"HTTP {status}: redirects are not followed; set homeserver to where it leads", LATER)
    raise Rejected(str(no))


class Link:
    """A connection that stays, for reading. Nothing is repeated, redirected or sent through a proxy."""

    def __init__(self, base: str, tls: Any, timeout: float) -> None:
        self.base = base
        self.timeout = timeout
        self._client = httpx2.AsyncClient(
            verify=tls, trust_env=False, follow_redirects=False, timeout=timeout, headers={"user-agent": AGENT}
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, base: str, timeout: float) -> AsyncIterator[Link]:
        tls = await asyncio.to_thread(trust) if base.startswith("https") else False
        link = cls(base, tls, timeout)
        try:
            yield link
        finally:
            await link._client.aclose()

    async def get(self, path: str, token: str, wait: float = 0.0) -> Reply:
        """`wait`: seconds that the homeserver may hold the request. Raises Offline."""
        headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
        limits = httpx2.Timeout(self.timeout, read=self.timeout + wait)
        try:
            async with asyncio.timeout(4 * self.timeout + wait):
                async with self._client.stream("GET", self.base + path, headers=headers, timeout=limits) as answer:
                    body = await _within(answer, self.base)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            raise Offline(why(error, self.base)) from None
        return Reply(answer.status_code, answer.headers, parse(body))

    @asynccontextmanager
    async def stream(self, path: str, token: str | None) -> AsyncIterator[httpx2.Response]:
        """A download. Raises httpx2.HTTPError or OSError."""
        headers = {"accept-encoding": "identity"}  # what is unpacked here counts before it is refused
        headers |= {"authorization": f"Bearer {token}"} if token else {}
        async with self._client.stream("GET", self.base + path, headers=headers) as answer:
            yield answer


async def _within(answer: httpx2.Response, where: str) -> bytes:
    """The body, unpacked. Raises Offline for one that would fill the memory."""
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > NEWS:
            raise Offline(f"{httpx2.URL(where).host} answers with more than {NEWS // (1024 * 1024)} MB at once")
    return bytes(body)


def offline(reply: Reply) -> Offline | Refusal:
    """An answer to `run` that is not 2xx: the homeserver is not there now, or it says no."""
    no = reply.refusal()
    if reply.status == 429 or reply.status == 408 or reply.status >= 500:
        return Offline(str(no), no.retry_after)
    return no


def why(error: BaseException, where: str) -> str:
    host = httpx2.URL(where).host
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return f"{host} did not answer in time"
    return f"{host}: {str(error) or type(error).__name__}"
