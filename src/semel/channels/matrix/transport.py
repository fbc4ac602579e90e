"""HTTP requests to the homeserver, and the meaning of their answers.

There are two ways to make requests. `request_once` makes exactly one attempt over a new connection and distinguishes
"provably not sent" from "unknown"; `send` uses it. `MatrixReadConnection` is a persistent connection, which `run` uses
to read.

The meaning of an answer to a write (spec, "Standard error response", and measured on Synapse 1.163):

| answer | meaning |
|---|---|
| 2xx with the expected field | done |
| 429; 403 M_RESOURCE_LIMIT_EXCEEDED | `NotSent`, retried later (Retry-After, else retry_after_ms) |
| 401 | `NotSent`: the access token is refused |
| 3xx | `NotSent`; redirects are not followed |
| other 4xx with an errcode | `Rejected` |
| 4xx without an errcode | `Unknown`: from a proxy, not from the homeserver |
| 5xx, 408, 2xx without the expected field | `Unknown` |
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote as _quote
from urllib.parse import urlencode

import httpx2

from semel.channels import http
from semel.channels.http import USER_AGENT, HttpAnswer, request, system_tls_context
from semel.gateway.ports import NotSent, Offline, Rejected, Unknown
from semel.text.json_types import Json, object_at
from semel.text.wellformed import UNSTORABLE_ESCAPE, scrub

CLIENT = "/_matrix/client/v3"
MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""Maximum bytes of an answer to `request_once`; 100 events of 65,536 bytes each fit."""
MAX_READ_ANSWER_BYTES = 128 * 1024 * 1024
"""Maximum bytes of an answer over a `MatrixReadConnection`. The first /sync of an account in many rooms has tens of
megabytes."""
MANUAL_RETRY_DELAY_S = 60.0
"""Seconds before a retry if a person has to fix the cause first."""


class Refusal(Exception):
    """An error answer of the homeserver. `code` is its errcode, "" if it has none."""

    def __init__(self, status: int, data: Json, headers: Mapping[str, str]) -> None:
        self.status = status
        self.code = str(data.get("errcode") or "")[:100]
        self.data = data
        self.retry_after = retry_after(headers, data)
        description = str(data.get("error") or "")[:200]
        super().__init__(
            " ".join(part for part in (f"HTTP {status}", self.code, description) if part.isprintable() and part)
        )


@dataclass(frozen=True)
class MatrixReply:
    """An answer: its status, headers, and its body as a JSON object ({} if it is not one)."""

    status: int
    headers: Mapping[str, str]
    data: Json = field(default_factory=dict)

    @property
    def token_refused(self) -> bool:
        return self.status == 401

    def refusal(self) -> Refusal:
        return Refusal(self.status, self.data, self.headers)


def quote(text: str) -> str:
    """Percent-encode one path segment."""
    return _quote(text, safe="")


def room_path(room: str, *segments: str) -> str:
    """Return the API path of a room, or of a resource below the room."""
    return "/".join((f"{CLIENT}/rooms", quote(room), *map(quote, segments)))


def query(**values: str) -> str:
    return "?" + urlencode(values)


def retry_after(headers: Mapping[str, str], data: Json) -> float | None:
    """Return the seconds to wait, or None. They are in the header Retry-After or, before API version 1.10, in the
    field `retry_after_ms`."""
    seconds = http.retry_after(headers)
    if seconds is not None:
        return seconds
    ms = data.get("retry_after_ms")
    if isinstance(ms, int | float) and not isinstance(ms, bool) and 0 <= ms < 10**11:
        return ms / 1000
    return None


def parse_json(body: bytes) -> Json:
    """Parse a JSON object, and `scrub` its texts; {} for anything else."""
    try:
        data = json.loads(body.decode("utf-8", "replace"))
        data = scrub(data) if UNSTORABLE_ESCAPE.search(body) else data
    except (ValueError, RecursionError):
        return {}
    return object_at(data)


async def request_once(
    method: str,
    url: str,
    body: Json | bytes | None = None,
    *,
    token: str | None = None,
    mime: str = "application/json",
    timeout: float = 30.0,
) -> MatrixReply:
    """Make exactly one request and return its answer. Raises NotSent or Unknown.

    `timeout`: seconds for the answer, once connected.
    Private addresses are allowed, because the homeserver's address comes from the configuration.
    """
    content = body if body is None or isinstance(body, bytes) else dump(body)
    headers = {"accept": "application/json", "user-agent": USER_AGENT, "accept-encoding": "identity"}
    headers |= {} if content is None else {"content-type": mime}
    headers |= {} if token is None else {"authorization": f"Bearer {token}"}
    answer: HttpAnswer = await request(
        method, url, content, headers, timeout=timeout, allow_private=True, most=MAX_ANSWER_BYTES
    )
    return MatrixReply(answer.status, answer.headers, parse_json(answer.body))


