"""A backup is whole, checked and made while the gateway goes on, or there is none."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from backup_desk import Place, add_file, make_place
from outbox_desk import say
from step_killer import dies_at

from semel.ledger.admin import books
from semel.ledger.admin.books import PartCover
from semel.ledger.backup.backups import check_backup, drop_old_backups, find_backup, list_backups
from semel.ledger.delivery import parts
from semel.ledger.sqlite.group_commit import WorkItem
from semel.ledger.sqlite.store import Store
from semel.ledger.storage import errors
from semel.ledger.storage.migrations import list_migrations
from semel.ledger.storage.rows import LedgerRow


def test_a_backup_holds_the_ledger_and_its_files_and_says_what_it_is(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    made = place.back_up()
    with Store.open_sync(place.ledger) as store:
        name = store.read_sync(lambda tx: tx.get(LedgerRow, "ledger_get")).name
    manifest = made.manifest
    assert (manifest.ledger, manifest.schema, manifest.blobs, manifest.missing) == (
        name,
        list_migrations()[-1].version,
        2,
        [],
    )
    assert manifest.broken == []
    assert manifest.books == len(books.LAWS)
    assert manifest.heights["part"] == 3
    assert len(check_backup(find_backup(place.folder))) == 2
    with Store.open_sync(made.folder / "ledger.db") as copy:
        assert [p["text"] for p in copy.read_sync(parts.list_newest)] == ["message 2", "message 1", "message 0"]
        assert copy.read_sync(lambda tx: tx.one(LedgerRow, "ledger_get")).copied == manifest.at


def test_only_its_owner_can_read_a_backup(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    (place.data / "owner.token").write_text("secret-secret-secret\n")
    before = os.umask(0)
    try:
        place.back_up(tokens=True)
    finally:
        os.umask(before)
    everything = [place.folder, *place.folder.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in everything if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in everything if path.is_file()} == {0o600}


def test_backups_in_one_folder_keep_each_file_once(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    first = place.back_up()
    with Store.open_sync(place.ledger) as store:
        add_file(place, store, b"one more")
    second = place.back_up()
    assert (first.copied, second.copied, second.manifest.blobs) == (2, 1, 3)
    assert len(list((place.folder / "blobs").iterdir())) == 3
    for path in list_backups(place.folder):
        check_backup(find_backup(path))


def test_token_files_are_in_it_only_where_they_are_asked_for(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    (place.data / "owner.token").write_text("secret-secret-secret\n")
    assert place.back_up().manifest.tokens == []
    made = place.back_up(tokens=True)
    assert made.manifest.tokens == ["owner.token"]
    assert (made.folder / "tokens/owner.token").read_text() == "secret-secret-secret\n"


def test_a_file_that_was_deleted_meanwhile_is_named_as_missing(tmp_path: Path) -> None:
    place = make_place(tmp_path, files=2)
    gone = sorted((place.data / "blobs").iterdir())[0]
    gone.unlink()
    made = place.back_up()
    assert made.manifest.missing == [gone.name]
    assert len(check_backup(made)) == 1


def test_a_law_that_is_broken_in_the_ledger_is_told_and_the_backup_is_kept(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    with Store.open_sync(place.ledger) as store:
        store.write_sync(lambda tx: tx._cursor.execute("UPDATE claim SET seq = NULL WHERE id = 1", {}))
        store.write_sync(lambda tx: tx.run("session_next_entry", id=1))  # a gap
    assert place.back_up().manifest.broken == ["seq"]


# ---------------------------------------------------------------- beside a gateway


def test_a_backup_in_a_storm_of_messages_is_one_moment_and_stalls_nobody(tmp_path: Path) -> None:
    place = make_place(tmp_path, files=0)
    store, over = Store.open(place.ledger), threading.Event()
    waits: list[float] = []

    def chatter(n: int) -> None:
        while not over.is_set():
            began = time.monotonic()
            store.write_sync(say, f"hook:room{n}", ["first half, ", "x" * 4000], f"main:{n}")
            waits.append(time.monotonic() - began)

    speakers = [threading.Thread(target=chatter, args=(n,)) for n in range(4)]
    for one in speakers:
        one.start()
    try:
        for _ in range(3):
            before = len(waits)
            while len(waits) < before + 50:
                time.sleep(0.001)
            before = len(waits)
            made = place.back_up()
            assert len(waits) > before, "nobody could write while it was made"
            assert made.manifest.broken == []
            with Store.open_sync(made.folder / "ledger.db") as copy:
                tails = copy.read_sync(lambda tx: [r for r in tx.all(PartCover, "book_parts") if r.n == 1])
                assert len(tails) == copy.read_sync(books.count_rows)["claims"] - 3, "each message is whole in it"
    finally:
        over.set()
        for one in speakers:
            one.join()
        store.close()
    assert max(waits) < 5.0


PROGRAM = """
import resource, sys
from pathlib import Path
from semel.ledger.backup.backups import make_backup
from semel.ledger.sqlite.store import now_ms
data, folder = map(Path, sys.argv[1:])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
make_backup(data / "ledger.db", data, folder, semel="test", clock=now_ms)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
def test_the_memory_a_backup_takes_does_not_grow_with_the_ledger(tmp_path: Path) -> None:
    place = make_place(tmp_path, files=0)
    with Store.open_sync(place.ledger) as store:
        calls = [(f"hook:room{n % 7}", [f"{n} " + "y" * 100_000]) for n in range(500)]
        for at in range(0, len(calls), 100):
            store._require_committer().commit([WorkItem(say, call, {}, None) for call in calls[at : at + 100]])
    assert place.ledger.stat().st_size > 90_000_000
    command = [sys.executable, "-c", PROGRAM, str(place.data), str(place.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 45_000_000, "ru_maxrss is in kB"


# ---------------------------------------------------------------- old ones


def make_three(tmp_path: Path) -> Place:
    """Three backups; each ledger has one more file than the one before."""
    place = make_place(tmp_path, messages=1, files=1)
    for n in range(3):
        place.back_up()
        with Store.open_sync(place.ledger) as store:
            add_file(place, store, f"more {n}".encode())
    return place


def test_old_backups_go_with_the_files_that_only_they_had(tmp_path: Path) -> None:
    place = make_three(tmp_path)
    last = list_backups(place.folder)[-1]
    (place.folder / "blobs" / ("0" * 64)).write_bytes(b"of a backup whose folder somebody removed")
    removed = drop_old_backups(place.folder, 1)
    assert len(removed) == 2
    assert list_backups(place.folder) == [last]
    assert len(check_backup(find_backup(place.folder))) == len(list((place.folder / "blobs").iterdir())) == 3
    assert drop_old_backups(place.folder, 1) == []


@pytest.mark.storm
def test_removing_old_backups_can_be_killed_at_any_step(tmp_path: Path) -> None:
    step = 1
    while True:
        place = make_three(tmp_path / str(step))
        died = dies_at(step, lambda place=place: drop_old_backups(place.folder, 2))  # type: ignore[misc]
        found = list_backups(place.folder)
        assert len(found) >= 2
        for path in found:
            check_backup(find_backup(path))
        if not died:
            break
        drop_old_backups(place.folder, 2)
        place.back_up()
        assert not list(place.folder.rglob(".unfinished-*")), "what was left is gone with the next backup"
        step += 1
    assert step > 5


def test_a_kept_backup_that_cannot_be_read_leaves_every_file(tmp_path: Path) -> None:
    place = make_three(tmp_path)
    files = sorted((place.folder / "blobs").iterdir())
    (list_backups(place.folder)[-1] / "ledger.db").write_bytes(b"rotten" * 1000)
    with pytest.raises(errors.LedgerError):
        drop_old_backups(place.folder, 2)
    assert len(list_backups(place.folder)) == 3
    assert sorted((place.folder / "blobs").iterdir()) == files


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.storm
def test_a_backup_that_is_killed_at_any_step_is_never_taken_for_whole(tmp_path: Path) -> None:
    place = make_place(tmp_path, messages=1, files=1)
    (place.data / "owner.token").write_text("secret-secret-secret\n")
    step, killed = 1, 0
    while dies_at(step, lambda: place.back_up(tokens=True)):
        killed += 1
        for path in list_backups(place.folder):
            check_backup(find_backup(path))  # it was killed behind the rename
        step += 1
    assert killed > 30
    assert not list(place.folder.rglob(".unfinished-*")), "the next one that is not killed tidies up"
    check_backup(find_backup(place.folder))


def test_a_full_disk_leaves_nothing_of_it_and_the_earlier_ones_as_they_were(tmp_path: Path) -> None:
    place = make_place(tmp_path, messages=200)
    first = place.back_up()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        try:
            place.back_up()
        except errors.BackupFull as full:
            os._exit(7 if "Free some space" in str(full) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert list_backups(place.folder) == [first.folder]
    assert not list(place.folder.rglob(".unfinished-*"))


def test_a_folder_that_is_not_for_it_is_left_alone(tmp_path: Path) -> None:
    place, other = make_place(tmp_path / "a"), make_place(tmp_path / "b")
    place.back_up()
    other.folder = place.folder
    with pytest.raises(errors.BackupOfAnother, match="another ledger"):
        other.back_up()
    other.folder = tmp_path / "home"
    other.folder.mkdir()
    (other.folder / "letter.txt").write_text("dear Ann")
    with pytest.raises(errors.BackupFolderInUse, match="neither empty"):
        other.back_up()
    assert [path.name for path in other.folder.iterdir()] == ["letter.txt"]


def test_two_backups_into_one_folder_do_not_run_at_once(tmp_path: Path) -> None:
    import fcntl

    place = make_place(tmp_path)
    place.back_up()
    with (place.folder / ".lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(errors.BackupRuns, match=str(os.getpid())):
            place.back_up()


@pytest.mark.parametrize("harm", ["ledger", "blob", "manifest"])
def test_a_backup_that_was_changed_is_told_as_damaged(tmp_path: Path, harm: str) -> None:
    made = make_place(tmp_path).back_up()
    path = {
        "ledger": made.folder / "ledger.db",
        "blob": sorted(made.store.iterdir())[0],
        "manifest": made.folder / "manifest.json",
    }[harm]
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = b"?" * len(content[len(content) // 2 :])
    path.write_bytes(content)
    with pytest.raises(errors.BackupDamaged):
        check_backup(find_backup(made.folder))


def test_a_backup_of_a_newer_semel_is_refused(tmp_path: Path) -> None:
    made = make_place(tmp_path).back_up()
    told: dict[str, Any] = json.loads((made.folder / "manifest.json").read_text())
    (made.folder / "manifest.json").write_text(json.dumps({**told, "schema": 99}))
    with pytest.raises(errors.BackupNewer, match="newer Semel"):
        find_backup(made.folder)


def test_without_a_ledger_there_is_nothing_to_back_up(tmp_path: Path) -> None:
    place = Place(tmp_path / "data", tmp_path / "backups")
    with pytest.raises(errors.LedgerMissing):
        place.back_up()
    assert not place.folder.exists()
