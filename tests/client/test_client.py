"""The Python clients against a real gateway, which is killed and started again."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli_house import PERMISSION, Cli

from semel import (
    AsyncClient,
    Client,
    Entry,
    EntryUpdate,
    ItemUpdate,
    NoGateway,
    OutcomeUnknown,
    PermissionItem,
    RequestRefused,
    SessionUpdate,
)
from semel.faces.client import connection
from semel.faces.client import wait_for_answer as waiting
from semel.faces.client.connection import Connection
from semel.testing.scripted_agent import prompt

DOCS = Path(__file__).parents[2] / "docs"
SESSION = "demo:web:1"
NO_ANSWER_BEHIND_IT = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlost"
Json = dict[str, Any]


class Follower:
    """Folds updates by their parts, and notes what came twice."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.items: dict[int, Any] = {}
        self.twice: list[Any] = []
        self.state = ""
        self.rev: int | None = None

    def take(self, update: Any) -> None:
        self.rev = update.rev or self.rev
        if isinstance(update, SessionUpdate):
            self.state = "idle" if update.session.state == "idle" and not update.session.waiting else "busy"
            return
        rows, row = (self.entries, update.entry) if isinstance(update, EntryUpdate) else (self.items, update.item)
        number = row.seq if isinstance(update, EntryUpdate) else row.id
        if rows.get(number) == row:
            self.twice.append(update)
        if update.appended:
            assert rows[number].text + update.appended == row.text
        rows[number] = row

    def has_said(self, text: str) -> bool:
        return self.state == "idle" and any(text in e.text for e in self.entries.values() if e.role == "agent")


@contextlib.contextmanager
def breaking_after(frames: int, times: int) -> Any:
    """Connections that break after so many frames, so often. Yields the revs at which they broke."""
    honest, broken = Connection.stream, list[Any]()

    async def breaks(self: Connection, session: str, after: int | None = None) -> AsyncIterator[Json]:
        count = 0
        async with contextlib.aclosing(honest(self, session, after)) as stream:  # type: ignore[type-var]
            async for frame in stream:
                count += 1
                yield frame
                if count == frames and len(broken) < times:
                    broken.append(frame["rev"])
                    return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "stream", breaks)
        yield broken


async def test_a_watcher_folds_the_record_through_two_breaks_and_a_kill_of_the_gateway(mortal: Cli) -> None:
    words = [f"word{n} " for n in range(40)]
    said = prompt(*({"text": word, "delay": 0.03} for word in words))
    follower = Follower()
    with breaking_after(frames=3, times=2) as broken:
        async with AsyncClient(mortal.data) as client, asyncio.timeout(60):
            await client.say(SESSION, said, id="1")
            killed = False
            async for update in client.watch(SESSION):
                follower.take(update)
                streamed = sum(len(e.text) for e in follower.entries.values() if e.role == "agent")
                if not killed and len(broken) == 2 and streamed > 60:
                    mortal.started[0].send_signal(signal.SIGKILL)
                    mortal.started[0].wait()
                    await asyncio.to_thread(mortal.up)
                    await client.say(SESSION, "say: after", id="2")
                    killed = True
                if killed and follower.has_said("after"):
                    break
            recorded = await client.list_entries(SESSION)
    assert killed and len(broken) == 2
    folded = sorted(follower.entries.values(), key=lambda entry: entry.born)
    assert msgspec.json.encode(folded) == msgspec.json.encode(msgspec.convert(recorded, list[Entry]))
    assert follower.twice == []


async def test_a_program_that_was_restarted_gets_what_changed_since_and_nothing_twice(house: Cli) -> None:
    async with AsyncClient(house.data) as client, asyncio.timeout(60):
        await client.ask(SESSION, "say: one")
        first = await take_until(client, None, "one")
        for n in range(120):  # more entries than a snapshot holds
            await client.post(f"/v1/sessions/{SESSION}/events", {"kind": "note", "text": f"note {n}", "wakes": False})
        await client.post(f"/v1/sessions/{SESSION}/events", {"kind": "note", "text": "x" * 10, "wakes": False})
        for n in range(120):
            await client.post(f"/v1/sessions/{SESSION}/events", {"kind": "note", "text": f"later {n}", "wakes": False})
        await client.ask(SESSION, "say: two")
        later = await take_until(client, first.rev, "two")
        nothing = client.watch(SESSION, later.rev)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(aiter(nothing)), 0.5)
        recorded = {entry.seq: entry for entry in await client.entries(SESSION)}
    assert {**first.entries, **later.entries} == recorded
    assert first.entries.keys() & later.entries.keys() == set()
    assert len(later.entries) == 243
    assert later.twice == []


