"""A body above the limit: its caller reads a 413, and no broken pipe, whatever program it is."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from urllib.parse import urlsplit

import httpx2
import pytest
from http_house import TOKEN

from semel.faces.http import Server, Settings, make_app, serve, slow_clients
from semel.gateway import Gateway

PATH = "/v1/sessions/s/events"
LIMIT = 1024 * 1024
HEAD = {"Content-Type": "application/json"}
Send = Callable[[str, bytes], tuple[int, str]]


@pytest.fixture
async def server(gateway: Gateway) -> AsyncIterator[Server]:
    one = await serve(make_app(gateway, Settings(token=TOKEN, max_body=LIMIT)), "127.0.0.1", 0)
    yield one
    await one.stop()


def with_urllib(url: str, body: bytes) -> tuple[int, str]:
    request = urllib.request.Request(url + PATH, body, HEAD)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30)
    with caught.value as answer:
        return answer.code, answer.read().decode()


def with_http_client(url: str, body: bytes) -> tuple[int, str]:
    link = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    link.request("POST", PATH, _pieces(body), HEAD)  # in chunks
    answer = link.getresponse()
    link.close()
    return answer.status, answer.read().decode()


def with_httpx(url: str, body: bytes) -> tuple[int, str]:
    with httpx2.Client(trust_env=False, timeout=30) as client:
        answer = client.post(url + PATH, content=body, headers=HEAD)
        assert answer.headers["connection"] == "close"
        return answer.status_code, answer.text


def with_httpx_in_chunks(url: str, body: bytes) -> tuple[int, str]:
    with httpx2.Client(trust_env=False, timeout=30) as client:
        answer = client.post(url + PATH, content=_pieces(body), headers=HEAD)
        return answer.status_code, answer.text


def _curl(url: str, body: bytes, *more: str) -> tuple[int, str]:
    command = ["curl", "-sS", "--noproxy", "*", "-H", "Content-Type: application/json", "--data-binary", "@-"]
    got = subprocess.run([*command, *more, "-w", "\n%{http_code}", url + PATH], input=body, capture_output=True)
    assert got.returncode == 0, got.stderr
    text, _, status = got.stdout.decode().rpartition("\n")
    return int(status), text


def with_curl(url: str, body: bytes) -> tuple[int, str]:
    return _curl(url, body, "-H", "Expect:")


def with_curl_that_asks_first(url: str, body: bytes) -> tuple[int, str]:
    return _curl(url, body, "-H", "Expect: 100-continue")


def with_curl_in_chunks(url: str, body: bytes) -> tuple[int, str]:
    return _curl(url, body, "-H", "Expect:", "-H", "Transfer-Encoding: chunked")


def _pieces(body: bytes) -> Iterator[bytes]:
    for at in range(0, len(body), 65536):
        yield body[at : at + 65536]


CLIENTS: list[Send] = [with_urllib, with_http_client, with_httpx, with_httpx_in_chunks]
if shutil.which("curl"):
    CLIENTS += [with_curl, with_curl_that_asks_first, with_curl_in_chunks]


@pytest.mark.parametrize("size", [LIMIT + 20, 8 * LIMIT])
@pytest.mark.parametrize("send", CLIENTS)
async def test_a_body_above_the_limit_is_answered_before_the_connection_ends(
    server: Server, send: Send, size: int
) -> None:
    body = b'{"text": "' + b"x" * size + b'"}'
    for _ in range(10):
        status, text = await asyncio.to_thread(send, server.url, body)
        assert (status, json.loads(text)["limit"]) == (413, LIMIT)
    async with asyncio.timeout(20):
        while server.server_state.connections:  # noqa: ASYNC110  uvicorn tells nobody
            await asyncio.sleep(0.02)


def _endless(server: Server) -> tuple[int, float]:
    """How many bytes of a body without an end are taken, and for how long."""
    began, sent = time.monotonic(), 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        sock.sendall(f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {2**60}\r\n\r\n".encode())
        try:
            while time.monotonic() - began < 30:
                sent += sock.send(b"x" * 65536)
        except OSError:
            pass
    return sent, time.monotonic() - began


async def test_a_body_without_an_end_is_thrown_away_up_to_a_bound(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_clients, "MAX_DISCARDED_BYTES", 20 * LIMIT)
    sent, seconds = await asyncio.to_thread(_endless, server)
    assert 20 * LIMIT <= sent < 60 * LIMIT, "what kernels hold between them is some megabytes"
    assert seconds < 30


async def test_a_body_without_an_end_is_thrown_away_for_a_while(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_clients, "MAX_DISCARDED_BYTES", 2**60)
    monkeypatch.setattr(slow_clients, "CHECK_INTERVAL_S", 0.05)
    monkeypatch.setitem(slow_clients.CLIENT_LIMITS, "rest", (0.3, float("inf")))
    _, seconds = await asyncio.to_thread(_endless, server)
    assert seconds < 20


def _say_raw(server: Server, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        sock.sendall(data)
        return b"".join(iter(lambda: sock.recv(65536), b""))


@pytest.mark.parametrize("method", ["HEAD", "GET", "POST"])
async def test_an_invalid_chunk_is_answered_with_a_400_and_no_failure_of_ours(server: Server, method: str) -> None:
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    head = f"{method} {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = await asyncio.to_thread(_say_raw, server, head.encode() + b"no length\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert (answer.partition(b"\r\n\r\n")[2] == b"") == (method == "HEAD"), "the answer to HEAD has no body"
    assert not failures
