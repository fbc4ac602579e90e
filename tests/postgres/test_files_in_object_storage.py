"""`[files]` url: the content of files is in a bucket, in a real server with the interface of S3."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "inbound"))
sys.path.insert(0, str(Path(__file__).parent.parent / "gateway"))

from cli_house import SCRIPTED, Cli
from inbound_world import KEY, message, until
from swift import ACCESS_KEY, REGION, SECRET_KEY, Swift, find_missing
from test_files_in_database import DatabaseChat, count, until_left

from proof.postgres_server import PostgresServer
from semel.faces.health.object_storage import examine_object_storage
from semel.gateway.bucket import Bucket
from semel.gateway.files import StoreFailed, blob_id
from semel.gateway.object_files import OBJECT_BYTES, ObjectFiles, make_reader
from semel.gateway.settings import FileSettings
from semel.ledger.admin import erase
from semel.ledger.copy_ledger import copy_ledger
from semel.ledger.engines import open_ledger, open_readonly
from semel.ledger.inbound import channel_batch
from semel.ledger.storage.errors import CopyFailed
from semel.ledger.storage.location import DatabaseUrl
from semel.ledger.storage.store import LedgerStore, now_ms
from semel.testing.scripted_agent import prompt as script

pytestmark = pytest.mark.skipif(bool(find_missing()), reason=find_missing() or "it is there")

LARGE = random.Random(17).randbytes(2 * OBJECT_BYTES + 1)  # three objects
PREFIX = "semel/files"


@pytest.fixture(scope="module")
def swift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swift]:
    with Swift(tmp_path_factory.mktemp("swift")) as server:
        yield server


@pytest.fixture
def bucket(swift: Swift, database: str) -> str:
    name = f"bucket-{database}"
    swift.make_bucket(name)
    return name


@pytest.fixture
def settings(swift: Swift, bucket: str) -> FileSettings:
    return FileSettings(
        url=f"s3://{bucket}/{PREFIX}", endpoint=swift.url, region=REGION, access_key=ACCESS_KEY, secret_key=SECRET_KEY
    )


class BucketChat(DatabaseChat):
    """A gateway whose files are in object storage. `settings`: of its files; with no URL, they are in the database."""

    def __init__(self, path: Path, url: DatabaseUrl, settings: FileSettings) -> None:
        super().__init__(path, url)
        self.settings = self.settings.model_copy(update={"files": settings})


@pytest.fixture
async def chat(tmp_path: Path, url: DatabaseUrl, settings: FileSettings) -> AsyncIterator[BucketChat]:
    async with BucketChat(tmp_path / "first", url, settings) as chat:
        yield chat


@pytest.fixture
def store(url: DatabaseUrl) -> Iterator[LedgerStore]:
    with open_ledger(url) as store:
        yield store


def make_files(store: LedgerStore, settings: FileSettings, folder: Path) -> ObjectFiles:
    return ObjectFiles(folder, store, Bucket(settings))


def need(store: LedgerStore, content: bytes) -> None:
    """Let a message need the file with this content."""
    store.write_sync(lambda tx: tx.run("blob_heard", id=blob_id(content)))


def read(files: ObjectFiles, id: str) -> bytes:
    with files.open(id) as content:
        return content.read()


async def test_a_gateway_on_another_machine_has_the_files(
    tmp_path: Path, url: DatabaseUrl, settings: FileSettings, swift: Swift, bucket: str, db_server: PostgresServer,
    database: str,
) -> None:  # fmt: skip
    async with BucketChat(tmp_path / "first", url, settings) as first:
        kept = await first.chat.attach("large.bin", LARGE)
        await first.told(message("m1", "read this", files=(kept,)))
        assert first.on_disk() == []
    names = swift.names(bucket)
    assert [name.rpartition("/")[2] for name in names] == ["0", "1", "2"]
    assert all(name.startswith(f"{PREFIX}/{kept.id}-") for name in names)
    async with BucketChat(tmp_path / "second", url, settings) as second:
        again = await second.chat.attach("again.bin", LARGE)
        assert swift.names(bucket) == names, "equal content is stored once"
        await second.told(message("m2", "and again", files=(again,)))
        assert (second.work / ".semel/received" / f"{kept.id[:8]}-again.bin").read_bytes() == LARGE
        got = await second.fetch(kept.id, range="bytes=1-3")
        assert (got.status_code, got.content) == (206, LARGE[1:4])
        (second.work / "report.bin").write_bytes(LARGE[1:])
        call = {"call": "send_file", "arguments": {"path": "report.bin", "text": "The report."}}
        await second.told(message("m3", script(call, "Done.")))
        await second.sent()
        assert second.sent_files == [LARGE[1:]]
        assert second.on_disk() == []
    assert count(db_server, database, "blob_piece") == 2, "it only says which objects there are"


async def test_an_erased_session_leaves_nothing_as_soon_as_the_bucket_can_be_reached(
    chat: BucketChat, swift: Swift, bucket: str, db_server: PostgresServer, database: str
) -> None:
    chat.gateway.erasures.store_retry_s = 0.1
    kept = await chat.chat.attach("large.bin", LARGE)
    await chat.tell(message("m1", "x", group=True, files=(kept,)))
    swift.kill()
    try:
        await chat.gateway.delete(KEY)

        async def erased() -> bool:
            storage = (await chat.gateway.overview())["object_storage"]
            return count(db_server, database, "holding") == 0 and "cannot be reached" in str(storage["problem"])

        await until(erased)
        assert count(db_server, database, "blob") == 1, "the row stays until the object is gone"
    finally:
        swift.start()

    async def gone() -> bool:
        return count(db_server, database, "blob") == 0

    await until(gone)
    assert swift.names(bucket) == []
    assert (await chat.gateway.overview())["object_storage"] == {"url": f"s3://{bucket}/{PREFIX}", "problem": None}


async def test_while_the_bucket_is_away_no_message_loses_its_file(
    chat: BucketChat, swift: Swift, url: DatabaseUrl, settings: FileSettings
) -> None:
    kept = await chat.chat.attach("a.bin", LARGE)
    await chat.tell(message("m1", "x", group=True, files=(kept,)))
    (chat.work / "report.txt").write_text("figures")
    swift.kill()
    try:
        receiving = asyncio.ensure_future(chat.chat.attach("b.bin", b"content"))

        async def is_offline() -> bool:
            (channel,) = chat.gateway.channel_manager.list()
            return "cannot be reached" in str(channel.get("error"))

        await until(is_offline)  # the channel connects again, and its platform tells it the message again
        receiving.cancel()
        ((level, text),) = await asyncio.to_thread(examine, url, settings)
        assert level == "broken" and "cannot be reached" in text
        answer = await chat.fetch(kept.id)
        assert answer.status_code == 503 and "cannot be reached" in answer.json()["detail"]
    finally:
        swift.start()
    assert (await chat.fetch(kept.id)).content == LARGE
    again = await chat.chat.attach("b.bin", b"content")
    await chat.tell(message("m2", "y", group=True, address="b", files=(again,)))
    assert (await chat.fetch(again.id)).content == b"content"


async def test_files_in_the_database_are_moved_into_the_bucket(
    tmp_path: Path, url: DatabaseUrl, settings: FileSettings, db_server: PostgresServer, database: str
) -> None:
    async with BucketChat(tmp_path / "first", url, FileSettings()) as chat:
        kept = await chat.chat.attach("a", LARGE)
        await chat.tell(message("m1", "x", group=True, files=(kept,)))
    async with BucketChat(tmp_path / "second", url, settings) as chat:
        assert (await chat.fetch(kept.id)).content == LARGE, "also while it is being moved"

        async def moved() -> bool:
            return count(db_server, database, "blob_piece") == 1

        await until(moved)
        assert (await chat.fetch(kept.id)).content == LARGE
        assert chat.on_disk() == []
    async with BucketChat(tmp_path / "third", url, FileSettings()) as chat:
        assert (await chat.fetch(kept.id)).status_code == 404
        with pytest.raises(StoreFailed, match=r"let \[files\] url name it"):
            chat.gateway.file_store.content.open(kept.id)
        assert [level for level, _ in examine(url, FileSettings())] == ["broken"]
        await chat.gateway.delete(KEY)
        await asyncio.sleep(0)
    assert count(db_server, database, "blob") == 1, "who does not know the bucket forgets no object"


def examine(url: DatabaseUrl, settings: FileSettings) -> list[tuple[str, str]]:
    """The level and text of each finding of `semel doctor` about the bucket."""
    with open_readonly(url) as store:
        return [(finding.level, finding.text) for finding in examine_object_storage(store, settings)]


# ---------------------------------------------------------------- in and out


def test_what_comes_out_is_what_went_in_whatever_the_environment_says(
    store: LedgerStore, settings: FileSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION", "BUCKET"):
        monkeypatch.setenv(f"AWS_{name}", "of-somebody-else")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    files = make_files(store, settings, tmp_path / "blobs")
    for content in (LARGE[:size] for size in (0, 1, OBJECT_BYTES, OBJECT_BYTES + 1)):
        files.store_bytes(content, "a", "text/plain")
        assert read(files, blob_id(content)) == content
        with files.lend(blob_id(content)) as path:
            assert path.read_bytes() == content
    assert list(files.folder.iterdir()) == []


def test_damaged_and_missing_content_is_not_given_out_and_doctor_names_it(
    store: LedgerStore, url: DatabaseUrl, settings: FileSettings, swift: Swift, bucket: str, tmp_path: Path
) -> None:
    files = make_files(store, settings, tmp_path)
    for content in (LARGE, b"small"):
        files.store_bytes(content, "a", "text/plain")
        need(store, content)
    assert [level for level, _ in examine(url, settings)] == ["ok"]
    damaged = next(name for name in swift.names(bucket) if name.endswith("/2"))
    swift.put(bucket, damaged, b"x")
    swift.remove(bucket, next(name for name in swift.names(bucket) if blob_id(b"small") in name))
    with pytest.raises(StoreFailed, match="damaged"):
        files.open(blob_id(LARGE))
    with pytest.raises(StoreFailed, match="is not in s3://"):
        files.open(blob_id(b"small"))
    assert list(tmp_path.iterdir()) == []
    swift.put(bucket, f"{PREFIX}/{'c' * 64}-1/0", b"x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semel.faces.health.object_storage.MIN_AGE", timedelta(minutes=-1))
        texts = dict(examine(url, settings))
    assert f"not whole: 1, such as {blob_id(b'small')}" in texts["broken"]
    assert f"belong to no file of this ledger: 1 (1 B), such as {'c' * 64}-1/0" in texts["warning"]


def test_a_file_that_is_forgotten_while_it_comes_is_refused_and_leaves_nothing(
    store: LedgerStore, settings: FileSettings, swift: Swift, bucket: str, tmp_path: Path
) -> None:
    """As by another gateway, which takes this one for dead: its sweep is over when the last object comes."""
    files, put = make_files(store, settings, tmp_path), Bucket.put
    with pytest.MonkeyPatch.context() as patch:

        def put_late(self: Bucket, name: str, content: bytes) -> None:
            if name.endswith("/2"):
                store.write_sync(channel_batch.release_files, [blob_id(LARGE)])
                files.remove_objects([blob_id(LARGE)])
                store.write_sync(erase.forget_files, [blob_id(LARGE)])
                assert swift.names(bucket) == []
            put(self, name, content)

        patch.setattr(Bucket, "put", put_late)
        with pytest.raises(StoreFailed, match="send it again"):
            files.store_bytes(LARGE, "a", "text/plain")
    assert swift.names(bucket) == []
    files.store_bytes(LARGE, "a", "text/plain")
    assert read(files, blob_id(LARGE)) == LARGE


def test_what_is_stored_again_while_it_is_removed_is_kept(
    store: LedgerStore, settings: FileSettings, swift: Swift, bucket: str, tmp_path: Path
) -> None:
    files, remove, id = make_files(store, settings, tmp_path), Bucket.remove, blob_id(LARGE)
    files.store_bytes(LARGE, "a", "text/plain")
    store.write_sync(channel_batch.release_files, [id])
    with pytest.MonkeyPatch.context() as patch:

        def remove_late(self: Bucket, names: list[str]) -> None:
            patch.undo()
            files.store_bytes(LARGE, "a", "text/plain")
            remove(self, names)

        patch.setattr(Bucket, "remove", remove_late)
        files.remove_objects([id])
    store.write_sync(erase.forget_files, [id])
    assert read(files, id) == LARGE
    assert len(swift.names(bucket)) == 3
    store.write_sync(channel_batch.release_files, [id])
    store.write_sync(erase.forget_files, [id])
    assert store.read_sync(erase.list_unheld_files) == [id], "a file with an object is not forgotten"
    files.remove_objects([id])
    store.write_sync(erase.forget_files, [id])
    assert (store.read_sync(erase.list_unheld_files), swift.names(bucket)) == ([], [])


STORE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from semel.gateway.bucket import Bucket
from semel.gateway.object_files import ObjectFiles
from semel.gateway.settings import FileSettings
from semel.ledger import file_objects
from semel.ledger.engines import open_ledger
from semel.ledger.storage.location import DatabaseUrl

url, folder, settings, moment, content = sys.argv[1:]
put = Bucket.put

def die(*args):
    if moment == "first object":
        put(*args)
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "first object":
    Bucket.put = die
else:
    file_objects.record_stored = die
with open_ledger(DatabaseUrl(url)) as store:
    files = ObjectFiles(Path(folder), store, Bucket(FileSettings.model_validate_json(settings, by_name=True)))
    files.store_bytes(Path(content).read_bytes(), "a", "text/plain")
"""


