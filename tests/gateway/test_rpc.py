"""The gateway's unix socket (semel.gateway.tools.rpc) and its client (semel.tools.rpc_client)."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from semel.gateway.tools.rpc import LINE, RpcError, RpcServer, SocketRefused, socket_path
from semel.gateway.tools.unix_socket import MAX_PATH_BYTES
from semel.tools import lines
from semel.tools.rpc_client import GatewayRefused, NoGatewayAnswer, ask_once

Json = dict[str, Any]
BOUND = 20.0


class House:
    """A handler with one method of each temper."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.ended: list[Any] = []
        self.release = asyncio.Event()

    async def handle(self, method: str, params: Json) -> Json:
        self.begun.append(params.get("n"))
        if method == "wait":
            await self.release.wait()
        elif method == "refuse":
            raise RpcError("fenced", "This spawn has ended.")
        elif method == "break":
            raise RuntimeError("the secret inside")
        elif method == "odd":
            return {"set": {1}}
        self.ended.append(params.get("n"))
        return {"method": method, **params}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "gateway.sock"


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
async def server(path: Path, house: House) -> AsyncIterator[RpcServer]:
    server = RpcServer(path, house.handle)
    await server.start()
    yield server
    house.release.set()
    await server.stop()


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader = reader
        self.writer = writer

    async def ask(self, *requests: Json) -> None:
        self.writer.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
        await self.writer.drain()

    async def answer(self) -> Json:
        answer: Json = json.loads(await asyncio.wait_for(self.reader.readline(), BOUND))
        return answer

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@pytest.fixture
async def call(path: Path) -> AsyncIterator[Callable[[], Any]]:
    callers: list[Caller] = []

    async def connect() -> Caller:
        callers.append(Caller(*await asyncio.open_unix_connection(path, limit=LINE)))
        return callers[-1]

    yield connect
    for caller in callers:
        await caller.close()


async def until(so: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def test_both_ends_agree_on_the_longest_line() -> None:
    assert lines.LIMIT == LINE


async def test_only_the_owner_can_reach_the_socket(server: RpcServer, path: Path) -> None:
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="this system does not tell who connects")
async def test_a_process_of_another_user_is_turned_away(path: Path, house: House, call: Any) -> None:
    server = RpcServer(path, house.handle, uid=os.getuid() + 1)
    await server.start()
    with capture_logs() as logs:
        caller = await call()
        assert (await caller.answer())["error"]["code"] == "stranger"
        assert await caller.reader.read() == b""
    assert logs[0]["uid"] == os.getuid()
    assert house.begun == []
    await server.stop()


async def test_requests_begin_in_the_order_they_came_and_run_side_by_side(
    server: RpcServer, house: House, call: Any
) -> None:
    caller = await call()
    await caller.ask(*({"id": n, "method": "wait", "params": {"n": n}} for n in range(100)))
    await until(lambda: len(house.begun) == 100)
    assert house.begun == list(range(100))
    assert "requests=100" in repr(server)
    await caller.ask({"id": "quick", "method": "quick", "params": {}})
    assert (await caller.answer())["id"] == "quick"
    house.release.set()
    assert sorted([(await caller.answer())["id"] for _ in range(100)]) == list(range(100))


@pytest.mark.parametrize(
    ("raw", "id", "said"),
    [
        (b"not json", None, "not JSON"),
        (b"[" * 50_000, None, "not JSON"),
        (b"\xff\xfe", None, "not JSON"),
        (b"[1]", None, "JSON object"),
        (b"{}", None, '"id"'),
        (b'{"id": true, "method": "x"}', None, '"id"'),
        (b'{"id": 3}', 3, '"method"'),
        (b'{"id": 4, "method": "x", "params": []}', 4, '"params"'),
        (b'{"id": 5, "method": "x", "params": {"t": "\\ud83d"}}', 5, "surrogate"),
    ],
)
async def test_a_line_that_is_no_request_is_answered_and_the_connection_lives_on(
    server: RpcServer, call: Any, raw: bytes, id: int | None, said: str
) -> None:
    caller = await call()
    caller.writer.write(raw + b"\n")
    answer = await caller.answer()
    assert answer["id"] == id
    assert answer["error"]["code"] == "bad_request"
    assert said in answer["error"]["message"]
    await caller.ask({"id": 9, "method": "hi", "params": {"t": "\U0001f600"}})
    assert (await caller.answer())["result"] == {"method": "hi", "t": "\U0001f600"}


