"""The application on the unix socket: what agents' MCP processes ask for, and how long a request lives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from semel.faces.http import Settings, make_app, serve
from semel.faces.http.server import UnixServer, serve_unix
from semel.gateway.errors import BadRequest, UnknownSpawn
from semel.tools.gateway_link import MAX_BODY_BYTES

Json = dict[str, Any]
BOUND = 20.0


class ToolGateway:
    """A gateway whose tools have one name for each temper."""

    def __init__(self) -> None:
        self.people = self  # it takes note of wrong tokens, too
        self.wrong_tokens: list[str] = []
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.release = asyncio.Event()

    def note_wrong_token(self, address: str) -> None:
        self.wrong_tokens.append(address)

    async def tools(self, method: str, params: Json) -> Json:
        name = str(params.get("name", method))
        self.begun.append(name)
        if params["token"] != "spawn":
            raise UnknownSpawn
        if name == "wait":
            await self.release.wait()
        elif name == "refuse":
            raise BadRequest("there is no such tool")
        elif name == "break":
            raise RuntimeError("the secret inside")
        self.ended.append(name)
        return {"ok": True, "text": "x" * int(params.get("arguments", {}).get("size", 1)), "was": params}


def call(name: str = "hi", **arguments: Any) -> Json:
    return {"conn": "c", "call": "c-1", "name": name, "arguments": arguments, "meta": None}


@pytest.fixture
def tools() -> ToolGateway:
    return ToolGateway()


@pytest.fixture
async def server(tmp_path: Path, tools: Any) -> AsyncIterator[UnixServer]:
    server = await serve_unix(make_app(tools, Settings(token="the-owners-token")), tmp_path / "g.sock")
    yield server
    tools.release.set()
    await server.stop()


@pytest.fixture
async def client(server: UnixServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_at(server.path) as client:
        yield client


def client_at(path: Path) -> httpx2.AsyncClient:
    headers = {"Authorization": "Bearer spawn"}
    transport = httpx2.AsyncHTTPTransport(uds=str(path))
    return httpx2.AsyncClient(transport=transport, base_url="http://gateway", headers=headers, timeout=BOUND)


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


async def until(so: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_tool_call_is_handed_to_the_gateway_with_the_spawns_token(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/v1/tools/call", json={**call("send_message", text="\U0001f600"), "meta": {"a": [1]}})
    assert answer.json()["was"] == {
        "token": "spawn", "conn": "c", "call": "c-1", "name": "send_message", "arguments": {"text": "\U0001f600"},
        "meta": {"a": [1]},
    }  # fmt: skip
    given = await client.post("/v1/tools/call", json={**call(), "given": {"x": None}})
    assert given.json()["was"]["given"] == {"x": None}
    assert (await client.post("/v1/tools/hello")).json()["was"] == {"token": "spawn"}
    noted = await client.post("/v1/tools/answered", json={"call": "c-1"})
    assert noted.json()["was"] == {"token": "spawn", "call": "c-1"}


async def test_agents_tools_are_served_on_the_unix_socket_alone(tools: Any) -> None:
    """A token of a spawn that left the machine calls nothing."""
    server = await serve(make_app(tools, Settings(token="the-owners-token")), "127.0.0.1", 0)
    async with httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=BOUND) as there:
        for token in ("spawn", "the-owners-token"):
            for path, body in (("call", call()), ("hello", {}), ("answered", {"call": "c"})):
                headers = {"Authorization": f"Bearer {token}"}
                answer = await there.post(f"/v1/tools/{path}", json=body, headers=headers)
                assert code(answer) == (404, "no-such-path")
    assert tools.begun == []
    await server.stop()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"not json", "bad-json"),
        (b'{"meta":' + b"[" * 50_000, "bad-json"),
        (b"\xff\xfe", "bad-json"),
        (b"[1]", "bad-field"),
        (b"{}", "bad-field"),
        (json.dumps({**call(), "arguments": []}).encode(), "bad-field"),
        (json.dumps({**call(), "more": 1}).encode(), "bad-field"),
        (json.dumps(call(text="?")).encode().replace(b"?", rb"\ud83d"), "bad-json"),
    ],
)
async def test_a_body_that_is_no_call_is_refused_and_the_connection_lives_on(
    client: httpx2.AsyncClient, tools: ToolGateway, raw: bytes, expected: str
) -> None:
    assert code(await client.post("/v1/tools/call", content=raw)) == (400, expected)
    assert tools.begun == []
    assert (await client.post("/v1/tools/call", json=call())).status_code == 200


async def test_a_call_beyond_the_bound_is_refused_and_one_below_it_is_not(
    client: httpx2.AsyncClient, tools: ToolGateway
) -> None:
    assert (await client.post("/v1/tools/call", json=call(text="x" * (MAX_BODY_BYTES - 1000)))).status_code == 200
    assert code(await client.post("/v1/tools/call", json=call(text="x" * MAX_BODY_BYTES))) == (413, "too-large")
    assert tools.begun == ["hi"]


async def test_a_definite_no_is_told_from_a_failure_which_tells_nothing_of_its_inside(
    client: httpx2.AsyncClient,
) -> None:
    refused = await client.post("/v1/tools/call", json=call("refuse"))
    assert code(refused) == (400, "bad-field")
    assert refused.json()["detail"] == "there is no such tool"
    stranger = await client.post("/v1/tools/call", json=call(), headers={"Authorization": "Bearer other"})
    assert code(stranger) == (401, "no-token")
    with capture_logs() as logs:
        failed = await client.post("/v1/tools/call", json=call("break"))
    assert code(failed) == (500, "internal")
    assert "secret" not in failed.text
    assert logs[0]["path"] == "/v1/tools/call"


async def test_requests_run_side_by_side(client: httpx2.AsyncClient, tools: ToolGateway) -> None:
    waiting = [asyncio.create_task(client.post("/v1/tools/call", json=call("wait"))) for _ in range(50)]
    await until(lambda: len(tools.begun) == 50)
    assert (await client.post("/v1/tools/call", json=call())).status_code == 200
    tools.release.set()
    assert {(await answer).status_code for answer in waiting} == {200}


async def test_a_client_that_does_not_read_its_answers_delays_only_itself(
    server: UnixServer, client: httpx2.AsyncClient, tools: ToolGateway
) -> None:
    _, writer = await asyncio.open_unix_connection(server.path, limit=1024)
    writer.write(request(call(size=8 << 20)))
    await until(lambda: tools.ended == ["hi"])
    for _ in range(20):
        assert (await client.post("/v1/tools/call", json=call())).status_code == 200
    writer.close()


async def test_what_was_begun_is_finished_although_its_caller_is_gone(server: UnixServer, tools: ToolGateway) -> None:
    _, writer = await asyncio.open_unix_connection(server.path)
    writer.write(request(call("wait")))
    await until(lambda: tools.begun == ["wait"])
    writer.close()
    await writer.wait_closed()
    await until(lambda: " 0 connections" in repr(server))
    tools.release.set()
    await until(lambda: tools.ended == ["wait"])


async def test_half_a_request_is_none(server: UnixServer, client: httpx2.AsyncClient, tools: ToolGateway) -> None:
    _, writer = await asyncio.open_unix_connection(server.path)
    writer.write(request(call())[:-1])
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    await until(lambda: " 0 connections" in repr(server))
    assert (await client.post("/v1/tools/hello")).status_code == 200
    assert tools.begun == ["hello"]


async def test_a_stop_lets_running_requests_end_and_takes_no_new_ones(
    server: UnixServer, client: httpx2.AsyncClient, tools: ToolGateway
) -> None:
    running = asyncio.create_task(client.post("/v1/tools/call", json=call("wait")))
    await until(lambda: tools.begun == ["wait"])
    stop = asyncio.create_task(server.stop(grace=BOUND))
    await asyncio.sleep(0.2)
    async with client_at(server.path) as other:
        with pytest.raises(httpx2.ConnectError):
            await other.post("/v1/tools/call", json=call())
    tools.release.set()
    assert (await running).status_code == 200
    await stop
    assert tools.begun == ["wait"]
    assert not server.path.exists()


async def test_a_request_that_outlasts_a_stop_ends_without_an_outcome_and_without_a_traceback(
    server: UnixServer, client: httpx2.AsyncClient, tools: ToolGateway, caplog: pytest.LogCaptureFixture
) -> None:
    running = asyncio.create_task(client.post("/v1/tools/call", json=call("wait")))
    await until(lambda: tools.begun == ["wait"])
    await server.stop(grace=0.1)
    answer = await running
    assert answer.status_code == 500
    assert answer.headers["content-type"].startswith("text/plain")  # a problem would end an agent's attempts
    assert tools.ended == []
    assert "Traceback" not in caplog.text


async def test_the_owner_shows_no_token_on_the_unix_socket(server: UnixServer, tools: ToolGateway) -> None:
    transport = httpx2.AsyncHTTPTransport(uds=str(server.path))
    async with httpx2.AsyncClient(transport=transport, base_url="http://any.name") as client:
        assert (await client.get("/v1/openapi.json")).status_code == 200
        wrong = await client.get("/v1/openapi.json", headers={"Authorization": "Bearer guess"})
        assert code(wrong) == (401, "no-token")
        assert tools.wrong_tokens == ["the unix socket"]


def request(body: Json) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST /v1/tools/call HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer spawn\r\nContent-Length: {len(content)}"
    return f"{head}\r\n\r\n".encode() + content