async def take_until(client: AsyncClient, after: int | None, text: str) -> Follower:
    follower = Follower()
    async for update in client.watch(SESSION, after):
        follower.take(update)
        if follower.has_said(text):
            return follower
    raise AssertionError


def test_a_blocking_client_talks_asks_allows_reads_and_exports(house: Cli, tmp_path: Path) -> None:
    session = "demo:web:blocking"
    with Client(house.data) as client:
        answer = client.ask(session, "say: the report", id="r")
        assert (answer.text, answer.failure) == ("the report", None)
        assert client.ask(session, "say: the report", id="r") == answer
        accepted = client.say(session, PERMISSION, sender="ann")
        for update in client.watch(session):
            if (
                isinstance(update, ItemUpdate)
                and isinstance(item := update.item, PermissionItem)
                and item.state == "open"
            ):
                assert client.approve(session, item, by="ann") == "answered"
                assert client.deny(session, item) == "already"
                [allowed] = [option for option in item.options if option.kind == "allow_once"]
                assert client.answer(session, item, allowed, by="ann") == "answered"  # it has this answer
                assert client.answer(session, item.id, None, by="ann") == "already"
                break
        assert client.wait_for_answer(session, accepted.event).texts[-1] == "Thank you, it is tidy now."
        assert [hit.session for hit in client.search("report", role="agent")] == [session]
        assert session in [row.key for row in client.sessions()] and client.session(session).state == "idle"
        assert client.stop(session) is False
        document = tmp_path / "session.jsonl"
        document.write_bytes(b"".join(client.export(session)))
        assert client.import_file(document, "demo:web:copy")["status"] == "imported"
        assert [e.text for e in client.entries("demo:web:copy")] == [e.text for e in client.entries(session)]
        with pytest.raises(RequestRefused, match="no session") as refused:
            client.session("none")
        assert refused.value.code == "no-such-session"
    with pytest.raises(RuntimeError, match="closed"):
        client.sessions()


def test_files_go_with_a_message_and_are_read_again(house: Cli, tmp_path: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 99
    (tmp_path / "plan.png").write_bytes(picture)
    with Client(house.data) as client:
        notes = client.upload(b"name,price\n", "../prices.csv")
        assert (notes.name, notes.mime, notes.size) == ("prices.csv", "text/csv", 11)
        for _ in range(2):  # a program that was killed begins anew
            accepted = client.say("demo:web:files", "look", files=[tmp_path / "plan.png", notes], id="look-1")
        assert accepted.status == "duplicate"
        client.wait_for_answer("demo:web:files", accepted.event)
        [entry] = [entry for entry in client.entries("demo:web:files") if entry.role == "user"]
        assert [(file.name, file.mime) for file in entry.files] == [
            ("plan.png", "image/png"), ("prices.csv", "text/csv"),
        ]  # fmt: skip
        assert client.read_file(str(entry.files[0].id)) == picture
        assert client.ask("demo:web:files", prompt("seen"), files=[str(tmp_path / "plan.png")]).text == "seen"
        assert "(files: plan.png)" in client.ask("main:web:files", "", files=[tmp_path / "plan.png"]).text
        for wrong, error in ((tmp_path / "nothing", FileNotFoundError), (tmp_path, IsADirectoryError)):
            with pytest.raises(error):
                client.say("demo:web:files", "look", files=[wrong])
        with pytest.raises(RequestRefused, match=r"huge: .* at most 52,428,800 bytes"):
            client.upload(bytes(52_428_801), "huge")


def test_a_watch_ends_with_its_session_and_without_a_gateway_after_the_given_time(mortal: Cli) -> None:
    with Client(mortal.data) as client:
        client.ask(SESSION, "say: one")
        states = []
        for update in client.watch(SESSION):
            if isinstance(update, SessionUpdate):
                states.append(update.session.state)
                client.delete(f"/v1/sessions/{SESSION}") if states == ["idle"] else None
        assert states[-1] == "deleted"
        with pytest.raises(RequestRefused):
            next(client.watch(SESSION))
        client.ask(SESSION, "say: again")
        watch = client.watch(SESSION, give_up_after=0.3)
        next(watch)
        mortal.started[0].send_signal(signal.SIGKILL)
        mortal.started[0].wait()
        with pytest.raises(NoGateway):
            for _ in watch:
                pass
    elsewhere = mortal("sessions", "--data-dir", str(mortal.home / "elsewhere"), rc=1).stderr
    assert "semel up" in elsewhere and str(mortal.data) not in elsewhere, "a killed gateway is offered"


def test_a_gateway_elsewhere_is_reached_by_its_url_with_the_token(house: Cli) -> None:
    url, token = str(house.address(house.started[0].pid)), (house.data / "owner.token").read_text().strip()
    with Client(url=url, token=token) as client:
        assert client.ask("demo:web:tcp", "say: over tcp").text == "over tcp"
    with Client(url=url, token="wrong-token-wrong-token") as client, pytest.raises(RequestRefused, match="token"):
        client.sessions()
    with Client(url="http://127.0.0.1:9") as client, pytest.raises(NoGateway, match="no gateway answers at http"):
        client.sessions()


@contextlib.contextmanager
def listening(kind: str) -> Iterator[str]:
    """The URL of a port where no gateway answers: nobody gets a connection, or an answer, or it closes at once."""
    with contextlib.ExitStack() as sockets:
        server = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0 if kind == "full" else 8))
        if kind == "full":  # the queue holds one: who comes later waits for a connection
            for _ in range(3):
                waiting = sockets.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(server.getsockname())
        if kind in ("closing", "no answer behind it"):
            server.settimeout(0.05)
            is_over = threading.Event()
            answer = b"" if kind == "closing" else NO_ANSWER_BEHIND_IT
            closer = threading.Thread(target=close_connections, args=(server, is_over, answer))
            closer.start()
            sockets.callback(closer.join)
            sockets.callback(is_over.set)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def close_connections(server: socket.socket, is_over: threading.Event, answer: bytes) -> None:
    while not is_over.is_set():
        with contextlib.suppress(TimeoutError), server.accept()[0] as connected:
            if answer:
                connected.recv(1 << 16)
                connected.sendall(answer)


