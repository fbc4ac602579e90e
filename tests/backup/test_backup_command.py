"""`semel backup` as people type it."""

from __future__ import annotations

import errno
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from backup_desk import make_place
from cli_house import Cli

from semel.ledger.backup import settle_restored
from semel.ledger.sqlite import mark_file
from semel.ledger.sqlite.store import Store


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    make_place(tmp_path)
    (tmp_path / "home").mkdir()
    return Cli(tmp_path / "home", tmp_path / "data")


def test_it_prints_where_the_backup_is_and_that_it_was_checked(cli: Cli, tmp_path: Path) -> None:
    done = cli("backup", str(tmp_path / "other" / ".." / "kept"))
    made = Path(done.stdout.strip())
    assert made.parent == tmp_path / "kept"
    assert (made / "manifest.json").exists()
    assert "ledger.db, checked: integrity" in done.stderr
    assert "2 files, 2 of them new" in done.stderr


def test_without_a_folder_it_lies_beside_the_data_directory(cli: Cli, tmp_path: Path) -> None:
    told = cli.json("backup")
    assert Path(told["backup"]).parent == tmp_path / "data-backups"
    assert told["blobs"] == 2
    assert told["broken"] == []


def test_what_cannot_be_done_is_one_line_and_an_exit_code(cli: Cli, tmp_path: Path) -> None:
    assert "is inside the data directory" in cli("backup", str(tmp_path / "data/kept"), rc=2).stderr
    (tmp_path / "file").write_text("")
    told = cli("backup", str(tmp_path / "file"), rc=1).stderr
    assert "failed" in told
    assert "Traceback" not in told
    cli.data = tmp_path / "elsewhere"
    assert "There is no ledger" in cli("backup", str(tmp_path / "kept"), rc=1).stderr
    assert not (tmp_path / "kept").exists()


def test_a_folder_that_this_user_may_not_write_is_told_with_two_ways_out(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user of a service has /var/lib/semel, but may make nothing beside it. Root may: so it is patched."""
    folder = tmp_path / "data-backups"
    mkdir = Path.mkdir

    def refuse(path: Path, *args: Any, **options: Any) -> None:
        if path == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        mkdir(path, *args, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    said = cli("backup", rc=1).stderr
    assert f"{folder}: Permission denied" in said and "semel backup DIR" in said
    assert f"install -d -m 700 -o {os.geteuid()} {folder}" in said
    monkeypatch.undo()
    folder.mkdir(0o700)  # as root would
    assert Path(cli("backup").stdout.strip()).parent == folder


def test_a_broken_law_is_told_and_ends_with_1(cli: Cli, tmp_path: Path) -> None:
    with Store.open_sync(tmp_path / "data/ledger.db") as store:
        store.write_sync(lambda tx: tx.run("session_next_entry", id=1))
    done = cli("backup", rc=1)
    assert "breaks these books" in done.stderr
    assert Path(done.stdout.strip(), "manifest.json").exists()


def test_of_older_backups_as_many_stay_as_were_asked_for(cli: Cli, tmp_path: Path) -> None:
    made = [Path(cli("backup", str(tmp_path / "kept")).stdout.strip()) for _ in range(3)]
    told = cli.json("backup", "--keep", "2", str(tmp_path / "kept"))
    assert told["removed"] == [str(path) for path in made[:2]]
    assert [path.exists() for path in made] == [False, False, True]
    assert "removed: " in cli("backup", "--keep", "1", str(tmp_path / "kept")).stderr
    assert "--keep" in cli("backup", "--keep", "0", rc=2).stderr
    with Store.open_sync(tmp_path / "data/ledger.db") as store:
        store.write_sync(lambda tx: tx.run("session_next_entry", id=1))
    assert cli.json("backup", "--keep", "1", str(tmp_path / "kept"), rc=1)["removed"] == []


@pytest.mark.parametrize("tokens", [(), ("--tokens",)], ids=["without tokens", "with tokens"])
def test_a_restore_in_another_directory_says_if_logins_end(cli: Cli, tmp_path: Path, tokens: tuple[str, ...]) -> None:
    (cli.data / "owner.token").write_text("the token of the owner\n")
    kept, new = str(tmp_path / "kept"), str(tmp_path / "new")
    backup = Path(cli("backup", *tokens, kept).stdout.strip())
    told = cli("restore", kept, "--data-dir", new).stderr
    assert ("there is no owner.token here" in told) == (not tokens)
    if not tokens:  # the new directory's own history of backups begins with this one
        state = f"backup    restored less than a minute ago from {backup}, as it was on "
        said = cli("status", "--data-dir", new).stdout
        assert re.search(
            rf"{re.escape(state)}[^;]+; none was made since; make one: \S+ backup --data-dir {new}\n", said
        )
        assert f"restored less than a minute ago from {backup}" in cli("doctor", "--data-dir", new).stdout
        cli("backup", kept, "--data-dir", new)
        assert "restored" not in cli("status", "--data-dir", new).stdout


def test_a_ledger_that_went_back_by_itself_is_treated_as_restored_by_one_command(cli: Cli, tmp_path: Path) -> None:
    ledger = tmp_path / "data/ledger.db"
    with Store.open(ledger, marked=True) as store:
        store.write_sync(settle_restored.settle_copy)
        assert not store.read_sync(settle_restored.is_unsettled_copy)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "copy").rename(tmp_path / "data")
    done = cli("restore", "--here")
    assert Path(done.stdout.strip()) == ledger
    assert "at the next start" in done.stderr and "start the gateway: semel up; then see what it holds" in done.stderr
    told = cli("doctor").stdout
    assert "3 were in line when the copy was made, and may have arrived since" in told
    assert "tried again" not in told, "the next start decides"
    with Store.open(ledger, marked=True) as store:
        settled = store.write_sync(settle_restored.settle_copy)
        assert settled is not None
        assert settled.parts == 3
    assert "--here" in cli("restore", rc=2).stderr
    assert "without DIR" in cli("restore", "--here", str(tmp_path / "kept"), rc=2).stderr
    with Store.open_sync(ledger):
        assert "running gateway" in cli("restore", "--here", rc=1).stderr
    cli.data = tmp_path / "elsewhere"
    assert "There is no ledger" in cli("restore", "--here", rc=1).stderr
    assert not (tmp_path / "elsewhere").exists()


def test_the_doctor_tells_a_ledger_that_was_put_back_before_the_next_start(cli: Cli) -> None:
    ledger = cli.data / "ledger.db"
    Store.open(ledger, marked=True).close()
    assert "ledger  " not in cli("doctor").stdout
    mark = mark_file.read_mark(ledger)
    assert mark is not None
    mark_file.MarkFile(ledger, replace(mark, commits=mark.commits + 1)).close()  # as if the file were older
    assert re.search(r"warning +ledger +it is an older copy, or was put here without its mark", cli("doctor").stdout)
    cli("restore", "--here")
    told = cli("doctor").stdout
    assert re.search(r"warning +ledger +it was put back from a copy", told)
    assert "to do: start the gateway: semel up; then see what it holds: semel outbox list --state held" in told
