"""`semel ledger copy` between a file and a database: equal row for row, and only one of the two is used."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from cli_house import SCRIPTED, Cli, end, until

from proof.postgres_server import PostgresServer
from semel.ledger import copy_ledger
from semel.ledger.backup import settle_restored
from semel.ledger.engines import open_ledger
from semel.ledger.file_pieces import PIECE_BYTES
from semel.ledger.postgres.errors import DatabaseHasLedger, DatabaseInUse, DatabaseOfAnother
from semel.ledger.postgres.statements import statements
from semel.ledger.postgres.transfer import JSON_COLUMNS, PostgresSource, PostgresTarget
from semel.ledger.sqlite.store import Store, now_ms
from semel.ledger.sqlite.tables import list_tables
from semel.ledger.sqlite.transfer import SqliteSource, SqliteTarget
from semel.ledger.storage import errors
from semel.ledger.storage.location import DatabaseUrl, LedgerLocation

OLD_DATA = Path(__file__).parents[1] / "upgrade" / "data-0.1.0.tar.xz"
ODD_TEXTS = ("", "\\N", "a\tb\nc\\d\r", "'\"", "\u2400", "äöü 🎉 \u2028", "\x01\x7f", "{\\u0000}", "x" * 300_000)
LARGEST = 2**63 - 1
Rows = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of version 0.1.0, with rows of every kind, brought forward; and values that are odd."""
    with tarfile.open(OLD_DATA) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # CPython before 3.11.4 has none
        archive.extractall(tmp_path / "old", **safely)
    data = tmp_path / "old" / "data"
    Store.open(data / "ledger.db", marked=True).close()
    db = apsw.Connection(str(data / "ledger.db"))
    with db:
        for n, text in enumerate((*ODD_TEXTS, "nul \0 in a text")):
            db.execute("INSERT INTO cursor VALUES(?, ?, ?)", (f"odd {n}", text, (LARGEST, -LARGEST - 1)[n % 2]))
        db.execute("UPDATE node SET token = ?", (bytes(range(256)),))
        db.execute("UPDATE job SET seconds = 0.1 + 0.2")
        db.execute("INSERT INTO spent VALUES('2026-11-25', 'person', 'ada', 0, 0, 0, 0)")
        db.execute("INSERT INTO upload SELECT id, name, mime, at FROM blob LIMIT 1")
        db.execute("INSERT INTO part_attempt SELECT id, 1, 5, 6, 'sent', NULL FROM part LIMIT 1")
        db.execute("UPDATE event SET payload = ? WHERE key = 't4'", (r'{"text": "a\u0000b \\u0000"}',))
    db.close()
    return data


def read_file(path: Path) -> Rows:
    db = apsw.Connection(str(path))
    try:
        return {
            table.name: db.execute(f"SELECT {table.column_list} FROM {table.name} ORDER BY {table.key_list}").fetchall()
            for table in list_tables()
        }
    finally:
        db.close()


def read_database(server: PostgresServer, database: str) -> Rows:
    return {
        table.name: server.execute(
            f'SELECT {table.column_list} FROM "{table.name}" ORDER BY {table.key_list}', database
        )
        for table in list_tables()
    }


