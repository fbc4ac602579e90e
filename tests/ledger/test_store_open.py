"""At the door: what is made, what is refused, and that a refusal changes nothing and says what to do."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from semel.faces.cli.printing import name_command
from semel.law.identity import digest_fields
from semel.ledger.inbound.hear import Addressee, Event, hear
from semel.ledger.sqlite import connect
from semel.ledger.sqlite.errors import wal_unsupported_error
from semel.ledger.sqlite.migrate import APPLICATION_ID
from semel.ledger.sqlite.open_ledger import file_system_type, refuse_network_file_system, refuse_old_sqlite
from semel.ledger.sqlite.store import Store
from semel.ledger.storage import errors
from semel.ledger.storage.errors import (
    LedgerBusy,
    LedgerError,
    LedgerInUse,
    LedgerMissing,
    LedgerNewer,
    LedgerOlder,
    LedgerPlace,
    LedgerReadOnly,
    NotALedger,
    OldSqlite,
)
from semel.ledger.storage.migrations import Migration, list_migrations
from semel.ledger.storage.rows import EntryRow, LedgerRow
from semel.ledger.storage.sql import Tx

HOLD = """
import sys
from semel.ledger.sqlite.store import Store
store = Store.open(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def note(tx: Tx, source: str) -> int:
    return tx.count_changed("cursor_set", source=source, value="x", at=tx.now)


def noted(tx: Tx, source: str) -> bool:
    return tx.value(str, "cursor_get", source=source) is not None


def pragma(path: Path, name: str) -> object:
    db = apsw.Connection(str(path))
    try:
        return db.execute(f"PRAGMA {name}").get
    finally:
        db.close()


# ---------------------------------------------------------------- what is made


def test_a_new_ledger_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "semel" / "ledger.db"
    with Store.open(path) as store:
        store.write_sync(note, "a")
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in [path.parent, *path.parent.iterdir()]}
    assert modes == {
        "semel": "0o700",
        "ledger.db": "0o600",
        "ledger.db-wal": "0o600",
        "ledger.db-shm": "0o600",
        "ledger.db.lock": "0o600",
    }


def test_a_ledger_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Store.open(path) as store:
        first = store.read_sync(lambda tx: tx.one(LedgerRow, "ledger_get"))
    with Store.open(path) as store:
        assert store.read_sync(lambda tx: tx.one(LedgerRow, "ledger_get")) == first
    assert first is not None and len(first.name) == 16
    assert pragma(path, "application_id") == APPLICATION_ID == int.from_bytes(b"SEML", "big")
    assert pragma(path, "page_size") == 4096
    assert pragma(path, "journal_mode") == "wal"


def test_every_connection_is_durable_and_checks_references(tmp_path: Path) -> None:
    with Store.open_sync(tmp_path / "ledger.db") as store:
        db = store._require_committer()._db
        wanted = {
            "synchronous": 2,  # FULL
            "journal_mode": "wal",
            "foreign_keys": 1,
            "cache_size": -4096,
            "temp_store": 2,  # MEMORY
            "trusted_schema": 0,
        }
        assert {name: db.execute(f"PRAGMA {name}").get for name in wanted} == wanted
        assert db.execute("SELECT count(*) FROM pragma_table_list WHERE type = 'table' AND strict = 0 "
                          "AND name NOT LIKE 'sqlite%'").get == 0  # fmt: skip
        with pytest.raises(apsw.ConstraintError, match="FOREIGN KEY"):
            store.write_sync(
                lambda tx: tx.run("hearing_add", event=99, session=99, seq=1, wakes=1, busy=None, turn=None)
            )


def test_what_the_ledger_keeps_in_memory_does_not_grow_with_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Store.open(path) as store:
        for n in range(300):
            text = "x" * 50_000
            store.write_sync(
                hear, Event("api", str(n), "message", text, digest_fields({"n": n})), [Addressee("s", "main", "web:s")]
            )
            if n % 100 == 99:
                assert (
                    len(store.read_sync(lambda tx: tx.all(EntryRow, "entries_after", session=1, after=0, limit=1000)))
                    > n
                )
                assert max(cached(path)) < 5_000_000, "a cache has 4 MiB, and what SQLite needs for each page"
    assert path.stat().st_size > 15_000_000