async def test_a_line_beyond_the_bound_is_answered_and_ends_the_connection(path: Path, house: House) -> None:
    server = RpcServer(path, house.handle, limit=10_000)
    await server.start()
    caller = Caller(*await asyncio.open_unix_connection(path))
    await caller.ask({"id": 1, "method": "hi", "params": {"t": "x" * 9_900}})
    assert (await caller.answer())["id"] == 1
    caller.writer.write(b"x" * 30_000)
    assert (await caller.answer())["error"]["code"] == "too_long"
    assert await caller.reader.read() == b""
    await caller.close()
    await server.stop()


async def test_who_sends_all_of_a_line_that_is_too_long_reads_the_answer_all_the_same(path: Path, house: House) -> None:
    server = RpcServer(path, house.handle, limit=10_000)
    await server.start()

    def ask() -> bytes:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(20)
            link.connect(str(path))
            link.sendall(b'{"id": 1, "method": "hi", "x": "' + b"x" * 20_000_000 + b'"}\n')
            return link.makefile("rb").readline()

    for _ in range(5):
        assert json.loads(await asyncio.to_thread(ask))["error"]["code"] == "too_long"
    await server.stop()


async def test_a_definite_no_has_its_code_and_a_failure_tells_nothing_of_its_inside(
    server: RpcServer, call: Any
) -> None:
    caller = await call()
    await caller.ask({"id": 1, "method": "refuse"})
    assert (await caller.answer())["error"] == {"code": "fenced", "message": "This spawn has ended."}
    for method in ("break", "odd"):
        with capture_logs() as logs:
            await caller.ask({"id": 2, "method": method})
            answer = await caller.answer()
        assert answer["error"]["code"] == "internal"
        assert "secret" not in json.dumps(answer)
        assert logs[0]["method"] == method


async def test_a_client_that_does_not_read_its_answers_delays_only_itself(
    server: RpcServer, house: House, call: Any
) -> None:
    slow = await call()
    slow.writer.transport.pause_reading()
    big = "x" * (1 << 20)
    for n in range(8):
        await slow.ask({"id": n, "method": "hi", "params": {"n": n, "t": big}})
    await until(lambda: len(house.ended) == 8)
    assert "requests=0" not in repr(server)  # its answers wait
    other = await call()
    for n in range(100):
        await other.ask({"id": n, "method": "hi", "params": {}})
        assert (await other.answer())["id"] == n


async def test_what_was_begun_is_finished_although_its_caller_is_gone(
    server: RpcServer, house: House, call: Any
) -> None:
    caller = await call()
    await caller.ask({"id": 1, "method": "wait", "params": {"n": 1}})
    await until(lambda: house.begun == [1])
    await caller.close()
    await until(lambda: "connections=0" in repr(server))
    house.release.set()
    await until(lambda: house.ended == [1])


async def test_half_a_line_is_no_request(server: RpcServer, house: House, call: Any) -> None:
    caller = await call()
    caller.writer.write(b'{"id": 1, "method": "hi", "params": {}}')
    caller.writer.write_eof()
    assert await caller.reader.read() == b""
    assert house.begun == []


async def test_a_stop_lets_running_requests_end_and_refuses_new_ones(
    server: RpcServer, house: House, call: Any, path: Path
) -> None:
    caller = await call()
    await caller.ask({"id": 1, "method": "wait", "params": {"n": 1}})
    await until(lambda: house.begun == [1])
    stop = asyncio.create_task(server.stop(grace=BOUND))
    await until(lambda: "stopping" in repr(server))
    await caller.ask({"id": 2, "method": "hi", "params": {}})
    assert (await caller.answer())["error"]["code"] == "stopping"
    house.release.set()
    assert (await caller.answer())["id"] == 1
    await stop
    assert await caller.reader.read() == b""
    assert not path.exists()
    assert "closed connections=0 requests=0" in repr(server)


