"""Send one HTTP request with a definite outcome: an answer, provably not sent, or unknown (Law 7).

At most one request leaves: a fresh connection, no retries, no redirects, no proxy. A failure before the first byte of
the request is written is NotSent, and the next address of the host is tried. After that, the outcome is the HTTP
answer, or Unknown if none arrives.

Against DNS rebinding and SSRF, the host is resolved once, its addresses are checked, and the connection is made to one
of the checked addresses; the name cannot resolve to another address between check and use.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpx2

from semel.channels.downloads import FileNotNow
from semel.channels.public_address import is_public
from semel.gateway.ports import NotSent, Offline, Unknown
from semel.timing.durations import read_retry_after

USER_AGENT = "Semel"
CONNECT_TIMEOUT_S = 10.0
"""Time limit in seconds for the name look-up, and again for all connection attempts (TCP and TLS)."""
MAX_ANSWER_BYTES = 64 * 1024
"""Bytes of an answer's body that are read by default; the rest is discarded."""


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer. Header names are lower-case; `body` is cut off at the requested limit."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_complete(self) -> bool:
        """Whether a JSON body came whole: by its Content-Length, or else by its closing brace."""
        length = self.headers.get("content-length", "")
        if length.isascii() and length.isdigit():
            return len(self.body) == int(length)
        return self.body.rstrip().endswith(b"}")


