"""Remember the last backup of a ledger in a file in its data directory, so that `semel status` can name it.

The ledger itself does not record it: a backup only reads the ledger, and may run while the ledger's disk is read-only.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path

from semel.ledger.backup.backups import Backup
from semel.ledger.backup.snapshot import format_utc
from semel.ledger.storage.atomic_files import write_atomically
from semel.ledger.storage.errors import LedgerDamaged, LedgerError, NotALedger

FILE = "last-backup.json"


@dataclass(frozen=True)
class LastBackup:
    """The last complete backup: its folder, and `at`, when it was made (ms since the Unix epoch)."""

    folder: str
    at: int


def record_backup(data_dir: Path, backup: Backup) -> None:
    """Write down the last backup in the data directory.

    If that fails, ignore it, because the backup itself is complete.
    """
    last = LastBackup(str(backup.folder), backup.manifest.at)
    with contextlib.suppress(OSError):
        write_atomically(data_dir / FILE, json.dumps(asdict(last)) + "\n")


def read_last_backup(data_dir: Path) -> LastBackup | None:
    """Return the last backup that was made of this data directory's ledger; None if none is recorded."""
    try:
        values = json.loads((data_dir / FILE).read_text("utf-8"))
        return LastBackup(str(values["folder"]), int(values["at"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def advise_restore(error: LedgerError) -> str:
    """Return the command that puts the last backup in the place of a damaged ledger; "" if there is none to restore."""
    if not isinstance(error, LedgerDamaged | NotALedger):
        return ""
    last = read_last_backup(Path(error.facts["path"]).parent)
    if last is None or not Path(last.folder).exists():
        return ""
    command = f"semel restore {shlex.quote(last.folder)} --replace"
    return f"to go on from the last backup ({format_utc(last.at)}), stop the gateway and run: {command}"
