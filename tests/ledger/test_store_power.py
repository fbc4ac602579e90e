"""Power can fail at any moment: what was acknowledged is there, and the file is whole."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from power_disk import MODES, Op, PowerDisk, image, lay_out

from semel.ledger.errors import LedgerFailed, LedgerFull
from semel.ledger.sql import Tx
from semel.ledger.store import Store


def note(tx: Tx, source: str, size: int = 10) -> None:
    tx.run("cursor_set", source=source, value="x" * size, at=tx.now)


def noted(tx: Tx, source: str) -> bool:
    return tx.value("cursor_get", source=source) is not None


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> PowerDisk:
    return PowerDisk(f"power-{request.node.name}")


@pytest.fixture
def cut() -> Iterator[Path]:
    """Where images are laid out: in memory if possible, since it is the recorded disk that is judged."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def work(path: Path, disk: PowerDisk) -> None:
    """Single commits, groups and a checkpoint, with rows from one to many pages."""
    store = Store.open_sync(path, vfs=disk.name)
    disk.ack("the schema")
    for round in range(3):
        store.apply(note, f"alone {round}", size=10 + 3000 * (round % 2))
        disk.ack(f"alone {round}")
        names = [f"group {round}.{n}" for n in range(5)]
        store.apply_all([(note, (name, 700)) for name in names])
        for name in names:
            disk.ack(name)
        if round == 1:
            store._committer_or_refuse().checkpoint()
    store.close()


def test_power_loss_after_any_operation_loses_nothing_acknowledged(tmp_path: Path, disk: PowerDisk, cut: Path) -> None:
    work(tmp_path / "ledger.db", disk)
    luck = random.Random(7)
    for mode in MODES:
        for k in range(1, len(disk.ops) + 1):
            if disk.ops[k - 1].kind == "ack" or (mode in ("torn", "sectors") and luck.random() < 0.75):
                continue
            before = disk.ops[:k]
            lay_out(image([op for op in before if op.kind != "ack"], mode, luck), cut)
            assert found(cut / "ledger.db") == "whole", (mode, k)
            check(cut / "ledger.db", before, (mode, k))


def found(path: Path) -> str:
    """What plain SQLite finds in the file, before Semel touches it: whole, or the damage."""
    db = apsw.Connection(str(path))
    problems = db.execute("PRAGMA integrity_check").fetchall()
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    version = db.execute("PRAGMA user_version").get
    db.close()
    if problems != [("ok",)]:
        return repr(problems)
    return "whole" if bool(tables) == bool(version) else f"{tables} tables, version {version}"


def check(path: Path, before: list[Op], where: tuple[str, int]) -> None:
    with Store.open_sync(path) as store:
        for op in before:
            if op.kind == "ack" and op.file != "the schema":
                assert store.look(noted, op.file), (where, op.file)
        store.apply(note, "after the crash")


def test_a_crash_while_the_schema_is_made_leaves_a_file_that_opens_as_new(
    tmp_path: Path, disk: PowerDisk, cut: Path
) -> None:
    Store.open_sync(tmp_path / "ledger.db", vfs=disk.name).close()
    sizes = set()
    for k in range(len(disk.ops) + 1):
        lay_out(image(disk.ops[:k], "killed", random.Random(k)), cut)
        sizes.add(found(cut / "ledger.db") if (cut / "ledger.db").exists() else "no file")
        with Store.open_sync(cut / "ledger.db") as store:
            store.apply(note, "first")
    assert sizes == {"no file", "whole"}


def test_what_was_refused_by_a_failing_sync_does_not_come_back_after_a_crash(
    tmp_path: Path, disk: PowerDisk, cut: Path
) -> None:
    store = Store.open_sync(tmp_path / "ledger.db", vfs=disk.name)
    store.apply(note, "kept")
    disk.fail("sync", 1, apsw.IOError("the disk did not answer"))
    with pytest.raises(LedgerFailed, match="was not accepted"):
        store.apply(note, "refused")
    lay_out(image(disk.ops, "killed", random.Random(1)), cut)
    with Store.open_sync(cut / "ledger.db") as again:
        assert again.look(noted, "kept")
        assert not again.look(noted, "refused")
    store.close()


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_failing_disk_refuses_whole_batches_and_works_again_when_it_does(
    tmp_path: Path, disk: PowerDisk, kind: str, times: int
) -> None:
    store = Store.open_sync(tmp_path / "ledger.db", vfs=disk.name)
    disk.fail(kind, times, apsw.IOError("the disk did not answer"))
    outcomes = store.apply_all([(note, ("a", 5000)), (note, ("b", 5000))])
    assert [type(outcome) for outcome in outcomes] == [LedgerFailed, LedgerFailed]
    assert not store.look(noted, "a")
    disk.failing.clear()
    store.apply(note, "c")
    assert store.look(noted, "c")
    assert not store.look(noted, "b")
    assert store.state()["failures"] == 1
    store.close()


def test_a_full_disk_is_told_apart_from_a_broken_one(tmp_path: Path, disk: PowerDisk) -> None:
    store = Store.open_sync(tmp_path / "ledger.db", vfs=disk.name)
    disk.fail("write", 1, apsw.FullError("no room"))
    with pytest.raises(LedgerFull, match="Free some space"):
        store.apply(note, "refused")
    store.apply(note, "kept")
    assert store.look(noted, "kept")
    store.close()


def test_a_body_that_swallows_a_storage_fault_cannot_write_on_alone(tmp_path: Path, disk: PowerDisk) -> None:
    store = Store.open_sync(tmp_path / "ledger.db", vfs=disk.name)

    def stubborn(tx: Tx) -> str:
        tx.run("cursor_set", source="first", value="1", at=1)
        tx._cursor.execute("PRAGMA cache_size = 1", {})  # so that the next write must reach the disk
        disk.fail("write", 1, apsw.FullError("no room"))
        for n in range(50):
            try:
                tx.run("cursor_set", source=f"later {n}", value="2" * 3000, at=1)
            except Exception:
                continue
        return "done"

    with pytest.raises(LedgerFull):
        store.apply(stubborn)
    assert not any(store.look(noted, source) for source in ("first", *(f"later {n}" for n in range(50))))
    store.close()
