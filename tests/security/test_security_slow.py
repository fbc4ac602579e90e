"""Who sends or reads a byte now and then holds no connection: slow heads, slow bodies, answers that nobody takes."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
from gateway_house import GatewayHouse
from http_house import TOKEN
from security_house import connect, rest, status
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from semel.faces.http import Server, Settings, make_app, serve, slow_clients
from semel.gateway import Gateway

T = TypeVar("T")

HEAD = b"POST /v1/sessions/s/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
QUICK = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
async def server(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server in whose day a second is a twentieth."""
    monkeypatch.setattr(slow_clients, "CHECK_INTERVAL_S", slow_clients.CHECK_INTERVAL_S / 20)
    quick = {what: (seconds / 20, least) for what, (seconds, least) in slow_clients.CLIENT_LIMITS.items()}
    monkeypatch.setattr(slow_clients, "CLIENT_LIMITS", quick)
    one = await serve(make_app(gateway, Settings(token=TOKEN, max_body=4_000_000)), "127.0.0.1", 0)
    yield one
    await one.stop()


def drip(server: Server, first: bytes, byte: bytes, pause: float = 0.05) -> tuple[bytes, float]:
    """Send `first`, then a byte now and then; what came back until the other side hung up, and after how long."""
    began, got = time.monotonic(), b""
    with connect(server.url, pause) as sock:
        sock.sendall(first)
        while time.monotonic() - began < 20:
            try:
                sock.sendall(byte)
                chunk = sock.recv(65536)
            except TimeoutError:
                continue
            except ConnectionError:
                break
            if not chunk:
                break
            got += chunk
        else:
            raise AssertionError("it was let drip for ever")
    return got, time.monotonic() - began


async def attack(call: Callable[..., T], *given: object) -> T:
    return await asyncio.to_thread(call, *given)


async def open_again(server: Server) -> None:
    """No connection is left."""
    inner = server.server_state.connections
    async with asyncio.timeout(20):
        while inner:  # noqa: ASYNC110  uvicorn tells nobody
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "first",
    [b"", b"GET /healthz HTTP/1.1\r\nX: ", QUICK + b"GET /healthz HTTP/1.1\r\nX: "],
    ids=["nothing", "a first head", "a second head"],
)
async def test_a_head_that_comes_byte_by_byte_is_not_waited_for(server: Server, first: bytes) -> None:
    got, _ = await attack(drip, server, first, b"a")
    assert status(got[got.rindex(b"HTTP/1.1 ") :]) == 408
    await open_again(server)


async def test_a_body_that_comes_byte_by_byte_is_answered_408(server: Server) -> None:
    got, _ = await attack(drip, server, HEAD + b'Content-Length: 900000\r\n\r\n{"text": "', b"a")
    assert status(got) == 408 and b"urn:semel:problem:too-slow" in got and b"Connection: close" in got
    await open_again(server)