async def test_a_stop_that_runs_out_of_grace_tells_the_caller_to_ask_again(
    server: RpcServer, house: House, call: Any
) -> None:
    caller = await call()
    await caller.ask({"id": 1, "method": "wait", "params": {"n": 1}})
    await until(lambda: house.begun == [1])
    await server.stop(grace=0.05)
    assert (await caller.answer())["error"]["code"] == "stopping"
    assert house.ended == []


async def test_the_socket_of_a_dead_gateway_is_replaced(path: Path, house: House, call: Any) -> None:
    path.parent.mkdir()
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(os.fspath(path))
    dead.close()
    server = RpcServer(path, house.handle)
    await server.start()
    caller = await call()
    await caller.ask({"id": 1, "method": "hi"})
    assert (await caller.answer())["result"] == {"method": "hi"}
    await server.stop()


async def test_the_socket_of_a_living_gateway_is_left_alone(server: RpcServer, path: Path, house: House) -> None:
    with pytest.raises(SocketRefused, match="another gateway listens"):
        await RpcServer(path, house.handle).start()
    assert await asyncio.to_thread(ask_once, os.fspath(path), "hi", {}) == {"method": "hi"}


async def test_a_file_that_is_no_socket_is_left_alone(path: Path, house: House) -> None:
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(SocketRefused, match="not a socket"):
        await RpcServer(path, house.handle).start()
    assert path.read_text() == "mine"


async def test_a_gateway_that_stops_late_does_not_take_its_successors_socket(
    server: RpcServer, path: Path, house: House
) -> None:
    path.unlink()
    successor = RpcServer(path, house.handle)
    await successor.start()
    await server.stop()
    assert await asyncio.to_thread(ask_once, os.fspath(path), "hi", {}) == {"method": "hi"}
    await successor.stop()


async def test_a_directory_that_others_may_enter_is_closed_to_them_first(path: Path, house: House) -> None:
    path.parent.mkdir(mode=0o755)
    server = RpcServer(path, house.handle)
    await server.start()
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700
    await server.stop()


async def test_a_directory_that_is_a_symbolic_link_is_not_used(tmp_path: Path, house: House) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(SocketRefused, match="must be a directory of this user"):
        await RpcServer(tmp_path / "link" / "g.sock", house.handle).start()


async def test_a_path_too_long_for_a_socket_is_said_to_be_and_has_a_short_stand_in(
    tmp_path: Path, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    with pytest.raises(SocketRefused, match="too long"):
        await RpcServer(deep / "gateway.sock", house.handle).start()
    with tempfile.TemporaryDirectory() as runtime_dir:  # tmp_path has the user's name in it, however long
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime_dir)
        await check_short_stand_in(deep, house)


async def check_short_stand_in(deep: Path, house: House) -> None:
    short = socket_path(deep)
    assert len(os.fsencode(short)) <= MAX_PATH_BYTES
    assert short == socket_path(deep) != socket_path(deep / "other")
    assert socket_path(Path("/short")) == Path("/short/gateway.sock")
    server = RpcServer(short, house.handle)
    await server.start()
    assert await asyncio.to_thread(ask_once, os.fspath(short), "hi", {}) == {"method": "hi"}
    await server.stop()


async def test_one_question_without_a_connection_of_its_own_to_keep(server: RpcServer, path: Path) -> None:
    ask = lambda method, where=path: asyncio.to_thread(ask_once, os.fspath(where), method, {})  # noqa: E731
    assert await ask("hi") == {"method": "hi"}
    with pytest.raises(GatewayRefused) as refused:
        await ask("refuse")
    assert refused.value.code == "fenced"
    with pytest.raises(NoGatewayAnswer) as lost:
        await ask("hi", path.with_name("nobody.sock"))
    assert lost.value.handed is False
    with pytest.raises(NoGatewayAnswer) as silent:
        await asyncio.to_thread(ask_once, os.fspath(path), "wait", {}, 0.1)
    assert silent.value.handed is True
