"""Remember the last backup of a ledger, and the last restore, in files in its data directory, for `semel status`.

The ledger itself does not record them: a backup only reads the ledger, and may run while the ledger's disk is
read-only; and a restored ledger is the one that was copied before.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from semel.ledger.backup.backups import Backup
from semel.ledger.storage.atomic_files import write_atomically
from semel.ledger.storage.errors import LedgerDamaged, LedgerError, NotALedger
from semel.timing.walltime import format_utc

BACKUP_FILE = "last-backup.json"
RESTORE_FILE = "last-restore.json"


@dataclass(frozen=True)
class LastBackup:
    """The last complete backup: its folder, and `at`, when it was made (ms since the Unix epoch)."""

    folder: str
    at: int


@dataclass(frozen=True)
class LastRestore:
    """The last restore. `folder`: the backup; `at`, `restored`: when it was made and when it was put back (in ms)."""

    folder: str
    at: int
    restored: int


def record_backup(data_dir: Path, backup: Backup) -> None:
    """Write down the last backup in the data directory.

    If that fails, ignore it, because the backup itself is complete.
    """
    _write(data_dir / BACKUP_FILE, asdict(LastBackup(str(backup.folder), backup.manifest.at)))


def record_restore(data_dir: Path, backup: Backup, now: int) -> None:
    """Write down that a backup was restored into the data directory. If that fails, ignore it. `now`: in ms."""
    _write(data_dir / RESTORE_FILE, asdict(LastRestore(str(backup.folder), backup.manifest.at, now)))


def read_last_backup(data_dir: Path) -> LastBackup | None:
    """Return the last backup that was made of this data directory's ledger; None if none is recorded."""
    try:
        values = _read(data_dir / BACKUP_FILE)
        return LastBackup(str(values["folder"]), int(values["at"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def read_last_restore(data_dir: Path) -> LastRestore | None:
    """Return the last restore into this data directory; None if none is recorded."""
    try:
        values = _read(data_dir / RESTORE_FILE)
        return LastRestore(str(values["folder"]), int(values["at"]), int(values["restored"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _write(file: Path, values: Mapping[str, object]) -> None:
    with contextlib.suppress(OSError):
        write_atomically(file, json.dumps(values) + "\n")


def _read(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def advise_restore(error: LedgerError) -> str:
    """Return the command that puts the last backup in the place of a damaged ledger; "" if there is none to restore."""
    if not isinstance(error, LedgerDamaged | NotALedger):
        return ""
    last = read_last_backup(Path(error.facts["path"]).parent)
    if last is None or not Path(last.folder).exists():
        return ""
    command = f"semel restore {shlex.quote(last.folder)} --replace"
    return f"to go on from the last backup ({format_utc(last.at)}), stop the gateway and run: {command}"
