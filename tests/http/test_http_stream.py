"""The stream: a snapshot, then every change, by rev; ended at once when the gateway stops."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from typing import Any

import httpx2
import pytest
from gateway_house import GatewayHouse, until
from http_house import House, client_of

from semel.faces.http import CannotListen, Settings, make_app, serve
from semel.faces.http.operations import stream

STREAM = "/v1/sessions/s/stream"
ODD = "llo\r\n\u2028data: x\x85\n\nid: 9\u2029"
"""Everything that some reader takes for the end of a line."""


async def take(house: House, path: str, count: int, **headers: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(20):
        found = []
        async for frame in house.frames(path, **headers):
            found.append(frame)
            if len(found) == count:
                return found
    raise AssertionError(f"the stream ended after {found}")


async def test_without_a_rev_a_snapshot_comes_first_and_its_id_is_its_rev(house: House, world: GatewayHouse) -> None:
    await (await world.script("s")).entry("user", "hi")
    (frame,) = await take(house, STREAM, 1)

    assert (frame["event"], frame["id"]) == ("snapshot", "1")
    assert frame["data"]["rev"] == 1
    assert [e["text"] for e in frame["data"]["entries"]] == ["hi"]


async def test_changes_follow_exactly_as_the_gateway_gives_them(house: House, world: GatewayHouse) -> None:
    script = await world.script("s")
    seq = await script.entry("agent", "he", live=True)
    frames = house.frames(STREAM)
    snapshot = await anext(frames)
    assert snapshot["event"] == "snapshot"
    await script.append(seq, ODD)
    change = await anext(frames)
    await frames.aclose()

    rev = snapshot["data"]["rev"] + 1
    expected = {"op": "append", "rev": rev, "seq": seq, "text": ODD}
    assert change == {
        "event": "change",
        "id": str(rev),
        "data": {"type": "change", "rev": rev, "changes": [expected]},
    }


async def test_a_watcher_resumes_by_rev_from_the_url_or_better_from_the_last_id_it_saw(
    house: House, world: GatewayHouse
) -> None:
    script = await world.script("s")
    for number in range(4):
        await script.entry("user", str(number))

    (by_url,) = await take(house, f"{STREAM}?after=2", 1)
    (by_id,) = await take(house, f"{STREAM}?after=0", 1, **{"Last-Event-ID": "3"})
    assert [c["text"] for c in by_url["data"]["changes"] if c["op"] == "entry"] == ["2", "3"]
    assert [c["text"] for c in by_id["data"]["changes"] if c["op"] == "entry"] == ["3"]
    bad = await house.client.get(STREAM, headers={"Last-Event-ID": "x"})
    assert (bad.status_code, bad.json()["field"]) == (400, "Last-Event-ID")


async def test_where_the_rev_is_too_old_a_snapshot_replaces_the_view(house: House, world: GatewayHouse) -> None:
    script = await world.script("s")
    await script.entries([("user", str(number), {}) for number in range(1010)])
    (old,) = await take(house, f"{STREAM}?after=2", 1)
    (young,) = await take(house, f"{STREAM}?after=1007", 1)
    assert (old["event"], young["event"]) == ("snapshot", "change")


async def test_html_comes_with_the_final_text_and_not_with_what_still_streams(
    house: House, world: GatewayHouse
) -> None:
    script = await world.script("s")
    seq = await script.entry("agent", "*a", live=True)
    frames, plain = house.frames(f"{STREAM}?html=1"), house.frames(STREAM)
    assert "html" not in (await anext(frames))["data"]["entries"][0]
    assert (await anext(plain))["event"] == "snapshot"
    await script.finish(seq, text="*a*")
    (change,) = (await anext(frames))["data"]["changes"]
    (same,) = (await anext(plain))["data"]["changes"]
    await frames.aclose()
    await plain.aclose()
    assert "html" not in same, "watchers share the gateway's object"
    assert change["html"] == "<p><em>a</em></p>\n"


async def test_a_watcher_that_leaves_is_forgotten(house: House, world: GatewayHouse) -> None:
    await world.script("s")
    frames = house.frames(STREAM)
    await anext(frames)
    assert world.gateway.hub.count == 1
    await frames.aclose()
    await until(lambda: asyncio.sleep(0, world.gateway.hub.count == 0))


async def test_a_quiet_stream_is_kept_alive_by_a_comment(world: GatewayHouse) -> None:
    await world.script("s")
    server = await serve(make_app(world.gateway, Settings(heartbeat_s=0.05)), "127.0.0.1", 0)
    async with (
        httpx2.AsyncClient(base_url=server.url, timeout=20, trust_env=False) as client,
        client.stream("GET", STREAM) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        lines = response.aiter_lines()
        beats = 0
        while beats < 2:
            beats += (await anext(lines)) == ": still here"
        await lines.aclose()
    await server.stop()


async def test_a_stream_with_pings_begins_with_one_and_repeats_it(world: GatewayHouse) -> None:
    await world.script("s")
    server = await serve(make_app(world.gateway, Settings(heartbeat_s=0.05)), "127.0.0.1", 0)
    async with (
        httpx2.AsyncClient(base_url=server.url, timeout=20, trust_env=False) as client,
        client.stream("GET", f"{STREAM}?ping=1") as response,
    ):
        lines = response.aiter_lines()
        ping = ["event: ping", 'data: {"every_ms":50}', ""]
        assert [await anext(lines) for _ in range(5)] == ["retry: 1000", "", *ping]
        while await anext(lines) != "event: snapshot":
            pass
        await anext(lines)  # its data
        await anext(lines)
        assert [await anext(lines) for _ in range(6)] == [*ping, *ping]
        await lines.aclose()
    await server.stop()


async def test_a_watcher_that_does_not_read_holds_up_nobody(house: House, world: GatewayHouse) -> None:
    """Its socket fills, its generator waits; another watcher is sent everything meanwhile."""
    script = await world.script("s")
    seq = await script.entry("agent", "", live=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port, limit=1024)
    writer.write(f"GET {STREAM} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    await reader.readuntil(b"event: snapshot")

    frames = house.frames(STREAM)
    await anext(frames)
    seen = 0
    async with asyncio.timeout(20):
        for _ in range(200):
            await script.append(seq, "x" * 100_000)
            await asyncio.sleep(0)
        while seen < 20_000_000:
            seen += sum(len(change["text"]) for change in (await anext(frames))["data"]["changes"])
    await frames.aclose()
    assert world.gateway.hub.count >= 1
    writer.transport.abort()


async def test_stopping_ends_open_streams_at_once_and_cleanly(world: GatewayHouse) -> None:
    await world.script("s")
    server = await serve(make_app(world.gateway, Settings()), "127.0.0.1", 0)
    async with httpx2.AsyncClient(base_url=server.url, timeout=20, trust_env=False) as client:
        frames = House(server, client).frames(STREAM)
        await anext(frames)
        clock = asyncio.get_running_loop().time
        begun = clock()
        await server.stop(grace=10)
        with pytest.raises(StopAsyncIteration):  # a proper end of the chunked body, not a cut connection
            await anext(frames)
        assert clock() - begun < 3


async def test_stopping_lets_a_request_finish(world: GatewayHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any) -> list[dict[str, Any]]:
        entered.set()
        await gate.wait()
        return []

    monkeypatch.setattr(world.gateway, "sessions", slow)
    server = await serve(make_app(world.gateway, Settings()), "127.0.0.1", 0)
    async with httpx2.AsyncClient(base_url=server.url, timeout=20, trust_env=False) as client:
        asked = asyncio.create_task(client.get("/v1/sessions"))
        await entered.wait()
        stopping = asyncio.create_task(server.stop(grace=10))
        await asyncio.sleep(0)
        gate.set()
        assert (await asked).json()["sessions"] == []
        await stopping


async def test_a_port_that_is_taken_is_a_clear_error(house: House, world: GatewayHouse) -> None:
    with pytest.raises(CannotListen, match=f"port {house.server.port} on 127.0.0.1 is in use"):
        await serve(make_app(world.gateway, Settings()), "127.0.0.1", house.server.port)


@pytest.mark.parametrize(("host", "why"), [("192.0.2.1", "not an address of this machine"), ("no.invalid", "cannot")])
async def test_an_address_that_is_not_ours_is_a_clear_error(world: GatewayHouse, host: str, why: str) -> None:
    with pytest.raises(CannotListen, match=why):
        await serve(make_app(world.gateway, Settings(listen=host, token="t")), host, 0)


async def test_the_server_leaves_signals_to_the_gateway(world: GatewayHouse) -> None:
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in signals]
    server = await serve(make_app(world.gateway, Settings()), "127.0.0.1", 0)
    assert [signal.getsignal(number) for number in signals] == before
    await server.stop()


async def test_no_answer_waits_for_a_fuller_packet(house: House) -> None:
    """Head and body leave in two writes: without TCP_NODELAY the second waits for the client's delayed ACK, 40 ms."""
    await house.client.get("/v1/sessions")
    (connection,) = house.server.server_state.connections
    sock = connection.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_head_of_a_stream_does_not_hang(world: GatewayHouse, settings: Settings) -> None:
    await world.script("s")
    async with client_of(world.gateway, settings) as client:
        assert (await client.head(STREAM)).status_code == 200