@pytest.mark.parametrize(("moment", "objects"), [("first object", 1), ("last object", 3)])
async def test_a_kill_between_object_and_message_leaves_nothing(
    tmp_path: Path, url: DatabaseUrl, settings: FileSettings, swift: Swift, bucket: str, db_server: PostgresServer,
    database: str, moment: str, objects: int,
) -> None:  # fmt: skip
    (tmp_path / "content").write_bytes(LARGE)
    args = (url.uri, str(tmp_path / "first"), settings.model_dump_json(), moment, str(tmp_path / "content"))
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", STORE_AND_DIE, *args], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(swift.names(bucket)) == objects
    await until_left(db_server, database)
    async with BucketChat(tmp_path / "second", url, settings):

        async def gone() -> bool:
            return swift.names(bucket) == []

        await until(gone)


def test_a_copied_ledger_has_the_content_of_objects(
    store: LedgerStore, url: DatabaseUrl, settings: FileSettings, tmp_path: Path
) -> None:
    files = make_files(store, settings, tmp_path / "blobs")
    files.store_bytes(LARGE, "a", "text/plain")
    need(store, LARGE)
    store.close()
    target = tmp_path / "copy/ledger.db"
    with pytest.raises(CopyFailed, match=r"1 files? .*let \[files\] url"):
        copy_ledger(url, target, (tmp_path, tmp_path / "copy"), clock=now_ms)
    done = copy_ledger(url, target, (tmp_path, tmp_path / "copy"), clock=now_ms, read_object=make_reader(settings))
    assert (done.files.copied, done.files.missing) == (1, ())
    assert (tmp_path / "copy/blobs" / blob_id(LARGE)).read_bytes() == LARGE


