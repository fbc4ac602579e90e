"""Power can fail at any moment: what was acknowledged is there, and the file is whole."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from proof.power.disk import Op, PowerDisk
from proof.power.images import MODES, Medium, image, lay_out
from proof.power.judge import BEHIND, FALSE_ALARM, Judge
from proof.power.main import NOW, PHYSICAL, Plan, Told, control, images, record, stretch
from proof.power.recorder import MARK, NAME, Recording
from semel.ledger.sqlite import mark_file
from semel.ledger.sqlite.group_commit import WorkItem
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.errors import LedgerFailed, LedgerFull
from semel.ledger.storage.sql import Tx


def note(tx: Tx, source: str, size: int = 10) -> None:
    tx.run("cursor_set", source=source, value="x" * size, at=tx.now)


def noted(tx: Tx, source: str) -> bool:
    return tx.value(str, "cursor_get", source=source) is not None


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> PowerDisk:
    return PowerDisk(f"power-{request.node.name}")


@pytest.fixture
def cut() -> Iterator[Path]:
    """Where images are laid out: in memory if possible, since it is the recorded disk that is judged."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(SHORT, tmp_path_factory.mktemp("recorded"))


SHORT = Plan("full", seed=3, draws=1, share=0.04, short=True)


@pytest.mark.long
def test_power_loss_behind_any_operation_loses_nothing_acknowledged(recorded: Recording, cut: Path) -> None:
    """A sample of `python -m proof power`: behind each answer to a caller, and a few others."""
    points = [k for k, op in enumerate(recorded.ops) if op.kind in PHYSICAL]
    found = stretch(recorded, SHORT, points, cut)
    assert not found.faults, [SHORT.replay(k, mode) for k, mode, _ in found.faults]
    assert set(found.images) == set(MODES) and found.opened > 50


def test_a_mark_that_is_ahead_of_its_ledger_or_behind_what_was_acknowledged_is_found(
    recorded: Recording, cut: Path
) -> None:
    told = Told(recorded)
    judge = Judge(cut, NOW, recorded.states, told.older)
    files = image(recorded.ops, "killed", random.Random(1))
    allowed, marked = told.allowed(len(recorded.ops)), told.marked(len(recorded.ops))
    assert judge.fault(files, allowed, marked) == ""
    assert BEHIND in judge.fault({**files, MARK: told.older[MARK]}, allowed, marked)
    newest = mark_file.read_mark(cut / NAME)
    assert newest is not None
    mark_file.MarkFile(cut / NAME, replace(newest, commits=marked + 1_000_000)).close()
    assert FALSE_ALARM in judge.fault({**files, MARK: mark_file.mark_path(cut / NAME).read_bytes()}, allowed, marked)


@pytest.mark.parametrize("sync", ["off", "normal", "lying"])
def test_a_store_that_does_not_wait_for_the_disk_is_found_to_lose(sync: str, cut: Path) -> None:
    assert control(3, cut, sync, many=60) > 5


def test_one_workload_gives_the_same_operations_each_time(recorded: Recording, cut: Path) -> None:
    again = record(SHORT, cut)
    assert [op[:3] for op in again.ops] == [op[:3] for op in recorded.ops]
    assert again.states == recorded.states


def test_a_group_is_one_commit_and_its_callers_are_answered_after_its_sync(recorded: Recording) -> None:
    [group] = [name for name in recorded.names if name.count("hear") > 1]
    acks = [k for k, op in enumerate(recorded.ops) if op.kind == "ack" and op.file in group.split(" + ")]
    assert len(acks) == group.count(" + ") + 1 == acks[-1] - acks[0] + 1
    before = [op[:2] for op in recorded.ops[acks[0] - 2 : acks[0]]]
    assert before == [("sync", f"{NAME}-wal"), ("write", MARK)], "durable, then marked, then told"


def test_some_writes_of_each_slot_of_the_mark_are_torn_whatever_the_dice_say(recorded: Recording) -> None:
    told, plan, medium = Told(recorded), replace(SHORT, share=0.0), Medium()
    torn = set()
    for k, op in enumerate(recorded.ops):
        before = medium.image("killed", random.Random(0)).get(MARK)
        medium.take(op)
        for mode, files in images(plan, medium, k, told.always(k)):
            if mode == "torn" and before:
                whole = medium.image("killed", random.Random(0))[MARK]
                assert op.file == MARK and files[MARK] not in (before, whole), "some is there, and some is not"
                torn.add(op.at)
    assert torn == {0, mark_file.SLOT_BYTES}