def read_folder(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def as_stored(rows: Rows) -> Rows:
    """The rows as PostgreSQL stores them: without U+0000."""
    stored = {name: list(found) for name, found in rows.items()}
    stored["cursor"] = [(s, v.replace("\0", "\u2400"), at) for s, v, at in stored["cursor"]]
    stored["event"] = [
        tuple('{"text": "a\u2400b \\\\u0000"}' if v == r'{"text": "a\u0000b \\u0000"}' else v for v in row)
        for row in stored["event"]
    ]
    return stored


def describe_schema(server: PostgresServer, database: str) -> list[Any]:
    return server.execute(
        "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid::regclass::text NOT LIKE 'pg\\_%'"
        " UNION ALL SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace ORDER BY 1",
        database,
    )


def copy(source: LedgerLocation, target: LedgerLocation, *data_dirs: Path) -> copy_ledger.LedgerCopy:
    return copy_ledger.copy_ledger(source, target, (data_dirs[0], data_dirs[-1]), clock=now_ms)


def test_every_row_is_equal_there_and_back(
    data: Path, url: DatabaseUrl, database: str, db_server: PostgresServer, tmp_path: Path
) -> None:
    before = read_file(data / "ledger.db")
    assert [name for name, rows in before.items() if not rows] == ["limited"]
    done = copy(data / "ledger.db", url, data, tmp_path / "files")
    there = read_database(db_server, database)
    assert there == as_stored(before)
    assert {table.table: table.rows for table in done.tables} == {name: len(rows) for name, rows in before.items()}
    assert (done.replaced, done.files.needed, done.files.missing) == (2, 1, ())
    assert not (tmp_path / "files").exists(), "the content of files is in the database"
    back = copy(url, tmp_path / "back" / "ledger.db", tmp_path / "files", tmp_path / "back")
    assert read_file(tmp_path / "back" / "ledger.db") == there
    assert (back.tables, back.replaced, back.files.copied) == (done.tables, 0, 1)
    assert read_folder(tmp_path / "back" / "blobs") == read_folder(data / "blobs")
    with open_ledger(tmp_path / "back" / "ledger.db") as store:
        assert not store.read_sync(settle_restored.is_unsettled_copy), "what waits is sent from the copy"


def test_a_database_that_was_filled_is_made_like_any_other(
    data: Path, url: DatabaseUrl, database: str, db_server: PostgresServer
) -> None:
    copy(data / "ledger.db", url, data)
    fresh = db_server.create_database()
    open_ledger(DatabaseUrl(db_server.url(fresh))).close()
    assert describe_schema(db_server, database) == describe_schema(db_server, fresh)
    heights = {
        table.name: rows[-1][0]
        for table in list_tables()
        if table.columns[0] == "id"
        and table.types[0] == "INTEGER"
        and (rows := read_file(data / "ledger.db")[table.name])
    }
    for name, height in heights.items():
        (next_id,) = db_server.execute(f"SELECT nextval(pg_get_serial_sequence('{name}', 'id'))", database)
        assert next_id == (height + 1,), name
    db_server.drop_database(fresh)


def add_files(data: Path, *contents: bytes) -> list[str]:
    db = apsw.Connection(str(data / "ledger.db"))
    ids = [hashlib.blake2b(content, digest_size=32).hexdigest() for content in contents]
    for id, content in zip(ids, contents, strict=True):
        db.execute("INSERT INTO blob(id, size, name, mime, at) VALUES(?, ?, 'x', 'text/plain', 0)", (id, len(content)))
        (data / "blobs" / id).write_bytes(content)
    db.close()
    return ids


def test_files_go_along_between_folders_and_databases(
    data: Path, url: DatabaseUrl, database: str, db_server: PostgresServer, tmp_path: Path
) -> None:
    *whole, damaged = add_files(data, b"", os.urandom(PIECE_BYTES), os.urandom(5 * PIECE_BYTES + 7), b"damaged later")
    (data / "blobs" / damaged).write_bytes(b"damaged")
    content = {id: text for id, text in read_folder(data / "blobs").items() if id != damaged}
    assert len(content) == 4 and set(whole) < set(content)
    second = db_server.create_database()
    places: list[tuple[LedgerLocation, Path]] = [
        (data / "ledger.db", data), (url, tmp_path / "none"), (DatabaseUrl(db_server.url(second)), tmp_path / "none"),
        (tmp_path / "back" / "ledger.db", tmp_path / "back"),
    ]  # fmt: skip
    for (source, old_data), (target, new_data) in pairwise(places):
        done = copy(source, target, old_data, new_data)
        assert (done.files.needed, done.files.copied, done.files.missing) == (5, 4, (damaged,))
    assert read_folder(tmp_path / "back" / "blobs") == content
    db_server.drop_database(second)


def test_files_that_are_not_in_the_database_yet_go_along(
    data: Path, url: DatabaseUrl, database: str, db_server: PostgresServer, tmp_path: Path
) -> None:
    add_files(data, os.urandom(2 * PIECE_BYTES))
    copy(data / "ledger.db", url, data)
    db_server.execute("DELETE FROM blob_piece WHERE n = 1", database)
    back = copy(url, tmp_path / "back" / "ledger.db", data, tmp_path / "back")
    assert back.files.missing == ()
    assert read_folder(tmp_path / "back" / "blobs") == read_folder(data / "blobs")


def test_a_file_that_became_another_one_fails_the_copy(data: Path, url: DatabaseUrl, database: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        write = PostgresTarget.write_file
        patch.setattr(PostgresTarget, "write_file", lambda self, id, pieces: write(self, id, [*pieces, b"more"]))
        with pytest.raises(errors.CopyFailed, match="became another one"):
            copy(data / "ledger.db", url, data)
    assert (try_start(data / "ledger.db"), try_start(url)) == ("sends", "DatabaseUnfinished")


def test_the_columns_with_json_are_those_that_statements_read_as_json() -> None:
    read = {match for one in statements().values() for match in _find_json(one.sql.decode())}
    assert read and read <= JSON_COLUMNS


def _find_json(sql: str) -> list[str]:
    return re.findall(r"(?:coalesce\()?(?:\w+\.)?(\w+)(?:, '[^']*'\))?::jsonb", sql)


# ---------------------------------------------------------------- kills


def strike(kind: type, name: str, when: str, number: int) -> None:
    """Let this process kill itself before or after a method's nth call, or while it uses the rows it was given."""
    method, left = getattr(kind, name), number

    def call(self: Any, *args: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if left == 0 and when == "amid":
            args = (args[0], _die_after_a_row(args[1]))
        result = method(self, *args)
        if left == 0 and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(kind, name, call)


def _die_after_a_row(rows: Any) -> Iterator[Any]:
    yield next(iter(rows))
    os.kill(os.getpid(), signal.SIGKILL)


def is_killed(strike_at: tuple[str, str, int], ends: tuple[type, type], deed: Callable[[], object]) -> bool:
    name, when, number = strike_at
    child = os.fork()
    if child == 0:
        try:
            strike(next(kind for kind in ends if name in dir(kind)), name, when, number)
            deed()
        finally:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def is_left(server: PostgresServer, database: str) -> bool:
    """Whether nobody is connected to the database: the server has seen that the killed process is gone."""
    return server.execute(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'") == [(0,)]


KILLS = (
    ("begin", "before", 1),
    ("begin", "after", 1),
    ("write_rows", "amid", 2),
    ("complete", "after", 1),
    ("mark_moved", "after", 1),
    ("finish", "after", 1),
)


def try_start(location: LedgerLocation) -> str:
    """What a gateway does there: it sends, begins an empty ledger, or refuses with the error of this name."""
    try:
        with open_ledger(location) as store:
            store.close()
            return "sends"
    except errors.LedgerError as error:
        return type(error).__name__


@pytest.mark.parametrize("is_back", [False, True], ids=["there", "back"])
def test_a_copy_killed_anywhere_begins_anew_and_only_one_of_the_two_is_used(
    data: Path, db_server: PostgresServer, tmp_path: Path, is_back: bool
) -> None:
    sys.stdout.flush()
    content = as_stored(read_file(data / "ledger.db"))
    if is_back:
        full = db_server.create_database()
        copy(data / "ledger.db", DatabaseUrl(db_server.url(full)), data)
    ends = (SqliteTarget, PostgresSource) if is_back else (PostgresTarget, SqliteSource)
    unfinished = "LedgerCopying" if is_back else "DatabaseUnfinished"
    for n, kill in enumerate(KILLS if is_back else (*KILLS, ("write_file", "amid", 1))):
        name = db_server.create_database(full if is_back else None)
        there = DatabaseUrl(db_server.url(name))
        here = tmp_path / f"{n}" / "ledger.db"
        if not is_back:
            shutil.copytree(data, here.parent)
        old, new = (there, here) if is_back else (here, there)
        assert is_killed(kill, ends, lambda: copy(old, new, data)), kill  # noqa: B023
        until(lambda: is_left(db_server, name), "the end of the killed process's connections")  # noqa: B023
        is_moved, is_over = kill[:2] in (("mark_moved", "after"), ("finish", "after")), kill[0] == "finish"
        assert try_start(old) == ("LedgerMoved" if is_moved else "sends"), kill
        if kill[:2] != ("begin", "before"):
            assert try_start(new) == ("sends" if is_over else unfinished), kill
        if not is_over:
            copy(old, new, data)
        found = read_file(here) if is_back else read_database(db_server, name)
        assert found == content, kill
        assert (try_start(old), try_start(new)) == ("LedgerMoved", "sends"), kill
        db_server.drop_database(name)


# ---------------------------------------------------------------- who may use which


def test_what_is_in_use_or_not_empty_is_refused(
    data: Path, url: DatabaseUrl, database: str, db_server: PostgresServer, tmp_path: Path
) -> None:
    ledger = data / "ledger.db"
    with open_ledger(url), pytest.raises(DatabaseInUse, match="belongs to a running gateway"):
        copy(ledger, url, data)
    with pytest.raises(DatabaseHasLedger, match="nothing was changed"):
        copy(ledger, url, data)
    with open_ledger(url), pytest.raises(DatabaseInUse):
        copy(url, tmp_path / "back" / "ledger.db", data)
    other = db_server.create_database()
    db_server.execute("CREATE TABLE theirs(x int)", other)
    with pytest.raises(DatabaseOfAnother, match="theirs"):
        copy(ledger, DatabaseUrl(db_server.url(other)), data)
    assert try_start(ledger) == "sends"


def test_a_gateway_that_starts_meanwhile_is_refused(data: Path, url: DatabaseUrl) -> None:
    with closing(PostgresTarget(url.uri, now_ms)):
        assert try_start(url) == "DatabaseInUse"
    copy(data / "ledger.db", url, data)
    with closing(PostgresSource(url.uri, now_ms)):
        assert try_start(url) == "DatabaseInUse"


def test_a_source_whose_lock_was_lost_is_not_marked_as_moved(
    data: Path, url: DatabaseUrl, db_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy(data / "ledger.db", url, data)
    complete = SqliteTarget.complete

    def lose_lock(self: SqliteTarget) -> None:
        db_server.execute(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            f" WHERE l.locktype = 'advisory' AND d.datname = '{url.database}'"
        )
        complete(self)

    monkeypatch.setattr(SqliteTarget, "complete", lose_lock)
    with pytest.raises(errors.CopyFailed):
        copy(url, tmp_path / "back" / "ledger.db", data)
    assert (try_start(url), try_start(tmp_path / "back" / "ledger.db")) == ("sends", "LedgerCopying")


def test_a_row_that_the_server_refuses_ends_the_copy_in_words(
    data: Path, url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = PostgresTarget.write_rows
    with monkeypatch.context() as patch:
        patch.setattr(
            PostgresTarget, "write_rows", lambda self, table, rows: table.name == "claim" or write(self, table, rows)
        )
        with pytest.raises(errors.CopyFailed, match="foreign key"):
            copy(data / "ledger.db", url, data)
    assert (try_start(data / "ledger.db"), try_start(url)) == ("sends", "DatabaseUnfinished")
    copy(data / "ledger.db", url, data)


def test_a_conversation_moves_to_the_database_and_back(cli: Cli, server: PostgresServer, tmp_path: Path) -> None:
    url = server.url(server.create_database())
    config = cli.home / "semel.toml"
    config.write_text(SCRIPTED)
    process = cli.up()
    cli("say", "main", "in the file", "--wait")
    assert "belongs to a running gateway" in cli("ledger", "copy", str(cli.data), url, rc=1).stderr
    end(process)
    told = cli.json("ledger", "copy", str(cli.data), url)
    assert told["books"] > 30 and {"table", "rows", "digest"} == set(told["tables"][0])
    assert "was copied to postgresql://" in cli("up", "--listen", "127.0.0.1:0", rc=1).stderr
    config.write_text(f'{SCRIPTED}[ledger]\nurl = "{url}"\n')
    process = cli.up()
    cli("say", "main", "in the database", "--wait")
    assert [e["text"] for e in cli.json("show", "main") if e["role"] == "user"] == ["in the file", "in the database"]
    assert [e for e in cli.json("show", "main") if e["role"] == "notice"] == [], "nothing is in doubt"
    end(process)
    assert "ledger.db is there" in cli("ledger", "copy", url, str(cli.data), rc=1).stderr
    done = cli("ledger", "copy", url, str(cli.home / "again"))
    assert "is marked as moved" in done.stderr
    assert "was copied to" in cli("up", "--listen", "127.0.0.1:0", rc=1).stderr
    assert "was copied to" in cli.json("status")["problem"]
    cli("restore", "--here")
    end(cli.up())
    assert "the ledger was restored from a copy" in cli("logs").stdout
    config.write_text(SCRIPTED)
    moved = Cli(cli.home, cli.home / "again")
    assert len(moved.json("show", "main")) == 4 and moved.json("doctor", "--laws")["ok"]