def dump(body: Json) -> bytes:
    """Encode as compact JSON in UTF-8. Unpaired surrogates become question marks."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def check_write(reply: MatrixReply, field: str) -> Json:
    """Return the JSON of a successful write. `field`: the field that a success must have; "" if it needs none.

    Raises NotSent, Rejected or Unknown, by the table at the top of this module.
    """
    status = reply.status
    if 200 <= status < 300:
        if field and not (isinstance(reply.data.get(field), str) and reply.data[field]):
            raise Unknown(f"HTTP {status}, without {field}")
        return reply.data
    refusal = reply.refusal()
    if status == 429 or refusal.code in ("M_LIMIT_EXCEEDED", "M_RESOURCE_LIMIT_EXCEEDED"):
        raise NotSent(
            f"not now: {refusal}", refusal.retry_after if status == 429 else refusal.retry_after or MANUAL_RETRY_DELAY_S
        )
    if status == 401:
        raise NotSent(f"the homeserver does not take the access token: {refusal}")
    if status == 408 or status >= 500 or (status >= 400 and not refusal.code):
        raise Unknown(str(refusal))
    if status < 400:
        raise NotSent(
            f"HTTP {status}: redirects are not followed; set homeserver to where it leads", MANUAL_RETRY_DELAY_S
        )
    raise Rejected(str(refusal))


class MatrixReadConnection:
    """A persistent HTTP connection for reading, without retries, redirects or proxies."""

    def __init__(self, base: str, tls: Any, timeout: float) -> None:
        self.base = base
        self.timeout = timeout
        self._client = httpx2.AsyncClient(
            verify=tls, trust_env=False, follow_redirects=False, timeout=timeout, headers={"user-agent": USER_AGENT}
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, base: str, timeout: float) -> AsyncIterator[MatrixReadConnection]:
        tls = await asyncio.to_thread(system_tls_context) if base.startswith("https") else False
        link = cls(base, tls, timeout)
        try:
            yield link
        finally:
            await link._client.aclose()

    async def get(self, path: str, token: str, wait: float = 0.0) -> MatrixReply:
        """Make a GET request. `wait`: seconds for which the homeserver may hold it. Raises Offline."""
        headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
        limits = httpx2.Timeout(self.timeout, read=self.timeout + wait)
        try:
            async with asyncio.timeout(4 * self.timeout + wait):
                async with self._client.stream("GET", self.base + path, headers=headers, timeout=limits) as answer:
                    body = await _read_bounded(answer, self.base)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            raise Offline(describe_error(error, self.base)) from None
        return MatrixReply(answer.status_code, answer.headers, parse_json(body))

    @asynccontextmanager
    async def stream(self, path: str, token: str | None) -> AsyncIterator[httpx2.Response]:
        """Stream the answer to a GET, for downloads. Raises httpx2.HTTPError or OSError."""
        headers = {"accept-encoding": "identity"}  # no compression: a small body could unpack to a huge one
        headers |= {"authorization": f"Bearer {token}"} if token else {}
        async with self._client.stream("GET", self.base + path, headers=headers) as answer:
            yield answer


async def _read_bounded(answer: httpx2.Response, base: str) -> bytes:
    """Return the decompressed body. Raises Offline if it exceeds MAX_READ_ANSWER_BYTES."""
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > MAX_READ_ANSWER_BYTES:
            raise Offline(
                f"{httpx2.URL(base).host} answers with more than {MAX_READ_ANSWER_BYTES // (1024 * 1024)} MB at once"
            )
    return bytes(body)


def classify_read_error(reply: MatrixReply) -> Offline | Refusal:
    """Classify an error answer to a read: Offline if it is transient, else the Refusal."""
    refusal = reply.refusal()
    if reply.status == 429 or reply.status == 408 or reply.status >= 500:
        return Offline(str(refusal), refusal.retry_after)
    return refusal


def describe_error(error: BaseException, base: str) -> str:
    host = httpx2.URL(base).host
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return f"{host} did not answer in time"
    return f"{host}: {str(error) or type(error).__name__}"