@pytest.mark.parametrize(("kind", "reason"), [
    ("full", "no connection within 0.2 s"),
    ("silent", "did not answer within 0.2 s"),
    ("closing", "no gateway answers"),
    ("no answer behind it", "no gateway answers"),
])  # fmt: skip
async def test_who_waits_for_a_gateway_that_never_answers_is_told_so_after_the_time_limit(
    kind: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 0.2)
    monkeypatch.setattr(connection, "STREAM_TIMEOUT_S", 0.2)
    monkeypatch.setattr(connection, "RETRY_DELAYS_S", (0.0,))
    monkeypatch.setattr(connection, "ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(waiting, "RECONNECT_TIMEOUT_S", 0.1)
    with listening(kind) as url:
        async with AsyncClient(url=url, token="none") as client, asyncio.timeout(10):
            with pytest.raises(NoGateway, match=reason):
                await client.wait_for_answer(SESSION, 1)
            with pytest.raises(NoGateway, match=reason):
                await anext(client.watch(SESSION, give_up_after=0.1))
            unsent = kind == "full"  # nobody took the message
            with pytest.raises(NoGateway if unsent else OutcomeUnknown):
                await client.say(SESSION, "say: hello")


async def test_a_stream_ends_two_and_a_half_pings_after_its_last_byte_and_not_while_a_frame_comes_slowly() -> None:
    is_over = asyncio.Event()
    frame = b'event: snapshot\ndata: {"rev": 1, "entries": []}\n\n'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(b'event: ping\ndata: {"every_ms": 80}\n\n')
        for start in range(0, len(frame), 8):
            await asyncio.sleep(0.08)
            writer.write(frame[start : start + 8])
        await reader.read()
        writer.close()
        await writer.wait_closed()
        is_over.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with AsyncClient(url=url, token="none") as client, asyncio.timeout(5):
            assert [frame async for frame in client.stream(SESSION)] == [{"type": "snapshot", "rev": 1, "entries": []}]
        await is_over.wait()


def test_who_finds_no_gateway_is_told_of_the_others_and_how_to_reach_them(house: Cli, tmp_path: Path) -> None:
    other = Cli(house.home, tmp_path / "elsewhere")
    done = other("sessions", "--data-dir", str(other.data), rc=1)
    assert f"(--data-dir): {house.data}" in done.stderr


LEAVES_A_WATCH = """
import asyncio, sys
from semel import AsyncClient, Client, EntryUpdate

async def leave(how):
    async with AsyncClient() as client:
        await client.ask("main:web:left", "hello")
        async for update in client.watch("main:web:left"):
            if how == "return":
                return
            if how == "raise":
                raise LookupError
            break
        async for piece in client.export("main:web:left"):
            break
        assert (await client.session("main:web:left")).key == "main:web:left"
        kept = client.watch("main:web:left")
        await anext(kept)

def leave_blocking():
    with Client() as client:
        for update in client.watch("main:web:left"):
            return

for how in ("return", "raise", "break"):
    try:
        asyncio.run(leave(how))
    except LookupError:
        pass
leave_blocking()
"""


def test_a_loop_over_a_watch_may_be_left_at_any_time_without_a_warning(house: Cli) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", LEAVES_A_WATCH], env=house.env, cwd=house.home, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


async def test_more_streams_than_a_pool_has_connections_keep_no_request_out(house: Cli) -> None:
    async with AsyncClient(house.data) as client, asyncio.timeout(25):
        await client.say(SESSION, "many watch")
        watches = [client.watch(SESSION) for _ in range(101)]
        await asyncio.gather(*(anext(watch) for watch in watches))
        assert await client.sessions()
        for watch in watches:
            await watch.aclose()


async def test_who_asks_learns_that_a_permission_is_needed_and_waits_no_longer_than_wished(house: Cli) -> None:
    news: asyncio.Queue[str] = asyncio.Queue()
    async with AsyncClient(house.data) as client, asyncio.timeout(60):
        with pytest.raises(TimeoutError, match="its turn goes on"):
            await client.ask("demo:web:asks", PERMISSION, id="p1", timeout=0.01)
        asking = asyncio.create_task(client.ask("demo:web:asks", PERMISSION, id="p1", on_news=news.put_nowait))
        assert "the agent asks: rm -r ./build" in await news.get()
        await client.stop("demo:web:asks")
        assert (await asking).text.startswith("I would") or (await asking).notices


async def test_an_answer_far_back_is_found_and_an_event_of_another_session_is_refused(house: Cli) -> None:
    session = "demo:web:far"
    async with AsyncClient(house.data) as client, asyncio.timeout(60):
        first = await client.ask(session, "say: far back", id="first")
        for number in range(205):  # more than a snapshot holds
            event = {"kind": "build.finished", "text": f"build {number}", "wakes": False}
            await client.post(f"/v1/sessions/{session}/events", event)
        assert (await client.ask(session, "say: far back", id="first")).texts == first.texts == ["far back"]
        elsewhere = await client.say("demo:web:elsewhere", "say: here")
        with pytest.raises(ValueError, match=f"event {elsewhere.event} is not in session {session}"):
            await client.wait_for_answer(session, elsewhere.event)


async def test_text_and_blocks_together_are_refused_and_neither_is_dropped(house: Cli) -> None:
    async with AsyncClient(house.data) as client:
        with pytest.raises(RequestRefused, match="either `text` or `blocks`"):
            await client.say("demo:web:both", "read this", blocks=[{"type": "text", "text": "and that"}])
        with pytest.raises(RequestRefused, match="no session"):
            await client.session("demo:web:both")


def code_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / "python.md").read_text(), re.M | re.S)


def test_the_example_that_sends_once_says_when_no_gateway_runs(tmp_path: Path) -> None:
    [block] = [block for block in code_blocks() if "except (NoGateway" in block]
    done = subprocess.run(
        [sys.executable, "-c", block], env=Cli(tmp_path, tmp_path / "data").env, cwd=tmp_path, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("try again later, with the same id: no gateway is running")


@pytest.mark.long
def test_every_example_of_the_page_runs(house: Cli) -> None:
    blocks = code_blocks()
    assert len(blocks) == 7
    printed = []
    for block in [*blocks, blocks[3]]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block], env=house.env, cwd=house.home, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, block + done.stderr
        printed.append(done.stdout)
    assert "hello" in printed[0] and "the build is green" in printed[1]
    assert printed[2].count("Your report is ready.") == 1, "the echo of an entry prints it once more"
    assert [printed[3].splitlines()[0], printed[7].splitlines()[0]] == ["2 You said: hello", "4 You said: hello"]
    assert printed[4].startswith("404 no-such-session ")
    assert "answered" in printed[5] and ("Thank you" in printed[5] or "tidy" in printed[5])