async def test_a_body_in_chunks_that_comes_byte_by_byte_is_answered_408(server: Server) -> None:
    got, _ = await attack(drip, server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n")
    assert status(got) == 408
    await open_again(server)


async def test_a_body_that_never_comes_is_answered_408_and_nothing_was_said(server: Server) -> None:
    def promise() -> bytes:
        with connect(server.url) as sock:
            sock.sendall(HEAD + b'Content-Length: 16\r\n\r\n{"text":')
            return rest(sock)

    assert status(await attack(promise)) == 408
    await open_again(server)


async def test_a_body_that_is_slow_and_comes_is_taken(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty kilobytes in thirty seconds is a bad line, not an attack."""
    monkeypatch.setitem(slow_clients.CLIENT_LIMITS, "body", (2.0, 5_000))

    def send() -> bytes:
        body = b'{"text": "' + b"a" * 200_000 + b'"}'
        with connect(server.url) as sock:
            sock.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
            for at in range(0, len(body), 10_000):
                sock.sendall(body[at : at + 10_000])
                time.sleep(0.15)  # 20 pieces: longer than the patience in all
            return rest(sock)

    assert status(await attack(send)) == 202


async def test_what_still_comes_after_a_refusal_is_not_listened_to_for_ever(server: Server) -> None:
    refused = b"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n"
    got, _ = await attack(drip, server, refused, b"a")
    assert status(got) == 404
    await open_again(server)


async def test_an_answer_that_nobody_takes_is_dropped_with_its_connection(server: Server) -> None:
    def never_read() -> socket.socket:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.settimeout(20)
        sock.connect(("127.0.0.1", server.port))
        # The document of the API, again and again: more than any kernel keeps for a reader.
        sock.sendall(b"GET /v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200)
        return sock

    sock = await attack(never_read)
    try:
        await open_again(server)
    finally:
        sock.close()


async def test_a_stream_with_nothing_to_tell_is_left_alone(
    world: GatewayHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_clients, "CHECK_INTERVAL_S", 0.02)
    monkeypatch.setattr(
        slow_clients, "CLIENT_LIMITS", {what: (0.1, least) for what, (_, least) in slow_clients.CLIENT_LIMITS.items()}
    )
    monkeypatch.setitem(slow_clients.CLIENT_LIMITS, "", (float("inf"), 0.0))
    monkeypatch.setitem(slow_clients.CLIENT_LIMITS, "head", (20.0, float("inf")))
    await world.script("s")
    server = await serve(make_app(world.gateway, Settings(token=TOKEN)), "127.0.0.1", 0)

    def watch() -> bool:
        with connect(server.url, 1.0) as sock:
            sock.sendall(b"GET /v1/sessions/s/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            try:
                while sock.recv(65536):
                    pass
            except TimeoutError:
                return True  # ten times the patience, and still open
            return False

    try:
        assert await attack(watch)
    finally:
        await server.stop()


async def test_one_who_takes_all_connections_leaves_descriptors_for_agents(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_clients, "max_connections", lambda: 20)

    def flood() -> list[socket.socket]:
        return [connect(server.url) for _ in range(60)]

    held = await attack(flood)
    try:
        async with asyncio.timeout(20):
            while len(server.server_state.connections) > 20:  # noqa: ASYNC110  uvicorn tells nobody
                await asyncio.sleep(0.02)
    finally:
        for sock in held:
            sock.close()
    await open_again(server)
    assert slow_clients.max_connections() == 20


def test_half_of_what_may_be_opened_is_for_others() -> None:
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 64 <= slow_clients.max_connections() <= max(64, min(4096, soft // 2) if soft > 0 else 4096)


async def test_an_address_elsewhere_does_not_take_what_the_owner_needs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 128 connections, one address has 32, and all of those elsewhere 96; the owner comes in all the same."""
    monkeypatch.setattr(slow_clients, "max_connections", lambda: 128)
    addresses = [*["10.0.0.1"] * 40, *["10.0.0.2"] * 40, *(f"10.0.1.{n}" for n in range(100))]
    monkeypatch.setattr(slow_clients, "peer_key", lambda _: addresses.pop(0) if addresses else None)

    def hold(count: int) -> list[socket.socket]:
        return [connect(server.url) for _ in range(count)]

    def ask() -> bytes:
        with connect(server.url) as sock:
            sock.sendall(QUICK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            return rest(sock)

    held: list[socket.socket] = []
    try:
        for count, left, taken in ((40, 140, 32), (40, 100, 64), (100, 0, 96)):
            held += await attack(hold, count)
            async with asyncio.timeout(20):
                while len(addresses) > left or len(server.server_state.connections) > taken:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert len(server.server_state.connections) == taken
        assert status(await attack(ask)) == 200
    finally:
        for sock in held:
            sock.close()
    await open_again(server)


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("127.0.0.1", None), ("127.8.9.1", None), ("::1", None), ("::ffff:127.0.0.1", None), ("", None),
        ("10.1.2.3", "10.1.2.3"), ("::ffff:10.1.2.3", "10.1.2.3"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)  # fmt: skip
def test_who_is_one_peer(host: str, peer: str | None) -> None:
    assert slow_clients.peer_key(host) == peer


async def test_a_client_that_does_not_read_its_answer_is_dropped_when_the_server_stops() -> None:
    """uvicorn leaves its connection open for ever."""
    asked = asyncio.Event()

    async def send_much(request: Request) -> Response:
        asked.set()
        return Response(bytes(64 * 1024 * 1024))

    app = Starlette(routes=[Route("/", send_much)])
    app.state.stopping = asyncio.Event()
    server = await serve(app, "127.0.0.1", 0)
    with connect(server.url, 30) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await asyncio.wait_for(asked.wait(), 20)
        await server.stop(1)
        assert not server.server_state.connections
        assert len(await asyncio.to_thread(rest, sock)) < 64 * 1024 * 1024, "it ends, and without the whole answer"