async def test_many_who_do_not_read_hold_one_text_together(house: House, world: GatewayHouse) -> None:
    """Each has its socket full and is handed pieces; what they wait for is held once, and goes with the last one."""
    script = await world.script("s")
    await script.entry("agent", "x" * 20_000_000)
    writers = []
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port, limit=1024)
        writer.write(f"GET {STREAM} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await reader.readuntil(b"event: snapshot")
        writers.append(writer)
    assert len([one for one in gc.get_objects() if type(one) is stream._Frame and len(one.data) > 1_000_000]) == 1
    held = [one.transport.get_write_buffer_size() for one in house.server.server_state.connections]
    assert len(held) == 5 and max(held) <= 4 * stream.MAX_CHUNK_BYTES
    for writer in writers:
        writer.transport.abort()
    await house.server.stop()
    assert not stream._shared_frames


async def test_a_heartbeat_does_not_come_into_the_middle_of_a_frame(world: GatewayHouse) -> None:
    script = await world.script("s")
    await script.entry("agent", "x" * 20_000_000)
    server = await serve(make_app(world.gateway, Settings(heartbeat_s=0.01)), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 26)
    writer.write(f"GET {STREAM} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
    async with asyncio.timeout(20):
        await reader.readuntil(b"event: snapshot\ndata: ")
        data = await reader.readuntil(b": still here")
    assert b"x" * 20_000_000 in data and data.endswith(b"}\n\n: still here")
    writer.transport.abort()
    await server.stop()
