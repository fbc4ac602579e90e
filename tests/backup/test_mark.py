"""A ledger file that somebody copied back by hand is recognised, and nothing else is taken for one."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import apsw
import pytest
from outbox_desk import say

from semel.ledger.backup import restore, settle_restored
from semel.ledger.sqlite import mark_file
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.errors import LedgerLost, LogOfAnother
from semel.ledger.storage.rows import LedgerRow, SessionRow
from semel.ledger.storage.sql import Tx


def is_copy(path: Path) -> bool:
    with Store.open(path, marked=True) as store:
        return store.read_sync(settle_restored.is_unsettled_copy)


def speak(path: Path, text: str) -> None:
    with Store.open(path, marked=True) as store:
        store.write_sync(say, "hook:room", [text])


def test_a_ledger_that_is_started_again_is_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    assert not is_copy(path)
    for text in ("one", "two"):
        speak(path, text)
        assert not is_copy(path)


def test_an_older_file_in_its_place_is_a_copy_until_it_is_settled(tmp_path: Path) -> None:
    path, kept = tmp_path / "ledger.db", tmp_path / "kept.db"
    speak(path, "one")
    shutil.copy(path, kept)
    speak(path, "two")
    shutil.copy(kept, path)
    assert is_copy(path)
    assert is_copy(path), "it stays one, also where the gateway was killed before it settled it"
    with Store.open(path, marked=True) as store:
        done = store.write_sync(settle_restored.settle_copy)
        assert done is not None
        assert done.parts == 1
    assert not is_copy(path)


def test_each_time_it_is_put_back_is_another_life_of_it(tmp_path: Path) -> None:
    path, kept = tmp_path / "ledger.db", tmp_path / "kept.db"
    speak(path, "one")
    shutil.copy(path, kept)
    for life in (2, 3, 4):
        speak(path, "more")
        shutil.copy(kept, path)
        with Store.open(path, marked=True) as store:
            done = store.write_sync(settle_restored.settle_copy)
            assert done is not None
            assert done.incarnation == life


def test_only_a_state_of_a_part_that_changed_is_enough(tmp_path: Path) -> None:
    path, kept = tmp_path / "ledger.db", tmp_path / "kept.db"
    speak(path, "one")
    shutil.copy(path, kept)
    with Store.open(path, marked=True) as store:
        store.write_sync(lambda tx: tx.run("part_depart", id=1, state="sending", now=tx.now, marked=0))
    shutil.copy(kept, path)
    assert is_copy(path)


def test_a_used_ledger_without_its_mark_was_put_there_by_hand(tmp_path: Path) -> None:
    speak(tmp_path / "ledger.db", "one")
    (tmp_path / "b").mkdir()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "b/ledger.db")
    assert is_copy(tmp_path / "b/ledger.db")


def test_a_data_directory_that_was_moved_whole_is_no_copy(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    speak(tmp_path / "a/ledger.db", "one")
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert not is_copy(tmp_path / "b/ledger.db")


@pytest.mark.parametrize("torn", [0, 1], ids=["first slot", "second slot"])
def test_a_mark_that_was_torn_counts_as_the_one_before(tmp_path: Path, torn: int) -> None:
    path = tmp_path / "ledger.db"
    for text in ("one", "two", "three"):
        speak(path, text)
    newest = mark_file.read_mark(path)
    content = bytearray(mark_file.mark_path(path).read_bytes())
    content[torn * mark_file.SLOT_BYTES + 10 : torn * mark_file.SLOT_BYTES + 60] = b"?" * 50
    mark_file.mark_path(path).write_bytes(content)
    left = mark_file.read_mark(path)
    assert left is not None
    assert newest is not None
    assert newest.commits - left.commits in (0, 1)
    assert not is_copy(path)


@pytest.mark.parametrize("texts", ["a", "ab"], ids=["newest in the second slot", "newest in the first slot"])
def test_a_power_cut_while_a_start_writes_its_mark_leaves_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: str
) -> None:
    path = tmp_path / "ledger.db"
    for text in texts:
        speak(path, text)
    newest, content = mark_file.read_mark(path), mark_file.mark_path(path).read_bytes()
    assert newest is not None
    written: list[tuple[bytes, int]] = []
    with monkeypatch.context() as patch:
        patch.setattr(mark_file.os, "pwrite", lambda _file, data, at: written.append((data, at)))
        mark_file.MarkFile(path, replace(newest, log="of the next start")).close()
    for data, at in written:
        for size in range(1, len(data) + 1):
            torn = content[:at] + data[:size] + content[at + size :]
            mark_file.mark_path(path).write_bytes(torn)
            left = mark_file.read_mark(path)
            assert left is not None and not newest.is_ahead_of(left), (at, size)
        content = torn


def test_a_transaction_that_changes_nothing_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    speak(path, "one")
    before = mark_file.read_mark(path)
    with Store.open(path, marked=True) as store:
        for _ in range(5):
            store.write_sync(lambda tx: tx.one(SessionRow, "session_by_id", id=1))
    assert mark_file.read_mark(path) == before


PROGRAM = """
import sys
from semel.ledger.sqlite.store import Store

