"""Loopback belongs to every user of a machine: another one of them is not the owner for reaching the port."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from http_house import TOKEN

from semel.faces.http import Server, Settings, make_app, security, serve
from semel.gateway import Gateway

ASK = """
import encodings.idna, http.client, os, sys
if int(sys.argv[2]) != os.geteuid():
    os.setgroups([])
    os.setuid(int(sys.argv[2]))
there = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
there.request("GET", "/v1/sessions")
print(there.getresponse().status)
"""


@pytest.fixture
async def server(gateway: Gateway) -> AsyncIterator[Server]:
    one = await serve(make_app(gateway, Settings(token=TOKEN)), "127.0.0.1", 0)
    yield one
    await one.stop()


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is taken for another user's: the gateway's user is one that nobody is."""
    monkeypatch.setattr(security, "own_uid", lambda: 4_000_000_000)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
        yield ours, theirs
        ours.close()
        theirs.close()


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who holds a socket")


async def asked(server: Server, path: str, method: str = "GET", **more: object) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=server.url, timeout=20, trust_env=False) as client:
        return await client.request(method, path, **more)  # type: ignore[arg-type]


async def test_the_gateways_own_user_needs_no_token_on_loopback(server: Server) -> None:
    assert (await asked(server, "/v1/sessions")).status_code == 200


@LINUX
async def test_another_user_of_the_machine_must_show_the_token(server: Server, stranger: None) -> None:
    for method, path in (
        ("GET", "/v1/sessions"), ("GET", "/metrics"), ("POST", "/v1/sessions/s/messages"), ("GET", "/v1/openapi.json"),
    ):  # fmt: skip
        answer = await asked(server, path, method)
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:semel:problem:no-token"), path
    shown = await asked(server, "/v1/sessions", headers={"Authorization": f"Bearer {TOKEN}"})
    assert shown.status_code == 200
    assert (await asked(server, "/healthz")).status_code == (await asked(server, "/")).status_code == 200


@LINUX
async def test_a_person_behind_a_proxy_of_another_user_logs_in(server: Server, stranger: None) -> None:
    async with httpx2.AsyncClient(base_url=server.url, timeout=20, trust_env=False) as client:
        assert (await client.post("/v1/login", json={"token": "guess"})).status_code == 401
        assert (await client.post("/v1/login", json={"token": TOKEN})).status_code == 204
        assert (await client.get("/v1/sessions")).status_code == 200


@LINUX
async def test_where_no_token_exists_no_cookie_opens_it_for_another_user(gateway: Gateway, stranger: None) -> None:
    from semel.faces.http.security import cookie_name, login_cookie

    nothing = Settings()
    forged = f"{cookie_name(nothing)}={login_cookie(nothing, 4_000_000_000)}"
    server = await serve(make_app(gateway, nothing), "127.0.0.1", 0)
    try:
        assert (await asked(server, "/v1/sessions", headers={"Cookie": forged})).status_code == 401
    finally:
        await server.stop()


@LINUX
async def test_a_real_process_of_another_user_is_refused_and_ours_is_not(server: Server) -> None:
    ours = (os.geteuid(), "200")
    for user, expected in ((65534, "401"), ours) if os.geteuid() == 0 else (ours,):  # only root can become another
        command = [sys.executable, "-I", "-S", "-c", ASK, str(server.port), str(user)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == expected, done.stderr


@LINUX
def test_a_socket_tells_its_holder_and_one_that_was_closed_tells_nobody(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The kernel calls a socket that nobody holds any more root's: who asks and hangs up is not root for that."""
    ours, theirs = pair
    there, here = theirs.getsockname(), ours.getsockname()
    assert security.find_socket_uid(socket.AF_INET, there, here) == os.geteuid()
    theirs.shutdown(socket.SHUT_WR)
    assert security.find_socket_uid(socket.AF_INET, there, here) == os.geteuid(), "half closed, and held"
    theirs.close()
    assert security.find_socket_uid(socket.AF_INET, there, here) is None
    assert security.find_socket_uid(socket.AF_INET, ("127.0.0.1", 1), here) is None


class Accepted:
    """A transport over a socket that was accepted."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self.sock


@LINUX
@pytest.mark.parametrize("hurry", ["closed", "reset"])
def test_who_asks_and_hangs_up_before_we_look_is_a_stranger(
    pair: tuple[socket.socket, socket.socket], hurry: str
) -> None:
    """What they sent is still read: their haste must not make them us, nor the kernel one that tells nothing."""
    ours, theirs = pair
    assert security.can_identify_owner()
    assert not security.is_of_another_user(Accepted(ours))  # type: ignore[arg-type]
    theirs.sendall(b"POST /v1/sessions/s/messages HTTP/1.1\r\n\r\n")
    if hurry == "reset":
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    theirs.close()
    assert ours.recv(4) == b"POST"
    assert security.is_of_another_user(Accepted(ours))  # type: ignore[arg-type]


@LINUX
async def test_where_the_kernel_fails_to_tell_nobody_is_taken_for_us(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "find_socket_uid", lambda *_: None)
    assert (await asked(server, "/v1/sessions")).status_code == 401
    security.can_identify_owner.cache_clear()
    try:
        assert (await asked(server, "/v1/sessions")).status_code == 200, "it never told: loopback is as open as it was"
    finally:
        security.can_identify_owner.cache_clear()
