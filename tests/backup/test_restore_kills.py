"""A restore that is killed at any step: what a gateway and a backup find then, and what a second run makes of it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from backup_desk import Place, make_place
from outbox_desk import say
from step_killer import dies_at

from semel.ledger.backup import settle_restored
from semel.ledger.backup.backups import list_backups
from semel.ledger.backup.restore import RestoreResult, restore_backup
from semel.ledger.delivery import parts
from semel.ledger.sqlite.open_ledger import read_own_mark
from semel.ledger.sqlite.store import Store, now_ms
from semel.ledger.storage import errors


@dataclass(frozen=True)
class Found:
    """What a gateway finds: the newest message of its ledger, whether it settles first, and the incarnation."""

    newest: str
    is_unsettled: bool
    incarnation: int


OLD = Found("old", False, 2)
NEVER_BEGUN = Found("an empty ledger", False, 1)


def start_on(data: Path) -> Found:
    """Open the ledger as a gateway does. Raises LedgerError."""
    with Store.open_sync(data / "ledger.db") as store:
        store.keep_mark()
        newest = store.read_sync(parts.list_newest)
        return Found(
            newest[0]["text"] if newest else NEVER_BEGUN.newest,
            store.read_sync(settle_restored.is_unsettled_copy),
            store.read_sync(read_own_mark).incarnation,
        )


def newest_text(ledger: Path) -> str:
    with Store.open_sync(ledger) as store:
        return str(store.read_sync(parts.list_newest)[0]["text"])


def restore(place: Place, data: Path) -> RestoreResult:
    return restore_backup(place.folder, data / "ledger.db", data, clock=now_ms, replace=True)


def make_old_data(place: Place, data: Path) -> None:
    """The data of a gateway that was killed. Its ledger was restored before; its last message is only in the log."""
    used = data.with_name("used")
    restore(place, used)
    with Store.open_sync(used / "ledger.db") as store:
        store.keep_mark()
        store.write_sync(settle_restored.settle_copy)
        store.write_sync(say, "hook:room", ["old"])
        shutil.copytree(used, data)
    assert (data / "ledger.db-wal").stat().st_size


@pytest.mark.storm
@pytest.mark.parametrize("has_ledger", [True, False], ids=["replaced", "empty"])
def test_nothing_starts_on_a_guess_or_is_backed_up_by_halves_and_a_second_run_forgets_nothing(
    tmp_path: Path, has_ledger: bool
) -> None:
    place = make_place(tmp_path, messages=1, files=1)
    place.back_up()
    if has_ledger:
        make_old_data(place, tmp_path / "old")
    new = Found("message 0", True, 2 if has_ledger else 1)
    step, seen = 1, set[Found | None]()
    while True:
        data = tmp_path / f"data{step}"
        shutil.copytree(tmp_path / "old", data) if has_ledger else data.mkdir()
        if not dies_at(step, lambda data=data: restore(place, data)):  # type: ignore[misc]
            break
        is_replacing = (data / "ledger.db.restoring").exists()
        if is_replacing:
            found = None
            with pytest.raises(errors.LedgerRestoring, match="run the same 'semel restore' command again"):
                start_on(data)
            with pytest.raises(errors.LedgerRestoring):
                Place(data, tmp_path / "half").back_up()
        else:
            shutil.copytree(data, copy := tmp_path / f"copy{step}")
            found = start_on(copy)
            assert found == new or found == (OLD if has_ledger else NEVER_BEGUN), step
            assert found != NEVER_BEGUN or not (data / "blobs").exists(), "before it had begun"
        seen.add(found)
        second = restore(place, data)
        assert start_on(data) == new, step
        kept = [newest_text(path) for path in data.glob("replaced-*/ledger.db")]
        assert not has_ledger or OLD.newest in kept, "the old ledger is never lost"
        assert has_ledger or not is_replacing or second.aside is None, "nothing was replaced"
        step += 1
    assert step > 20
    assert seen == {None, new, OLD if has_ledger else NEVER_BEGUN}
    assert not list_backups(tmp_path / "half")


def test_a_restore_that_fails_where_no_ledger_was_leaves_the_place_to_a_gateway(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    place.back_up()
    (data := tmp_path / "new").mkdir()
    (data / "blobs").write_text("in the way")
    with pytest.raises(errors.RestoreFailed, match="blobs"):
        restore(place, data)
    assert start_on(data) == NEVER_BEGUN
    (data / "blobs").unlink()
    assert restore(place, data).aside is not None


def test_a_second_restore_before_the_first_start_continues_the_incarnations(tmp_path: Path) -> None:
    place = make_place(tmp_path, messages=1)
    place.back_up()
    make_old_data(place, tmp_path / "old")
    restore(place, tmp_path / "old")
    restore(place, tmp_path / "old")  # the mark of the ledger before lies in replaced-TIME
    assert start_on(tmp_path / "old") == Found("message 0", True, 2)