def note(tx, n):
    tx.run("cursor_set", source=f"s{n % 7}", value=str(n), at=tx.now)

store = Store.open(sys.argv[1], marked=True)
n = 0
while True:
    n += 1
    store.write_sync(note, n)
    print(n, flush=True)
"""


@pytest.mark.storm
def test_after_a_kill_at_any_time_there_is_no_false_alarm(tmp_path: Path) -> None:
    path, luck = tmp_path / "ledger.db", random.Random(5)

    def commits(tx: Tx) -> int:
        row = tx.get(LedgerRow, "ledger_get")
        assert row.copied is None
        return int(row.commits)

    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(luck.randrange(1, 200)):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        known = mark_file.read_mark(path)
        assert known is not None
        with Store.open(path, marked=True) as store:
            come = store.read_sync(commits)
        assert known.commits <= come <= known.commits + 1, "what anybody heard of is in the mark"


# ---------------------------------------------------------------- the log beside it

WORKER = """
import signal
import sys
from semel.ledger.sqlite.store import Store

def note(tx, n):
    for each in range(n, n + 40):
        tx.run("cursor_set", source=f"s{each % 400}", value=str(n) * 200, at=tx.now)

store = Store.open_sync(sys.argv[1])
store.keep_mark()
n = 0
while True:
    n += 1
    store.write_sync(note, n)
    if sys.argv[2] == "moves the log" and n % 3 == 0:
        store._committer.checkpoint()
    print(n, flush=True)
    if n == int(sys.argv[3]):
        signal.pause()
