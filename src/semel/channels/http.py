"""One HTTP request whose outcome can be told: provably not sent, or unknown, or an answer.

Exactly one request leaves: a fresh connection, no retries, no redirects, no proxy. Until the first byte of
the request is written, every failure is NotSent; after it, everything that is not an answer is Unknown.

The host is looked up once, the addresses are checked, and the connection goes to one of these very
addresses: a name cannot point elsewhere between check and use (DNS rebinding, SSRF).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpx2

from semel.gateway.ports import NotSent, Unknown

AGENT = "Semel"
CONNECT = 10.0
"""Seconds for look-up, connection and TLS together."""
MOST = 64 * 1024
"""Bytes of an answer's body that are read."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_CARRIES = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96")))
"""NAT64 (RFC 6052), IPv4-compatible and mapped (RFC 4291), translated (RFC 2765): they end in an IPv4 address."""
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The third quarter of an address whose last one is an IPv4 address (RFC 5214)."""
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "100:0:0:1::/64", "3fff::/20", "5f00::/16", "fec0::/10"),
    )
)
"""Local to a network or to nothing, which some versions of Python hold for global (IANA's registries, RFC 3879)."""


@dataclass(frozen=True)
class Answer:
    """What came back. Header names are lower-case; a longer body is cut off."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def is_public(address: str) -> bool:
    """Whether an address is outside of loopback, private, link-local and other special ranges.

    An IPv6 address that carries an IPv4 address is public if both are (RFC 4291, 6052, 4380, 5214); a mapped or a 6to4
    one (RFC 3056; Python's versions differ in `is_global` of it) is what the carried one is.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    carried = _carried(ip)
    alone = isinstance(ip, ipaddress.IPv6Address) and (ip.ipv4_mapped or ip.sixtofour) is not None
    return all(map(_is_outside, carried if alone else (ip, *carried)))


def _is_outside(ip: Address) -> bool:
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _SPECIAL)


def _carried(ip: Address) -> list[Address]:
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    carried: list[Address | None] = [ip.sixtofour, *(ip.teredo or ())]
    if any(ip in network for network in _CARRIES) or int(ip) >> 32 & 0xFFFFFFFF in _ISATAP:
        carried.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return [each for each in carried if each is not None]


async def look_up(host: str, port: int, *, allow_private: bool) -> list[str]:
    """The addresses that may be connected to, in the system's order. Raises NotSent."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotSent(f"{host} cannot be looked up: {getattr(error, 'strerror', None) or error}") from None
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    allowed = [each for each in addresses if allow_private or is_public(each)]
    if not allowed:
        raise NotSent(
            f"{host} is {', '.join(addresses)}, inside this machine or its own network; "
            "set allow_private = true for this channel if that is meant"
        )
    return allowed


async def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout: float,
    allow_private: bool = False,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """One POST. `timeout`: seconds for the answer, once connected. Raises NotSent or Unknown."""
    return await request("POST", url, body, headers, timeout=timeout, allow_private=allow_private, tls=tls)


async def request(
    method: str,
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    timeout: float,
    allow_private: bool = False,
    tls: ssl.SSLContext | None = None,
    most: int = MOST,
) -> Answer:
    """One request. `timeout`: seconds for the answer, once connected; `most`: bytes of its body that are read.

    Raises NotSent or Unknown.
    """
    target = httpx2.URL(url)
    port = target.port or (443 if target.scheme == "https" else 80)
    try:
        async with asyncio.timeout(CONNECT):
            addresses = await look_up(target.host, port, allow_private=allow_private)
    except TimeoutError:
        raise NotSent(f"{target.host} was not looked up within {CONNECT:g} s") from None
    one = _One(method, target, body, headers, timeout, tls, most)
    deadline = asyncio.get_running_loop().time() + CONNECT
    for address in addresses[:-1]:
        try:
            return await _attempt(one, address, CONNECT / 2)
        except NotSent:
            if asyncio.get_running_loop().time() >= deadline:
                raise
    left = max(1.0, deadline - asyncio.get_running_loop().time())
    return await _attempt(one, addresses[-1], left)


@dataclass(frozen=True)
class _One:
    """A request, wherever it goes."""

    method: str
    url: httpx2.URL
    body: bytes | None
    headers: Mapping[str, str]
    timeout: float
    tls: ssl.SSLContext | None
    most: int


async def _attempt(one: _One, address: str, connect: float) -> Answer:
    """One request to one address."""
    left = False  # whether a byte of the request may have left

    async def trace(event: str, info: Mapping[str, Any]) -> None:
        nonlocal left
        left = left or event == "http11.send_request_headers.started"

    url, timeout, tls = one.url, one.timeout, one.tls
    request = httpx2.Request(
        one.method,
        url.copy_with(host=address),
        content=one.body,
        headers={"host": url.netloc.decode("ascii"), "connection": "close", **one.headers},
        extensions={
            "trace": trace,
            "sni_hostname": url.host,
            "timeout": {"connect": connect, "read": timeout, "write": timeout, "pool": connect},
        },
    )
    if url.scheme == "https" and tls is None:
        tls = await asyncio.to_thread(trust)
    transport = httpx2.AsyncHTTPTransport(verify=tls or False, trust_env=False, retries=0)
    try:
        async with transport, asyncio.timeout(connect + timeout):
            response = await transport.handle_async_request(request)
            return await _read(response, one.most)
    except (httpx2.HTTPError, OSError, TimeoutError) as error:
        why = _why(error, url.host)
        raise (Unknown(why) if left else NotSent(why)) from None


async def _read(response: httpx2.Response, most: int) -> Answer:
    """The answer is its status: if the body breaks off, what came is enough."""
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) >= most:
                break
    except (httpx2.HTTPError, OSError):
        pass
    finally:
        await response.aclose()
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, bytes(body[:most]))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that an answer asks to wait (RFC 9110, 10.2.3: a number, or a date, held against `now`).

    None if it says nothing usable. `headers` with lower-case names.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now))
    except (ValueError, OverflowError):
        return None


def _why(error: BaseException, host: str) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return f"{host} took too long to accept a connection"
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return f"{host} did not answer in time"
    return f"{host}: {str(error) or type(error).__name__}"


@cache
def trust() -> ssl.SSLContext:
    """The system's trust. Making it takes 0.2 s, so it is made once, and not on the event loop."""
    return httpx2.create_ssl_context(trust_env=False)
