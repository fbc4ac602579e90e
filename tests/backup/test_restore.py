"""`semel restore`: checked before anything is changed, and the old state or the new one at every step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from backup_desk import Place, make_place
from outbox_desk import say

from semel.ledger.backup import settle_restored
from semel.ledger.backup.restore import RestoreResult, restore_backup
from semel.ledger.delivery import parts
from semel.ledger.sqlite.store import Store, now_ms
from semel.ledger.storage import errors


def texts(ledger: Path) -> list[str]:
    with Store.open_sync(ledger) as store:
        return [p["text"] for p in store.read_sync(parts.list_newest)]


def restore(place: Place, data: Path, *, replace: bool = False) -> RestoreResult:
    return restore_backup(place.folder, data / "ledger.db", data, clock=now_ms, replace=replace)


def test_a_backup_comes_back_into_an_empty_place_with_its_files_and_tokens(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    (place.data / "owner.token").write_text("secret-secret-secret\n")
    place.back_up(tokens=True)
    done = restore(place, tmp_path / "new")
    assert done.aside is None
    assert done.tokens == ("owner.token",)
    assert texts(done.ledger) == ["message 2", "message 1", "message 0"]
    assert len(list((tmp_path / "new/blobs").iterdir())) == 2
    assert (tmp_path / "new/owner.token").stat().st_mode & 0o777 == 0o600
    with Store.open(done.ledger, marked=True) as store:
        assert store.read_sync(settle_restored.is_unsettled_copy)


def test_a_ledger_that_is_there_stays_unless_it_is_to_be_replaced_and_is_kept_then(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    place.back_up()
    with Store.open_sync(place.ledger) as store:
        store.write_sync(say, "hook:room", ["later"])
    with pytest.raises(errors.LedgerThere, match="semel restore --replace"):
        restore(place, place.data)
    assert texts(place.ledger)[0] == "later"
    done = restore(place, place.data, replace=True)
    assert texts(place.ledger)[0] == "message 2"
    assert done.aside is not None
    assert texts(done.aside / "ledger.db")[0] == "later"


def test_a_file_system_without_hard_links_keeps_the_old_ledger_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    place = make_place(tmp_path)
    place.back_up()
    with Store.open_sync(place.ledger) as store:
        store.write_sync(say, "hook:room", ["later"])
    monkeypatch.setattr(os, "link", refuse)  # as on exFAT, which a test cannot mount
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda path, to: refuse() if path.name == "ledger.db.new" else rename(path, to))
    with pytest.raises(errors.RestoreFailed):
        restore(place, place.data, replace=True)  # interrupted where no ledger is in place
    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(errors.LedgerError):
        Store.open(place.ledger)
    done = restore(place, place.data)
    assert texts(place.ledger)[0] == "message 2"
    assert done.aside is not None and texts(done.aside / "ledger.db")[0] == "later"


def test_a_ledger_in_use_is_not_replaced(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    place.back_up()
    with Store.open_sync(place.ledger), pytest.raises(errors.LedgerInUse):
        restore(place, place.data, replace=True)


def test_a_damaged_backup_changes_nothing(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    made = place.back_up()
    (made.store / sorted(p.name for p in made.store.iterdir())[0]).write_bytes(b"x")
    with pytest.raises(errors.BackupDamaged):
        restore(place, tmp_path / "new")
    assert not (tmp_path / "new").exists()
