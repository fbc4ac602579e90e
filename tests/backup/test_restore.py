"""`semel restore`: checked before anything is changed, and the old state or the new one at every step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from backup_desk import Place, add_file, make_place
from outbox_desk import say
from step_killer import dies_at

from semel.ledger.backup import settle_restored
from semel.ledger.backup.backups import check_backup
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


@pytest.mark.parametrize("replace", [False, True], ids=["empty", "replaced"])
def test_killed_at_any_step_it_is_the_old_state_or_the_new_one_and_a_second_run_finishes(
    tmp_path: Path, replace: bool
) -> None:
    place = make_place(tmp_path, messages=1, files=1)
    made = place.back_up()
    check_backup(made)
    step, killed, flagged = 1, 0, 0
    while True:
        data = tmp_path / f"data{step}"
        data.mkdir()
        if replace:
            old = Place(data, place.folder)
            (data / "blobs").mkdir()
            with Store.open_sync(old.ledger) as store:
                store.write_sync(say, "hook:room", ["old"])
                add_file(old, store, b"old content")
        if not dies_at(step, lambda data=data: restore(place, data, replace=True)):  # type: ignore[misc]
            break
        killed += 1
        if (data / "ledger.db.restoring").exists():
            flagged += 1
            with pytest.raises(errors.LedgerRestoring, match="semel restore"):
                Store.open_sync(data / "ledger.db")
        elif (data / "ledger.db").exists():
            assert texts(data / "ledger.db") in (["old"], ["message 0"])
        done = restore(place, data, replace=True)
        assert texts(data / "ledger.db") == ["message 0"]
        kept = [texts(path) for path in data.glob("replaced-*/ledger.db")]
        if replace:
            assert ["old"] in kept, "the old ledger is never lost"
            assert (done.aside is not None) or killed
        assert not (data / "ledger.db.restoring").exists()
        step += 1
    assert killed > 20
    assert flagged > 3
    assert json.loads((made.folder / "manifest.json").read_text())["blobs"] == 1