def cached(path: Path, patience: float = 60.0) -> list[int]:
    """Bytes of the pages that each connection to a file holds. A connection cannot be asked while a thread uses it."""
    end = time.monotonic() + patience
    while True:
        try:
            mine = [db for db in apsw.connections() if db.filename == os.fspath(path)]
            return [db.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0] for db in mine]
        except apsw.ThreadingViolationError:
            assert time.monotonic() < end, "a connection is used all the time"
            time.sleep(0.01)


# ---------------------------------------------------------------- one gateway


def test_a_second_gateway_is_refused_and_told_who_holds_the_ledger(tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.db", tmp_path / "other name.db"
    other.symlink_to(path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for name in (path, other):
            with pytest.raises(LedgerInUse, match=f"pid {holder.pid}"):
                Store.open(name)
        with Store.open(path, exclusive=False, readonly=True) as beside:
            assert not beside.read_sync(noted, "a")
        holder.send_signal(signal.SIGKILL)
        holder.wait(20)
        with Store.open(path) as store:  # at once: the kernel dropped the lock
            store.write_sync(note, "a")


def test_a_ledger_can_be_opened_again_after_it_was_closed(tmp_path: Path) -> None:
    for n in range(3):
        with Store.open(tmp_path / "ledger.db") as store:
            store.write_sync(note, f"s{n}")
            with pytest.raises(LedgerInUse, match=f"pid {os.getpid()}"):
                Store.open(tmp_path / "ledger.db")
    with Store.open(tmp_path / "ledger.db") as store:
        assert all(store.read_sync(noted, f"s{n}") for n in range(3))


def test_a_refused_open_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"not a database, but long enough to look like one" * 40)
    for _ in range(2):
        with pytest.raises(NotALedger):
            Store.open(tmp_path / "ledger.db")
    (tmp_path / "ledger.db").unlink()
    Store.open(tmp_path / "ledger.db").close()


# ---------------------------------------------------------------- foreign, newer, older, missing


@pytest.mark.parametrize(
    "content", [b"hello", b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000], ids=["short", "text", "torn"]
)
def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    with pytest.raises(NotALedger, match="it was left as it is"):
        Store.open(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("statement", ["CREATE TABLE t(x)", "PRAGMA user_version = 3", "PRAGMA application_id = 77"])
def test_another_programs_database_is_left_as_it_is(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "ledger.db"
    db = apsw.Connection(str(path))
    db.execute(statement)
    db.close()
    content = path.read_bytes()
    with pytest.raises(NotALedger, match="another program's"):
        Store.open(path)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    with Store.open(tmp_path / "ledger.db") as store:
        store.write_sync(note, "a")


def stamp(path: Path, version: int) -> None:
    db = apsw.Connection(str(path))
    db.execute(f"PRAGMA user_version = {version}")
    db.close()


def test_a_newer_ledger_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Store.open(path).close()
    stamp(path, 99)
    content = path.read_bytes()
    for readonly in (False, True):
        with pytest.raises(LedgerNewer, match=r"version 99.*Run the newer Semel"):
            Store.open(path, readonly=readonly)
    assert path.read_bytes() == content


def test_doctor_makes_nothing_and_migrates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "none" / "ledger.db"
    with pytest.raises(LedgerMissing, match="no ledger at"):
        Store.open(path, readonly=True)
    assert not path.parent.exists()
    Store.open(path).close()
    monkeypatch.setattr("semel.ledger.sqlite.migrate.read_version", lambda db, path: 0)
    with pytest.raises(LedgerMissing):
        Store.open(path, readonly=True)
    monkeypatch.undo()
    way = (*list_migrations(), Migration(len(list_migrations()) + 1, "next", "SELECT 1"))
    monkeypatch.setattr("semel.ledger.sqlite.store.list_migrations", lambda: way)
    with pytest.raises(LedgerOlder, match=r"Start the gateway once .*, or restart it if it runs") as older:
        Store.open(path, readonly=True)
    advice = "run the command 'backup' of the older Semel"  # not the command of this Semel, whose path is filled in
    monkeypatch.setattr("semel.faces.cli.printing.find_command", lambda: "/new/bin/semel")
    assert advice in name_command(str(older.value)) and "'/new/bin/semel up'" in name_command(str(older.value))


def test_a_ledger_opened_for_reading_refuses_writes(tmp_path: Path) -> None:
    with Store.open(tmp_path / "ledger.db") as store:
        store.write_sync(note, "a")
    with Store.open(tmp_path / "ledger.db", exclusive=False, readonly=True) as store:
        assert store.read_sync(noted, "a")
        with pytest.raises(LedgerReadOnly, match="opened for reading"):
            store.write_sync(note, "b")
        assert store.statistics() == {"path": str(tmp_path / "ledger.db"), "readonly": True}


# ---------------------------------------------------------------- the library and the place


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.44.5", "3.45.0", "3.50.4", "3.50.6", "3.51.0", "3.51.2"])
def test_a_sqlite_that_can_corrupt_the_log_is_refused(version: str) -> None:
    with pytest.raises(OldSqlite, match="pip install"):
        refuse_old_sqlite(version)


@pytest.mark.parametrize("version", ["3.44.6", "3.44.9", "3.50.7", "3.51.3", "3.52.0", "3.54.1", "4.0.0"])
def test_a_repaired_sqlite_is_taken(version: str) -> None:
    refuse_old_sqlite(version)


def test_the_version_is_asked_of_the_library_that_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.50.4")
    for readonly in (False, True):
        with pytest.raises(OldSqlite):
            Store.open(tmp_path / "ledger.db", readonly=readonly)
    assert list(tmp_path.iterdir()) == []


MOUNTS = """\
24 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 24 0:26 / /home rw,nosuid shared:2 - nfs4 server:/home rw,vers=4.2
31 30 254:1 / /home/local rw - xfs /dev/vdb rw
32 24 0:27 / /mnt/with\\040blank rw - fuse.sshfs me@host:/ rw
33 24 0:28 / /over rw - ext4 /dev/vdc rw
34 24 0:29 / /over rw - cifs //nas/share rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/srv/x", "ext4"), ("/home/me", "nfs4"), ("/homes", "ext4"), ("/home/local/x", "xfs"),
     ("/mnt/with blank/x", "fuse.sshfs"), ("/over/x", "cifs")],
)  # fmt: skip
def test_a_network_file_system_is_recognised_and_refused(tmp_path: Path, folder: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system_type(Path(folder), mounts) == kind
    if kind in ("nfs4", "fuse.sshfs", "cifs"):
        with pytest.raises(LedgerPlace, match="Put data_dir on a local disk"):
            refuse_network_file_system(Path(folder), mounts)
    else:
        refuse_network_file_system(Path(folder), mounts)


def test_where_the_system_does_not_tell_the_place_is_taken(tmp_path: Path) -> None:
    refuse_network_file_system(tmp_path, tmp_path / "no such file")
    refuse_network_file_system(tmp_path)


def test_a_disk_without_shared_memory_is_refused(tmp_path: Path) -> None:
    db = apsw.Connection(":memory:")
    with pytest.raises(LedgerPlace, match="only journal mode delete"):
        raise wal_unsupported_error(tmp_path, db.execute("SELECT 'delete'").get)


def test_another_program_that_holds_the_ledger_is_named_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "BUSY_TIMEOUT_S", 0.05)
    with Store.open(tmp_path / "ledger.db") as store:
        other = apsw.Connection(str(tmp_path / "ledger.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match="Close database browsers"):
            store.write_sync(note, "a")
        other.execute("ROLLBACK")
        other.close()
        store.write_sync(note, "a")
        assert store.read_sync(noted, "a")


# ---------------------------------------------------------------- the words


def test_every_error_says_what_to_do() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, LedgerError)]
    named = "version path pid why found known place wanted folder ledger target name broken"
    facts = dict.fromkeys(named.split(), "X")
    for kind in kinds:
        message = str(kind(**facts))
        assert "X" in message and "{" not in message and "\n" not in message and "  " not in message
        if kind is not LedgerError:
            assert message.count(".") + message.count(":") >= 2, f"{kind.__name__} names a fault, but no next step"