async def look_up(host: str, port: int, *, allow_private: bool) -> list[str]:
    """Resolve a host to the addresses that may be connected to, in the system's order. Raises NotSent if none may."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotSent(f"{host} cannot be looked up: {getattr(error, 'strerror', None) or error}") from None
    addresses = list(dict.fromkeys(str(each[4][0]) for each in infos))
    allowed = [each for each in addresses if allow_private or is_public(each)]
    if not allowed:
        place = f"{', '.join(addresses)}, " if addresses != [host] else ""
        raise NotSent(
            f"{host} is {place}inside this machine or its own network; "
            "set allow_private = true for this channel if that is meant"
        )
    return allowed


async def request(
    method: str,
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    timeout: float,
    allow_private: bool = False,
    tls: ssl.SSLContext | None = None,
    most: int = MAX_ANSWER_BYTES,
) -> HttpAnswer:
    """Send one request and return the answer. Tries the host's addresses in turn until one accepts the connection.

    `timeout`: seconds for the answer, once connected. `most`: bytes of the answer's body to read.

    Raises NotSent or Unknown.
    """
    target = httpx2.URL(url)
    port = target.port or (443 if target.scheme == "https" else 80)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            addresses = await look_up(target.host, port, allow_private=allow_private)
    except TimeoutError:
        raise NotSent(f"{target.host} was not looked up within {CONNECT_TIMEOUT_S:g} s") from None
    outgoing = _OutgoingRequest(method, target, body, headers, timeout, tls, most)
    deadline = asyncio.get_running_loop().time() + CONNECT_TIMEOUT_S
    for address in addresses[:-1]:
        try:
            return await _attempt(outgoing, address, CONNECT_TIMEOUT_S / 2)
        except NotSent:
            if asyncio.get_running_loop().time() >= deadline:
                raise
    remaining_s = max(1.0, deadline - asyncio.get_running_loop().time())
    return await _attempt(outgoing, addresses[-1], remaining_s)


@dataclass(frozen=True)
class _OutgoingRequest:
    """A request, independent of the address that it is sent to."""

    method: str
    url: httpx2.URL
    body: bytes | None
    headers: Mapping[str, str]
    timeout: float
    tls: ssl.SSLContext | None
    max_bytes: int


async def _attempt(outgoing: _OutgoingRequest, address: str, connect: float) -> HttpAnswer:
    """Send the request to one address and return the answer. `connect`: seconds to connect.

    Raises NotSent if no byte of the request was sent, else Unknown.
    """
    may_have_left = False  # whether a byte of the request may have been sent

    async def trace(event: str, info: Mapping[str, Any]) -> None:
        nonlocal may_have_left
        may_have_left = may_have_left or event == "http11.send_request_headers.started"

    url, timeout, tls = outgoing.url, outgoing.timeout, outgoing.tls
    request = httpx2.Request(
        outgoing.method,
        url.copy_with(host=address),
        content=outgoing.body,
        headers={"host": url.netloc.decode("ascii"), "connection": "close", **outgoing.headers},
        extensions={
            "trace": trace,
            "sni_hostname": url.host,
            "timeout": {"connect": connect, "read": timeout, "write": timeout, "pool": connect},
        },
    )
    if url.scheme == "https" and tls is None:
        tls = await asyncio.to_thread(system_tls_context)
    transport = httpx2.AsyncHTTPTransport(verify=tls or False, trust_env=False, retries=0)
    try:
        async with transport, asyncio.timeout(connect + timeout):
            response = await transport.handle_async_request(request)
            return await _read(response, outgoing.max_bytes)
    except (httpx2.HTTPError, OSError, TimeoutError) as error:
        reason = _describe_error(error, url.host)
        raise (Unknown(reason) if may_have_left else NotSent(reason)) from None


async def _read(response: httpx2.Response, max_bytes: int) -> HttpAnswer:
    """Read the body up to `max_bytes`. A truncated body is not an error, because the status decides the outcome."""
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) >= max_bytes:
                break
    except (httpx2.HTTPError, OSError):
        pass
    finally:
        await response.aclose()
    headers = {name.lower(): value for name, value in response.headers.items()}
    return HttpAnswer(response.status_code, headers, bytes(body[:max_bytes]))


async def stream_file(
    address: str | httpx2.URL, headers: Mapping[str, str], timeout: float, check: Callable[[httpx2.Response], None]
) -> AsyncGenerator[bytes, None]:
    """Stream the body of a GET, as it comes. The caller has checked that the address is at the platform.

    `timeout`: seconds without a byte. `check`: called with the answer before its body is read; it raises FileNotNow, or
    what else the caller wants, unless the body is the file. Raises Offline if no connection can be opened, and
    FileNotNow if it breaks off.
    """
    url = httpx2.URL(address)
    wait = {"connect": CONNECT_TIMEOUT_S, "read": timeout, "write": timeout, "pool": CONNECT_TIMEOUT_S}
    request = httpx2.Request("GET", url, headers={"connection": "close", **headers}, extensions={"timeout": wait})
    verify = await asyncio.to_thread(system_tls_context) if url.scheme == "https" else False
    try:
        async with httpx2.AsyncHTTPTransport(verify=verify, trust_env=False, retries=0) as transport:
            response = await transport.handle_async_request(request)
            try:
                check(response)
                async for piece in response.aiter_raw():
                    yield piece
            finally:
                await response.aclose()
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise Offline(_describe_error(error, url.host)) from None
    except (httpx2.HTTPError, OSError) as error:
        raise FileNotNow(f"{url.host} broke off ({type(error).__name__})") from None


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds to wait according to the Retry-After header; None if there is none.

    `headers`: with names in lower case. `now`: seconds since the epoch, by default the clock's time.
    """
    return read_retry_after(headers.get("retry-after", ""), time.time() if now is None else now)


def read_date(headers: Mapping[str, str]) -> float | None:
    """Return the server's time by the Date header, in seconds since the epoch; None if there is none."""
    try:
        return parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _describe_error(error: BaseException, host: str) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return f"{host} took too long to accept a connection"
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return f"{host} did not answer in time"
    cause: BaseException | None = error
    while cause is not None:  # the client library names the system's error only as a cause
        if isinstance(cause, OSError) and cause.errno is not None and not isinstance(cause, ssl.SSLError):
            return f"{host}: {os.strerror(cause.errno)}"
        cause = cause.__cause__ or cause.__context__
    return f"{host}: {str(error) or type(error).__name__}"


@cache
def system_tls_context() -> ssl.SSLContext:
    """Return a cached TLS context with the system's certificates. Make the first call in a thread: it takes 0.2 s."""
    return httpx2.create_ssl_context(trust_env=False)
