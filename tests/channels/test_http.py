"""One POST, and what can be told of it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from http_server import answers, breaks_off, drops, hangs, serve

from semel.channels import http
from semel.channels.http import HttpAnswer, look_up, request
from semel.channels.public_address import is_public
from semel.gateway.ports import NotSent, Unknown

CERTIFICATE = Path(__file__).parent / "hook.test.pem"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def try_post(url: str, **more: Any) -> HttpAnswer:
    return await request("POST", url, b"{}", {}, timeout=more.pop("timeout", 20.0), **({"allow_private": True} | more))


async def test_an_answer_comes_back() -> None:
    async with serve(answers(201, b'{"id": 1}', x_more="yes")) as server:
        answer = await try_post(server.url)
    assert (answer.status, answer.body, answer.headers["x-more"]) == (201, b'{"id": 1}', "yes")
    [request] = server.requests
    assert request.line == "POST /in HTTP/1.1"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.headers["connection"] == "close"


async def test_a_refused_connection_is_provably_not_sent() -> None:
    with pytest.raises(NotSent, match=r"127\.0\.0\.1: Connection refused"):
        await try_post(f"http://127.0.0.1:{free_port()}/")


async def test_a_name_that_does_not_exist_is_provably_not_sent() -> None:
    with pytest.raises(NotSent, match=r"nobody\.invalid cannot be looked up"):
        await try_post("http://nobody.invalid/")


async def test_a_failed_handshake_is_provably_not_sent() -> None:
    async with serve(answers(200), greeting=b"no TLS here") as server:
        with pytest.raises(NotSent):
            await try_post(server.url.replace("http:", "https:"))
        assert (server.connections, server.requests) == (1, [])


async def test_a_connection_that_never_comes_about_is_provably_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TLS handshake that is never answered stands for it: the connection time-out covers both."""
    monkeypatch.setattr(http, "CONNECT_TIMEOUT_S", 0.2)
    async with serve(answers(200)) as server:
        with pytest.raises(NotSent, match="took too long to accept a connection"):
            await try_post(server.url.replace("http:", "https:"))
        assert (server.connections, server.requests) == (1, [])


@pytest.mark.parametrize("way", [drops, hangs])
async def test_once_the_request_left_silence_is_unknown_and_nothing_is_sent_again(way: Any) -> None:
    async with serve(way) as server:
        with pytest.raises(Unknown):
            await try_post(server.url, timeout=0.3)
        assert (server.connections, len(server.requests)) == (1, 1)


@pytest.mark.parametrize("status", [301, 307, 429, 500, 502, 503])
async def test_no_answer_makes_it_send_again(status: int) -> None:
    async with serve(answers(status, location="/elsewhere", retry_after="0")) as server:
        assert (await try_post(server.url)).status == status
        assert (server.connections, len(server.requests)) == (1, 1)


async def test_a_body_that_breaks_off_does_not_make_the_status_unknown() -> None:
    async with serve(breaks_off) as server:
        answer = await try_post(server.url)
    assert (answer.status, answer.body) == (200, b'{"id": "m')


async def test_only_the_beginning_of_a_long_answer_is_read() -> None:
    async with serve(answers(200, b"x" * 1_000_000)) as server:
        assert len((await try_post(server.url)).body) == http.MAX_ANSWER_BYTES


async def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS: the name is what the certificate and the Host header are about, the address is the checked one."""
    asked = []

    async def looked_up(host: str, port: int, *, allow_private: bool) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    monkeypatch.setattr(http, "look_up", looked_up)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(CERTIFICATE)
    async with serve(answers(200), tls=theirs) as server:
        url = f"https://hook.test:{server.port}/in"
        answer = await try_post(url, tls=ssl.create_default_context(cafile=CERTIFICATE))
        assert answer.status == 200
        assert server.requests[0].headers["host"] == f"hook.test:{server.port}"
        with pytest.raises(NotSent, match="certificate"):
            await try_post(url.replace("hook.test", "other.test"), tls=ssl.create_default_context(cafile=CERTIFICATE))
    assert asked == ["hook.test", "other.test"]


async def test_another_address_is_tried_as_long_as_nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(answers(200)) as server:

        async def looked_up(host: str, port: int, *, allow_private: bool) -> list[str]:
            return ["127.0.0.2", "127.0.0.1"]

        monkeypatch.setattr(http, "look_up", looked_up)
        assert (await try_post(server.url)).status == 200
    async with serve(drops) as server:
        monkeypatch.setattr(http, "look_up", looked_up_twice)
        with pytest.raises(Unknown):
            await try_post(server.url)
        assert len(server.requests) == 1


async def looked_up_twice(host: str, port: int, *, allow_private: bool) -> list[str]:
    return ["127.0.0.1", "127.0.0.1"]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:100.64.0.1",
        "::ffff:224.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b:1::7f00:1",
        "64:ff9b:1::a9fe:a9fe",
        "fec0::1",
        "2000::5efe:7f00:1",
        "2000::200:5efe:10.0.0.1",
        "2001:0:7f00:1::",
        "192.0.0.8",
        "192.88.99.1",
        "5f00::1",
        "3fff::1",
        "2001:db8::1",
    ],
)
def test_an_address_inside_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "192.0.1.1",
        "2001:4860:4860::8888",
        "2606:4700::1111",
        "64:ff9b::808:808",
        "2002:808:808::",
        "::ffff:8.8.8.8",
        "::ffff:0:8.8.8.8",
        "2000::5efe:808:808",
    ],
)
def test_an_address_outside_is_public(address: str) -> None:
    assert is_public(address)


async def test_a_name_that_leads_inside_is_not_connected_to() -> None:
    async with serve(answers(200)) as server:
        with pytest.raises(NotSent, match="set allow_private = true for this channel if that is meant"):
            await try_post(server.url.replace("127.0.0.1", "localhost"), allow_private=False)
        with pytest.raises(NotSent, match=r"^127\.0\.0\.1 is inside this machine"):
            await try_post(server.url, allow_private=False)
        assert server.connections == 0


async def test_of_several_addresses_only_the_public_ones_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(host: str, port: int, **more: Any) -> list[Any]:
        return [(socket.AF_INET, 1, 6, "", (ip, port)) for ip in ("10.0.0.1", "8.8.8.8", "8.8.8.8", "127.0.0.1")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    assert await look_up("mixed.test", 80, allow_private=False) == ["8.8.8.8"]
    assert await look_up("mixed.test", 80, allow_private=True) == ["10.0.0.1", "8.8.8.8", "127.0.0.1"]
