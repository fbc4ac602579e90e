"""The content of files is in the database: any machine's gateway has it, and no kill leaves any of it behind."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "inbound"))
sys.path.insert(0, str(Path(__file__).parent.parent / "gateway"))

from inbound_world import ANN, EVE, KEY, Chat, message, until

from proof.postgres_server import PostgresServer
from semel.faces.health.database import examine_content
from semel.gateway.database_files import DatabaseFiles
from semel.gateway.files import FolderFiles, StoreFailed, blob_id
from semel.gateway.ports import Op, Receipt
from semel.gateway.settings import TranscriptionSettings
from semel.ledger import file_pieces
from semel.ledger.admin import erase
from semel.ledger.engines import open_ledger, open_readonly
from semel.ledger.file_pieces import PIECE_BYTES, PIECES_PER_STEP
from semel.ledger.inbound import channel_batch, uploads
from semel.ledger.storage.location import DatabaseUrl
from semel.ledger.storage.store import LedgerStore
from semel.testing.scripted_agent import prompt as script

STEP = PIECE_BYTES * PIECES_PER_STEP
LARGE = random.Random(17).randbytes(3 * STEP + PIECE_BYTES + 1)
SIZES = (0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, STEP, STEP + 1)


@pytest.fixture
def store(url: DatabaseUrl) -> Iterator[LedgerStore]:
    with open_ledger(url) as store:
        yield store


def count(server: PostgresServer, database: str, table: str) -> int:
    ((number,),) = server.execute(f"SELECT count(*) FROM {table}", database)
    return int(number)


def read(files: DatabaseFiles, id: str) -> bytes:
    with files.open(id) as content:
        return content.read()


# ---------------------------------------------------------------- a gateway


class DatabaseChat(Chat):
    """A gateway whose ledger is in a database. Its channel remembers the content of the files that it was given."""

    def __init__(self, path: Path, url: DatabaseUrl) -> None:
        path.mkdir(exist_ok=True)
        super().__init__(path)
        self.settings = self.settings.model_copy(update={"ledger": url})
        self.sent_files: list[bytes] = []
        answer = self.chat.send

        async def send(op: Op) -> Receipt:
            if op.file is not None:
                self.sent_files.append(op.file.read_bytes())
            return await answer(op)

        self.chat.send = send  # type: ignore[method-assign]

    async def start(self) -> DatabaseChat:
        await self.start_on(await asyncio.to_thread(open_ledger, self.settings.ledger))
        return self

    def on_disk(self) -> list[str]:
        """The names in the folder of stored files."""
        return sorted(path.name for path in (self.path / "blobs").glob("*"))

    async def fetch(self, id: str, **headers: str) -> httpx2.Response:
        """What the page gets."""
        transport = httpx2.AsyncHTTPTransport(uds=str(self.gateway.socket))
        async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as client:
            return await client.get(f"/v1/blobs/{id}", headers=headers)


@pytest.fixture
async def chat(tmp_path: Path, url: DatabaseUrl) -> AsyncIterator[DatabaseChat]:
    async with DatabaseChat(tmp_path / "first", url) as chat:
        yield chat


async def test_a_gateway_on_another_machine_has_the_files(tmp_path: Path, url: DatabaseUrl) -> None:
    async with DatabaseChat(tmp_path / "first", url) as first:
        kept = await first.chat.attach("large.bin", LARGE)
        await first.told(message("m1", "read this", files=(kept,)))
        assert first.on_disk() == []
    async with DatabaseChat(tmp_path / "second", url) as second:
        assert (await second.gateway.overview())["disk"]["files"] > len(LARGE)
        got = await second.fetch(kept.id)
        assert (got.status_code, got.content) == (200, LARGE)
        assert got.headers["content-disposition"] == 'attachment; filename="large.bin"'
        some = await second.fetch(kept.id, **{"range": f"bytes={STEP - 2}-{STEP + 1}", "if-range": got.headers["etag"]})
        assert (some.status_code, some.content) == (206, LARGE[STEP - 2 : STEP + 2])
        again = await second.chat.attach("again.bin", LARGE)
        await second.told(message("m2", "and again", files=(again,)))
        copy = second.work / ".semel/received" / f"{kept.id[:8]}-again.bin"
        assert copy.read_bytes() == LARGE
        assert second.on_disk() == []


async def test_a_voice_note_is_written_down_from_the_database(tmp_path: Path, url: DatabaseUrl) -> None:
    chat = DatabaseChat(tmp_path / "first", url)
    chat.settings = chat.settings.model_copy(update={"transcription": TranscriptionSettings(command=("cat", "{file}"))})
    async with chat:
        voice = replace(await chat.chat.attach("v.ogg", "Grüße".encode(), "audio/ogg"), voice=True)
        entry, *_ = await chat.told(message("m1", "", files=(voice,)))
        assert entry["files"][0]["transcript"] == "Grüße"
        assert chat.on_disk() == []


async def test_a_file_that_one_gateway_took_in_comes_with_a_message_to_another(
    tmp_path: Path, url: DatabaseUrl, db_server: PostgresServer, database: str
) -> None:
    async def content() -> AsyncIterator[bytes]:
        for start in range(0, len(LARGE), 50_000):
            yield LARGE[start : start + 50_000]

    async with DatabaseChat(tmp_path / "first", url) as first:
        file = await first.gateway.upload("large.bin", content())
        assert first.on_disk() == []
    async with DatabaseChat(tmp_path / "second", url) as second:
        await second.gateway.say("s", "read this", attached=[{"id": file.id}])
        await second.idle("s")
        copy = second.work / ".semel/received" / f"{file.id[:8]}-large.bin"
        assert copy.read_bytes() == LARGE
        assert (await second.fetch(file.id)).content == LARGE
        other = await second.gateway.upload("other.bin", content())
        await second.gateway.record.write(uploads.record_upload, other.id, "other.bin", other.mime, 0)
        assert await second.gateway.uploads.remove_expired() == 1
        assert (await second.fetch(file.id)).content == LARGE, "the message holds it"
        await second.gateway.delete("s")

        async def gone() -> bool:
            return await asyncio.to_thread(count, db_server, database, "blob") == 0

        await until(gone)
        assert count(db_server, database, "upload") == count(db_server, database, "blob_piece") == 0


async def test_what_an_agent_sends_is_what_the_channel_gets(chat: DatabaseChat) -> None:
    (chat.work / "report.bin").write_bytes(LARGE)
    call = {"call": "send_file", "arguments": {"path": "report.bin", "text": "The report."}}
    await chat.told(message("m1", script(call, "Done.")))
    await chat.sent()
    assert chat.sent_files == [LARGE]
    assert chat.on_disk() == []


async def test_an_erased_session_leaves_nothing(chat: DatabaseChat, db_server: PostgresServer, database: str) -> None:
    kept = await chat.chat.attach("large.bin", LARGE)
    await chat.tell(message("m1", "x", group=True, files=(kept,)))
    assert count(db_server, database, "blob_piece") == file_pieces.count_pieces(len(LARGE))
    await chat.gateway.delete(KEY)

    async def gone() -> bool:
        return await asyncio.to_thread(count, db_server, database, "blob") == 0

    await until(gone)
    assert count(db_server, database, "blob_piece") == 0
    assert (await chat.fetch(kept.id)).status_code == 404


async def test_what_is_received_again_is_not_removed_with_its_session(
    chat: DatabaseChat, db_server: PostgresServer, database: str
) -> None:
    """By the row alone, so by no other gateway either."""
    kept = await chat.chat.attach("a", LARGE)
    await chat.tell(message("m1", "x", group=True, files=(kept,)))
    again = await chat.chat.attach("b", LARGE)
    await chat.gateway.delete(KEY)

    async def erased() -> bool:
        return await asyncio.to_thread(count, db_server, database, "holding") == 0

    await until(erased)
    assert await chat.gateway.record.read(erase.list_unheld_files) == []
    await chat.gateway.record.write(erase.forget_files, [kept.id])
    await chat.tell(message("m2", "y", group=True, address="b", files=(again,)))
    assert (await chat.fetch(kept.id)).content == LARGE


async def test_files_that_nobody_claims_go(chat: DatabaseChat, db_server: PostgresServer, database: str) -> None:
    stranger = await chat.chat.attach("bad.exe", b"x" * 100)
    await chat.tell(message("m1", "take it", EVE, files=(stranger,)))
    (chat.work / "gone.txt").write_text("figures")
    call = {"call": "send_file", "arguments": {"path": "gone.txt", "to": "nobody"}}
    await chat.told(message("m2", script(call, "Done."), ANN))

    async def gone() -> bool:
        return await asyncio.to_thread(count, db_server, database, "blob_piece") == 0

    await until(gone)


async def test_a_file_whose_content_is_missing_is_not_sent(
    chat: DatabaseChat, db_server: PostgresServer, database: str
) -> None:
    (chat.work / "report.txt").write_text("figures")
    call = {"call": "send_file", "arguments": {"path": "report.txt", "text": "The report."}}
    store_file = chat.gateway.file_store.content.store_draft

    def lose(*args: Any) -> None:
        store_file(*args)
        db_server.execute("DELETE FROM blob_piece", database)

    chat.gateway.file_store.content.store_draft = lose  # type: ignore[method-assign]
    await chat.told(message("m1", script(call, "Done.")))
    await until(lambda: _has_error(chat, "is not in the database"))
    assert chat.sent_files == []


async def _has_error(chat: DatabaseChat, text: str) -> bool:
    return any(text in str(part.get("error")) for part in await chat.gateway.parts())


async def test_files_in_the_folder_are_moved_into_the_database(
    tmp_path: Path, url: DatabaseUrl, db_server: PostgresServer, database: str
) -> None:
    async with DatabaseChat(tmp_path / "first", url) as chat:
        files = [await chat.chat.attach(f"{n}", LARGE[n:]) for n in range(3)]
        await chat.tell(message("m1", "x", group=True, files=tuple(files)))
    move_out(db_server, database, chat.path / "blobs", [LARGE[n:] for n in range(3)])
    (chat.path / "blobs" / files[2].id).write_bytes(b"damaged")
    assert examine(url, chat.path) == [("warning", 3)]
    async with DatabaseChat(tmp_path / "first", url) as chat:
        assert (await chat.fetch(files[0].id)).content == LARGE, "also while it is being moved"

        async def moved() -> bool:
            return chat.on_disk() == [files[2].id]

        await until(moved)
        assert (await chat.fetch(files[1].id)).content == LARGE[1:]
        assert examine(url, chat.path) == [("warning", 1)]
        assert examine(url, tmp_path) == [("broken", 1)], "as another machine sees it"
        await chat.gateway.delete(KEY)
        await until(lambda: _is_empty(chat))


def examine(url: DatabaseUrl, data_dir: Path) -> list[tuple[str, int]]:
    """The level and the number of files of each finding of `semel doctor` about them."""
    with open_readonly(url) as store:
        findings = examine_content(store, data_dir / "blobs")
    return [(finding.level, int(finding.text.split(": ")[-1])) for finding in findings]


async def _is_empty(chat: DatabaseChat) -> bool:
    return chat.on_disk() == []


def move_out(server: PostgresServer, database: str, folder: Path, contents: list[bytes]) -> None:
    """Let the files be in the folder, as an earlier Semel left them."""
    server.execute("DELETE FROM blob_piece", database)
    for content in contents:
        FolderFiles(folder).store_bytes(content, "x", "text/plain")


# ---------------------------------------------------------------- in and out


def test_what_comes_out_is_what_went_in(store: LedgerStore, tmp_path: Path) -> None:
    files = DatabaseFiles(tmp_path / "blobs", store)
    for content in (LARGE[:size] for size in SIZES):
        files.store_bytes(content, "a", "text/plain")
        files.store_bytes(content, "a", "text/plain")
        assert read(files, blob_id(content)) == content
        with files.lend(blob_id(content)) as path:
            assert path.read_bytes() == content
        assert list(files.folder.iterdir()) == []


def test_damaged_content_is_not_given_out(
    store: LedgerStore, tmp_path: Path, db_server: PostgresServer, database: str
) -> None:
    files = DatabaseFiles(tmp_path, store)
    files.store_bytes(LARGE, "a", "text/plain")
    db_server.execute("UPDATE blob_piece SET data = 'x' WHERE n = 2", database)
    for give_out in (files.open, lambda id: files.lend(id).__enter__()):
        with pytest.raises(StoreFailed, match="damaged"):
            give_out(blob_id(LARGE))
    with pytest.raises(StoreFailed, match="not in the database"):
        files.open("0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_released_while_it_comes_is_refused(store: LedgerStore, tmp_path: Path) -> None:
    """As by another gateway's start. What it had written goes with the row, and no later piece is written alone."""
    files, add = DatabaseFiles(tmp_path, store), file_pieces.add_pieces
    draft = files.start_draft()
    draft.write(LARGE)
    draft.finish()
    with pytest.MonkeyPatch.context() as patch:

        def release_first(tx: Any, id: str, *args: Any) -> None:
            channel_batch.release_files(tx, [id])
            tx.run("blob_drop", id=id)
            add(tx, id, *args)

        patch.setattr(file_pieces, "add_pieces", release_first)
        with pytest.raises(StoreFailed, match="send it again"):
            files.store_draft(draft, "a", "text/plain")
    files.store_draft(draft, "a", "text/plain")
    draft.discard()
    assert read(files, blob_id(LARGE)) == LARGE


