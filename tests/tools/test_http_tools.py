"""Semel's MCP server over HTTP: the official client uses it, a repeated POST is one call, and strangers are refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from semel.faces.http import Settings, make_app
from semel.faces.http.server import Server, serve
from semel.gateway.errors import UnknownSpawn
from semel.tools.catalogue import TOOLS
from semel.tools.http_tools import MCP_PATH

if TYPE_CHECKING:
    from .conftest import Recorder

TOKEN = {"Authorization": "Bearer secret"}
Json = dict[str, Any]


@pytest.fixture
async def server(gateway: Recorder) -> AsyncIterator[Server]:
    """The gateway on a port, where only the token `secret` belongs to an agent."""
    answer = gateway.tools

    async def tools(method: str, params: Json) -> Json:
        if params["token"] != "secret":
            raise UnknownSpawn
        return await answer(method, params)

    gateway.tools = tools  # type: ignore[method-assign]
    app: Any = gateway
    server = await serve(make_app(app, Settings()), "127.0.0.1", 0)
    yield server
    await server.stop(0.0)


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, headers=TOKEN, timeout=30) as client:
        yield client


def request(method: str, params: Json, id: int | str = 1) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def message(text: str, id: int | str = 1) -> Json:
    return request("tools/call", {"name": "send_message", "arguments": {"text": text}}, id)


async def initialize(http: httpx2.AsyncClient) -> dict[str, str]:
    """The headers of a new session's requests."""
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    answer = await http.post(MCP_PATH, json=request("initialize", params, 0))
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["instructions"] == "Speak up."
    return {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_the_official_client_lists_and_calls(gateway: Recorder, server: Server, mode: Any, version: str) -> None:
    from mcp import Client  # here, as it is slow, and every worker of a run imports all tests
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    gateway.names = ["ops"]
    async with (
        create_mcp_http_client(headers=TOKEN) as transport,
        Client(streamable_http_client(server.url + MCP_PATH, http_client=transport), mode=mode) as client,
    ):
        assert client.session.protocol_version == version
        assert client.session.instructions == "Speak up."
        assert [tool.name for tool in (await client.list_tools()).tools] == [tool.name for tool in TOOLS]
        told = await client.call_tool("send_message", {"text": "hé 🌍"}, meta={"callId": "c1"})
        assert [block.text for block in told.content if block.type == "text"] == ["sent"]
        refused = await client.call_tool("send_message", {"words": "x"})
        assert refused.is_error is True
    (call,) = gateway.calls
    assert call["arguments"] == {"text": "hé 🌍"}
    assert call["meta"]["callId"] == "c1"
    await gateway.until(lambda: [one["call"] for one in gateway.of("answered")] == [call["call"]])


async def test_a_post_that_is_sent_again_is_the_same_call(gateway: Recorder, http: httpx2.AsyncClient) -> None:
    session = await initialize(http)
    for id in (7, 7, 8, "7"):
        await http.post(MCP_PATH, json=message("once", id), headers=session)
    first, again, other, text_id = (call["call"] for call in gateway.calls)
    assert first == again
    assert len({first, other, text_id}) == 3
    assert len({call["conn"] for call in gateway.calls}) == 1


async def test_each_session_and_each_request_without_one_is_a_connection(
    gateway: Recorder, http: httpx2.AsyncClient
) -> None:
    for headers in (await initialize(http), await initialize(http), {}, {}):
        await http.post(MCP_PATH, json=message("hello"), headers=headers)
    assert len({call["conn"] for call in gateway.calls}) == 4


async def test_an_answer_that_nobody_waits_for_is_not_reported_as_received(
    gateway: Recorder, http: httpx2.AsyncClient
) -> None:
    """Then an equal call of the agent's next session is a repeat, not another message (Law 5)."""
    session = await initialize(http)
    may_answer, was_answered = asyncio.Event(), asyncio.Event()

    async def answer(params: Json) -> Json:
        await may_answer.wait()
        was_answered.set()
        return {"ok": True, "text": "sent"}

    gateway.on_call = answer
    post = asyncio.create_task(http.post(MCP_PATH, json=message("lost"), headers=session))
    await gateway.until(lambda: bool(gateway.calls))
    post.cancel()
    await asyncio.gather(post, return_exceptions=True)
    await asyncio.sleep(0.1)  # the server sees the end of the connection
    may_answer.set()
    await was_answered.wait()
    await http.post(MCP_PATH, json=request("ping", {}), headers=session)
    assert gateway.of("answered") == []


async def test_notifications_get_no_answer_and_a_batch_gets_a_list(gateway: Recorder, http: httpx2.AsyncClient) -> None:
    session = await initialize(http)
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = await http.post(MCP_PATH, json=note, headers=session)
    assert (answer.status_code, answer.content) == (202, b"")
    answer = await http.post(MCP_PATH, json=[message("a", 1), note, message("b", 2)], headers=session)
    assert [one["id"] for one in answer.json()] == [1, 2]
    assert [call["arguments"]["text"] for call in gateway.calls] == ["a", "b"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer guessed"}, 401),
        ({"Authorization": ""}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Mcp-Session-Id": "of another server"}, 404),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400),
    ],
)
async def test_who_may_not_call_is_refused(
    gateway: Recorder, http: httpx2.AsyncClient, headers: dict[str, str], status: int
) -> None:
    answer = await http.post(MCP_PATH, json=message("no"), headers=headers)
    assert answer.status_code == status, answer.text
    assert gateway.calls == []


@pytest.mark.parametrize(
    ("peer", "host", "status"),
    [("127.0.0.1", "127.0.0.1", 200), ("192.0.2.1", "127.0.0.1", 404), ("127.0.0.1", "192.0.2.7", 404)],
)
async def test_a_gateway_for_the_network_serves_it_on_loopback_only(
    gateway: Recorder, server: Server, peer: str, host: str, status: int
) -> None:
    app: Any = gateway
    transport = httpx2.ASGITransport(make_app(app, Settings(listen="0.0.0.0", token="t" * 32)), client=(peer, 9))
    async with httpx2.AsyncClient(transport=transport, base_url=f"http://{host}", headers=TOKEN) as client:
        assert (await client.post(MCP_PATH, json=request("ping", {}))).status_code == status


async def test_there_is_no_stream_to_open(http: httpx2.AsyncClient) -> None:
    assert (await http.get(MCP_PATH)).status_code == 405
