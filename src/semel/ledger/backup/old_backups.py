"""Remove old backups of a folder, and the files that only they shared.

    old ones renamed to `.unfinished-...` -> synced -> removed -> files that no whole backup needs removed

A backup that is being removed is not whole any more before anything of it goes, and a file goes only when no whole
backup needs it. A run that was killed leaves what the next one removes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from semel.ledger.backup.backups import (
    BLOBS,
    LEDGER_FILE,
    UNFINISHED,
    blobs_of,
    failing,
    lock_folder,
    read_backup,
    sync_folder,
    whole_backups,
)


def drop_old_backups(folder: Path, keep: int) -> list[Path]:
    """Keep the newest `keep` backups in a folder; which ones were removed. Raises LedgerError, then no file is removed
    that a whole backup needs."""
    assert keep >= 1
    folder = folder.expanduser().absolute()
    with failing(folder), lock_folder(folder):
        whole = sorted(whole_backups(folder), key=lambda path: (read_backup(path).manifest.at, path.name))
        old, kept = whole[:-keep], whole[-keep:]
        needed = {id for path in kept for id, _ in blobs_of(path / LEDGER_FILE)}
        leaving = [path.rename(folder / f"{UNFINISHED}{path.name}") for path in old]
        sync_folder(folder)
        for path in leaving:
            shutil.rmtree(path)
        for blob in (folder / BLOBS).iterdir():
            if blob.name not in needed:
                blob.unlink()
        return old