def test_a_large_file_is_never_in_memory_as_a_whole(url: DatabaseUrl, tmp_path: Path) -> None:
    size = 50 << 20
    code = """
import resource, sys
from pathlib import Path
from semel.gateway.database_files import DatabaseFiles
from semel.ledger.engines import open_ledger
from semel.ledger.storage.location import DatabaseUrl
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open_ledger(DatabaseUrl(sys.argv[1])) as store:
    files, size = DatabaseFiles(Path(sys.argv[2]), store), int(sys.argv[3])
    files.store_bytes(b"warm", "x", "text/plain")
    before, draft = peak(), files.start_draft()
    with open("/dev/urandom", "rb") as source:
        for _ in range(size >> 20):
            draft.write(source.read(1 << 20))
    id = draft.finish()
    files.store_draft(draft, "x", "text/plain")
    draft.discard()
    with files.lend(id) as path:
        assert path.stat().st_size == size
    print(peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, url.uri, str(tmp_path), str(size)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < size // 2048, f"{done.stdout} KiB for {size >> 10} KiB"


# ---------------------------------------------------------------- kills


def die_at(step: int, deed: Any) -> None:
    """Run a deed in a process that is killed when it writes its nth pieces."""
    child = os.fork()
    if child == 0:
        left, add = step, file_pieces.add_pieces

        def dying(*args: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            add(*args)

        file_pieces.add_pieces = dying
        try:
            deed()
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("step", [0, 2])
async def test_a_kill_between_pieces_and_message_leaves_nothing(
    tmp_path: Path, url: DatabaseUrl, db_server: PostgresServer, database: str, step: int
) -> None:
    open_ledger(url).close()

    def receive() -> None:
        with open_ledger(url) as store:
            DatabaseFiles(tmp_path / "first", store).store_bytes(LARGE, "a", "text/plain")

    die_at(step, receive)
    assert count(db_server, database, "blob_piece") == (step + 1) * PIECES_PER_STEP
    await until_left(db_server, database)
    async with DatabaseChat(tmp_path / "first", url):

        async def gone() -> bool:
            return await asyncio.to_thread(count, db_server, database, "blob") == 0

        await until(gone)
    assert count(db_server, database, "blob_piece") == 0


async def test_a_move_out_of_the_folder_goes_on_after_a_kill(
    tmp_path: Path, url: DatabaseUrl, db_server: PostgresServer, database: str
) -> None:
    async with DatabaseChat(tmp_path / "first", url) as chat:
        kept = await chat.chat.attach("a", LARGE)
        await chat.tell(message("m1", "x", group=True, files=(kept,)))
    folder = chat.path / "blobs"
    move_out(db_server, database, folder, [LARGE])

    def take_in() -> None:
        with open_ledger(url) as store:
            DatabaseFiles(folder, store).take_in(kept.id)

    die_at(2, take_in)
    assert 0 < count(db_server, database, "blob_piece") < file_pieces.count_pieces(len(LARGE))
    await until_left(db_server, database)
    async with DatabaseChat(tmp_path / "first", url) as chat:
        assert (await chat.fetch(kept.id)).content == LARGE
        await until(lambda: _is_empty(chat))
        assert (await chat.fetch(kept.id)).content == LARGE


async def until_left(server: PostgresServer, database: str) -> None:
    async def is_left() -> bool:
        query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"
        return await asyncio.to_thread(server.execute, query) == [(0,)]

    await until(is_left)
