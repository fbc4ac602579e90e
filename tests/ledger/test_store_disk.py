"""A disk that is full, or may not be written: a clear word, nothing accepted is lost, and it goes on by itself."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import pytest

from proof.power.disk import PowerDisk
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.errors import LedgerError, LedgerFull, LedgerReadOnly

PROGRAM = Path(__file__).with_name("small_disk.py")


@cache
def mounting() -> list[str] | None:
    """A command prefix in which a file system can be mounted without anyone else seeing it, if there is one."""
    for prefix in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        trial = [*prefix, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if shutil.which("unshare") and subprocess.run(trial, capture_output=True).returncode == 0:
            return prefix
    return None


def program(*args: str, mounts: str = "", readonly: bool = False) -> dict[str, Any]:
    command = shlex.join([sys.executable, str(PROGRAM), *args])
    prefix = (mounting() or []) if mounts else []
    done = subprocess.run(
        [*prefix, "sh", "-ec", f"{mounts}\nexec {command}"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **({"READONLY": "1"} if readonly else {})},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def small_disk(folder: Path, size: str) -> str:
    return f"mount -t tmpfs -o size={size} tmpfs {shlex.quote(str(folder))}"


FILE_LIMIT = ("LedgerFileLimit", "Raise the limit on the size of files ('ulimit -f'")


def check(result: dict[str, Any], error: str, remedy: str) -> None:
    assert result["accepted"] > 8
    assert result["clients refused"] == 8
    assert result["refused"] == [error]
    assert remedy in result["message"]
    assert result["readable while full"]
    assert result["refused but there"] == []
    assert result["all accepted are there after"]


def test_on_a_full_disk_nothing_accepted_is_lost_and_space_brings_writing_back(tmp_path: Path) -> None:
    if mounting():
        result = program("full", str(tmp_path), mounts=small_disk(tmp_path, "8m"))
        check(result, "LedgerFull", "Free some space: writing goes on by itself")
    else:  # the same program against a limit on the size of files
        check(program("limit", str(tmp_path)), *FILE_LIMIT)


def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path: Path) -> None:
    result = program("limit", str(tmp_path))
    check(result, *FILE_LIMIT)
    assert "File too large" in result["message"]


def refusal_by_a_failing_disk(folder: Path, error: Exception) -> LedgerError:
    """Open a new ledger where every write fails: for machines on which nothing can be mounted."""
    disk = PowerDisk(f"failing-{folder.name}")
    disk.fail("write", 1000, error)
    with pytest.raises(LedgerError) as refused:
        Store.open_sync(folder / "ledger.db", vfs=disk.name)
    return refused.value


def test_a_disk_that_takes_no_write_is_refused_at_the_door(tmp_path: Path) -> None:
    full = refusal_by_a_failing_disk(tmp_path, apsw.FullError("no room"))
    assert isinstance(full, LedgerFull)
    fixed = refusal_by_a_failing_disk(tmp_path, apsw.ReadOnlyError("attempt to write"))
    assert isinstance(fixed, LedgerReadOnly)
    Store.open(tmp_path / "ledger.db").close()


def test_a_disk_that_is_full_from_the_start_is_refused_at_the_door(tmp_path: Path) -> None:
    if not mounting():
        assert isinstance(refusal_by_a_failing_disk(tmp_path, apsw.FullError("no room")), LedgerFull)
        return
    result = program("open", str(tmp_path), mounts=small_disk(tmp_path, "64k"))
    assert result["refused"] == "LedgerFull"
    assert "No space left" in result["message"] or "full" in result["message"]


@pytest.mark.parametrize("made", [False, True], ids=["new", "existing"])
def test_a_read_only_disk_is_refused_at_the_door(tmp_path: Path, made: bool) -> None:
    if not mounting():
        assert isinstance(refusal_by_a_failing_disk(tmp_path, apsw.ReadOnlyError("no")), LedgerReadOnly)
        return
    if made:
        Store.open(tmp_path / "ledger.db").close()
    folder = shlex.quote(str(tmp_path))
    readonly = f"mount --bind {folder} {folder}\nmount -o remount,bind,ro {folder}"
    result = program("open", str(tmp_path), mounts=readonly)
    assert result["refused"] == "LedgerReadOnly"
    assert "not mounted read-only" in result["message"]
    looked = program("open", str(tmp_path), mounts=readonly, readonly=True)
    assert looked["refused"] == ("" if made else "LedgerMissing"), "doctor reads a backup on a read-only disk"