# ---------------------------------------------------------------- the program


@pytest.fixture
def bucket_cli(tmp_path: Path, url: DatabaseUrl, settings: FileSettings) -> Iterator[Cli]:
    text = f"""{SCRIPTED}[ledger]
url = "{url.uri}"
[files]
url = "{settings.url}"
endpoint = "{settings.endpoint}"
access_key = "file:access"
secret_key = "file:secret"
"""
    (tmp_path / "semel.toml").write_text(text)
    (tmp_path / "access").write_text(ACCESS_KEY)
    (tmp_path / "secret").write_text(SECRET_KEY)
    cli = Cli(tmp_path, tmp_path / "data")
    yield cli
    cli.leave()


def test_people_see_where_files_are(bucket_cli: Cli, settings: FileSettings) -> None:
    bucket_cli.up()
    bucket_cli("say", "main", "hello", "--wait")
    assert f"files     in {settings.url}" in bucket_cli("status").stdout
    (ok,) = [one for one in bucket_cli.json("doctor")["findings"] if "object" in one["text"] or "s3:" in one["text"]]
    assert ok["level"] == "ok" and ok["text"].startswith(f"files of messages are in {settings.url}")
    seen = bucket_cli.json("config", "check")
    assert SECRET_KEY not in str(seen)


def test_mistakes_in_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "semel.toml").write_text(
        f'{SCRIPTED}[files]\nurl = "s3://bucket"\nendpoint = "s3.example.org"\naccess_key = "file:missing"\n'
    )
    said = Cli(tmp_path, tmp_path / "data")("config", "check", rc=2).stderr
    assert "is not like" in said and "there is no such file" in said
    assert "only the files of a ledger in PostgreSQL can be in object storage" in said