def test_what_no_sync_covers_may_survive_by_sectors_and_what_one_covers_does() -> None:
    ops = [
        Op("write", "a", 0, b"1" * 2048),
        Op("sync", "a"),
        Op("write", "a", 500, b"2" * 1000),
        Op("write", "b", 0, b"3"),
    ]
    found = {bytes(image(ops, "sectors", random.Random(n)).get("a", b"")) for n in range(200)}
    assert len(found) == 8, "the second write touches three sectors"
    assert all(len(one) == 2048 and one[:500] == b"1" * 500 and one[1500:] == b"1" * 548 for one in found)
    assert image(ops, "lost", random.Random(0)) == {"a": b"1" * 2048}
    assert image(ops, "killed", random.Random(0))["b"] == b"3"


def test_a_file_that_was_deleted_without_waiting_may_be_back_until_a_new_log_is_synced() -> None:
    ops = [Op("write", "x-wal", 0, b"old"), Op("sync", "x-wal"), Op("delete", "x-wal"), Op("write", "x-wal", 0, b"new")]
    assert image(ops, "lost", random.Random(0)) == {"x-wal": b"old"}
    assert image([*ops, Op("sync", "x-wal")], "lost", random.Random(0)) == {"x-wal": b"new"}


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


@pytest.mark.long
def test_a_crash_while_the_schema_is_made_leaves_a_file_that_opens_as_new(
    tmp_path: Path, disk: PowerDisk, cut: Path
) -> None:
    Store.open_sync(tmp_path / "ledger.db", vfs=disk.name).close()
    sizes = set()
    for k in range(len(disk.ops) + 1):
        lay_out(image(disk.ops[:k], "killed", random.Random(k)), cut)
        sizes.add(found(cut / "ledger.db") if (cut / "ledger.db").exists() else "no file")
        with Store.open_sync(cut / "ledger.db") as store:
            store.write_sync(note, "first")
    assert sizes == {"no file", "whole"}


def test_what_was_refused_by_a_failing_sync_does_not_come_back_after_a_crash(
    tmp_path: Path, disk: PowerDisk, cut: Path
) -> None:
    store = Store.open_sync(tmp_path / "ledger.db", vfs=disk.name)
    store.write_sync(note, "kept")
    disk.fail("sync", 1, apsw.IOError("the disk did not answer"))
    with pytest.raises(LedgerFailed, match="was not accepted"):
        store.write_sync(note, "refused")
    lay_out(image(disk.ops, "killed", random.Random(1)), cut)
    with Store.open_sync(cut / "ledger.db") as again:
        assert again.read_sync(noted, "kept")
        assert not again.read_sync(noted, "refused")
    store.close()


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_failing_disk_refuses_whole_batches_and_works_again_when_it_does(
    tmp_path: Path, disk: PowerDisk, kind: str, times: int
) -> None:
    store = Store.open_sync(tmp_path / "ledger.db", vfs=disk.name)
    disk.fail(kind, times, apsw.IOError("the disk did not answer"))
    jobs = [WorkItem(note, (source, 5000), {}, None) for source in ("a", "b")]
    store._require_committer().commit(jobs)
    assert [type(job.error) for job in jobs] == [LedgerFailed, LedgerFailed]
    assert not store.read_sync(noted, "a")
    disk.failing.clear()
    store.write_sync(note, "c")
    assert store.read_sync(noted, "c")
    assert not store.read_sync(noted, "b")
    assert store.statistics()["failures"] == 1
    store.close()


def test_a_full_disk_is_told_apart_from_a_broken_one(tmp_path: Path, disk: PowerDisk) -> None:
    store = Store.open_sync(tmp_path / "ledger.db", vfs=disk.name)
    disk.fail("write", 1, apsw.FullError("no room"))
    with pytest.raises(LedgerFull, match="Free some space"):
        store.write_sync(note, "refused")
    store.write_sync(note, "kept")
    assert store.read_sync(noted, "kept")
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
        store.write_sync(stubborn)
    assert not any(store.read_sync(noted, source) for source in ("first", *(f"later {n}" for n in range(50))))
    store.close()