"""


def worker(path: Path, how: str, commits: int = 0) -> list[str]:
    """Return the command of a process that commits until it is killed, or rests after so many `commits`."""
    return [sys.executable, "-c", WORKER, str(path), how, str(commits)]


def work_until_killed(path: Path, commits: int, how: str = "moves the log") -> None:
    """Kill a gateway between two commits: in a commit, the mark may not know the log, and then it refuses nothing."""
    with subprocess.Popen(worker(path, how, commits), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(commits):
            assert process.stdout.readline(), "the worker ended"
        process.send_signal(signal.SIGKILL)


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".lock")}


def soundness(path: Path) -> str:
    db = apsw.Connection(str(path))
    try:
        return str(db.execute("PRAGMA integrity_check").get)
    finally:
        db.close()


def older_file_beside_a_log(folder: Path) -> Path:
    path = folder / "ledger.db"
    speak(path, "one")
    shutil.copy(path, folder / "kept.db")
    work_until_killed(path, 40)
    shutil.copy(path, folder / "newest.db")
    shutil.copy(folder / "kept.db", path)
    return path


def test_an_older_file_beside_the_log_of_a_killed_gateway_is_refused_untouched(tmp_path: Path) -> None:
    path = older_file_beside_a_log(tmp_path)
    before = content_of(tmp_path)
    for _ in range(2):
        with pytest.raises(LogOfAnother, match=r"move .*ledger\.db-wal and .*ledger\.db-shm to another folder"):
            Store.open(path, marked=True)
    with pytest.raises(LogOfAnother):
        Store.open(path, readonly=True)
    with pytest.raises(LogOfAnother):
        restore.treat_as_restored(path, lambda: 1)
    assert content_of(tmp_path) == before


def test_once_the_log_is_moved_away_the_older_file_is_a_copy(tmp_path: Path) -> None:
    path = older_file_beside_a_log(tmp_path)
    (tmp_path / "aside").mkdir()
    for suffix in ("-wal", "-shm"):
        shutil.move(f"{path}{suffix}", tmp_path / "aside")
    assert is_copy(path)
    assert soundness(path) == "ok"


def test_once_the_newest_file_is_back_its_log_belongs_to_it(tmp_path: Path) -> None:
    path = older_file_beside_a_log(tmp_path)
    shutil.copy(tmp_path / "newest.db", path)
    assert not is_copy(path)
    assert soundness(path) == "ok"


def test_a_file_is_refused_also_beside_the_first_log_since_the_start(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    speak(path, "one")
    shutil.copy(path, tmp_path / "kept.db")
    for text in ("two", "three"):
        speak(path, text)
    work_until_killed(path, 3, "leaves the log")
    work_until_killed(path, 3, "leaves the log")  # the log is gone on with after a kill
    shutil.copy(tmp_path / "kept.db", path)
    with pytest.raises(LogOfAnother):
        Store.open(path, marked=True)


def test_another_ledger_beside_the_log_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.db", tmp_path / "other/ledger.db"
    work_until_killed(path, 10)
    for _ in range(30):
        speak(other, "more")
    shutil.copy(other, path)
    with pytest.raises(LogOfAnother):
        Store.open(path, marked=True)


def test_a_file_of_an_earlier_life_is_refused_however_far_it_came(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    speak(path, "one")
    shutil.copy(path, tmp_path / "kept.db")
    for _ in range(30):
        speak(path, "more")
    shutil.copy(path, tmp_path / "farther.db")
    shutil.copy(tmp_path / "kept.db", path)
    with Store.open(path, marked=True) as store:
        assert store.write_sync(settle_restored.settle_copy) is not None
    work_until_killed(path, 10)
    shutil.copy(tmp_path / "farther.db", path)
    with pytest.raises(LogOfAnother):
        Store.open(path, marked=True)


@pytest.mark.parametrize("with_mark", [False, True])
def test_a_copy_that_went_on_elsewhere_is_refused_beside_the_log(tmp_path: Path, with_mark: bool) -> None:
    """It is ahead of the log, which is that of the ledger it was copied from: SQLite would mix the two."""
    path, fork = tmp_path / "ledger.db", tmp_path / "fork/ledger.db"
    speak(path, "one")
    fork.parent.mkdir()
    shutil.copy(path, fork)
    if with_mark:
        shutil.copy(mark_file.mark_path(path), mark_file.mark_path(fork))
    work_until_killed(path, 10)
    with Store.open(fork, marked=True) as store:
        store.write_sync(settle_restored.settle_copy)
    for _ in range(40):
        speak(fork, "more")
    for suffix in ("", mark_file.MARK_SUFFIX) if with_mark else ("",):
        shutil.copy(f"{fork}{suffix}", f"{path}{suffix}")
    log, before = Path(f"{path}-wal"), path.read_bytes()
    left = log.read_bytes()
    for refused in (partial(Store.open, path, marked=True), partial(Store.open, path, readonly=True)):
        with pytest.raises(LogOfAnother):
            refused()
    assert (path.read_bytes(), log.read_bytes()) == (before, left)


def test_a_file_that_the_log_goes_on_from_is_brought_to_the_newest_state(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    speak(path, "one")
    shutil.copy(path, tmp_path / "kept.db")
    work_until_killed(path, 10, "leaves the log")
    shutil.copy(tmp_path / "kept.db", path)
    assert not is_copy(path)
    assert soundness(path) == "ok"


@pytest.mark.parametrize("told", ["nothing of a log", "another log"])
def test_a_log_that_the_mark_does_not_know_is_taken_as_it_is(tmp_path: Path, told: str) -> None:
    path = tmp_path / "ledger.db"
    speak(path, "one")
    work_until_killed(path, 10)
    known = mark_file.read_mark(path)
    assert known is not None
    fields = {"ledger": known.ledger, "incarnation": known.incarnation, "commits": known.commits}
    if told == "another log":
        fields |= {"log": "00" * 8, "base": [9, 999]}
    text = json.dumps(fields).encode()
    slot = (text + b" %08x" % zlib.crc32(text)).ljust(mark_file.SLOT_BYTES, b"\0")
    mark_file.mark_path(path).write_bytes(slot * 2)
    assert not is_copy(path)
    assert soundness(path) == "ok"


@pytest.mark.storm
def test_kills_at_any_time_never_make_a_log_look_like_that_of_another_file(tmp_path: Path) -> None:
    path, luck = tmp_path / "ledger.db", random.Random(6)
    for turn in range(24):
        how = luck.choice(("moves the log", "leaves the log"))
        with subprocess.Popen(worker(path, how), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(luck.randrange(0, 12)):
                assert process.stdout.readline(), "the worker ended"
            time.sleep(luck.random() * 0.005)
            process.send_signal(signal.SIGKILL)
        if turn % 3 == 0:  # else the next process finds the log
            assert not is_copy(path)
    assert not is_copy(path)
    assert soundness(path) == "ok"


@pytest.mark.parametrize("with_log", [False, True])
@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["missing", "empty"])
def test_a_ledger_that_is_lost_is_not_begun_anew(
    tmp_path: Path, lose: Callable[[Path], object], with_log: bool
) -> None:
    path, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    speak(path, "one")
    if with_log:
        log.write_bytes(b"what was accepted last")
    lose(path)
    for options in ({}, {"marked": True}, {"readonly": True}):
        with pytest.raises(LedgerLost, match=r"(?s)is missing or empty.*semel restore.*ledger\.db\.mark"):
            Store.open(path, **options)
    assert not path.exists() or path.stat().st_size == 0
    assert not with_log or log.read_bytes() == b"what was accepted last"
    (tmp_path / "ledger.db.mark").unlink()
    log.unlink(missing_ok=True)
    speak(path, "a new one")
