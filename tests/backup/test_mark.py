"""A ledger file that somebody copied back by hand is recognised, and nothing else is taken for one."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from outbox_desk import say

from semel.ledger import mark, restored
from semel.ledger.sql import Tx
from semel.ledger.store import Store


def is_copy(path: Path) -> bool:
    with Store.open(path, marked=True) as store:
        return store.look(restored.is_copy)


def speak(path: Path, text: str) -> None:
    with Store.open(path, marked=True) as store:
        store.apply(say, "hook:room", [text])


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
        done = store.apply(restored.settle)
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
            done = store.apply(restored.settle)
            assert done is not None
            assert done.incarnation == life


def test_only_a_state_of_a_part_that_changed_is_enough(tmp_path: Path) -> None:
    path, kept = tmp_path / "ledger.db", tmp_path / "kept.db"
    speak(path, "one")
    shutil.copy(path, kept)
    with Store.open(path, marked=True) as store:
        store.apply(lambda tx: tx.run("part_depart", id=1, state="sending", now=tx.now, marked=0))
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
    newest = mark.read(path)
    content = bytearray(mark.path_of(path).read_bytes())
    content[torn * mark.SLOT_BYTES + 10 : torn * mark.SLOT_BYTES + 60] = b"?" * 50
    mark.path_of(path).write_bytes(content)
    left = mark.read(path)
    assert left is not None
    assert newest is not None
    assert newest.commits - left.commits in (0, 1)
    assert not is_copy(path)


def test_a_transaction_that_changes_nothing_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    speak(path, "one")
    before = mark.read(path)
    with Store.open(path, marked=True) as store:
        for _ in range(5):
            store.apply(lambda tx: tx.one("session_by_id", id=1))
    assert mark.read(path) == before


PROGRAM = """
import sys
from semel.ledger.store import Store

def note(tx, n):
    tx.run("cursor_set", source=f"s{n % 7}", value=str(n), at=tx.now)

store = Store.open(sys.argv[1], marked=True)
n = 0
while True:
    n += 1
    store.apply(note, n)
    print(n, flush=True)
"""


def test_after_a_kill_at_any_time_there_is_no_false_alarm(tmp_path: Path) -> None:
    path, luck = tmp_path / "ledger.db", random.Random(5)

    def commits(tx: Tx) -> int:
        row = tx.one("ledger_get")
        assert row is not None
        assert row.copied is None
        return int(row.commits)

    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(luck.randrange(1, 200)):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        known = mark.read(path)
        assert known is not None
        with Store.open(path, marked=True) as store:
            come = store.look(commits)
        assert known.commits <= come <= known.commits + 1, "what anybody heard of is in the mark"
