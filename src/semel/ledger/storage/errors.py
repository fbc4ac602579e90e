"""Errors of the ledger. Each engine maps the errors of its database and of the system to them.

The docstring of each class is the message that users see. It includes the next step to take.
"""

from __future__ import annotations

import errno
import inspect
from typing import Any

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class LedgerError(Exception):
    """The ledger at {path} failed: {why}"""

    def __init__(self, **facts: Any) -> None:
        super().__init__(self._template().format(**facts))
        self.facts = facts

    def format_without_path(self) -> str:
        """Return the message without the ledger's path, for those who may not know it."""
        return (
            self._template()
            .replace("The ledger {path}", "The ledger")
            .replace("database {path}", "database")
            .format(**self.facts | {"path": "the ledger"})
        )

    @classmethod
    def _template(cls) -> str:
        return inspect.cleandoc(cls.__doc__ or "").replace("\n", " ")


# ---------------------------------------------------------------- when a ledger is opened


class OldSqlite(LedgerError):
    """SQLite {version} can corrupt a write-ahead log (fixed in 3.51.3, 3.50.7 and 3.44.6).
    Run: pip install --upgrade 'apsw>=3.54'"""


class EngineMissing(LedgerError):
    """The ledger {path} is in PostgreSQL, for which psycopg is needed. Run: pip install 'psycopg[binary]>=3.3'"""


class LedgerInUse(LedgerError):
    """The ledger {path} belongs to a running gateway (pid {pid}). One ledger has one gateway:
    use that one, stop it first, or give this one another data_dir."""


class LedgerMissing(LedgerError):
    """There is no ledger at {path}. It is made by the first 'semel up'; check data_dir if it should exist."""


class NotALedger(LedgerError):
    """{path} is not a Semel ledger ({why}); it was left as it is.
    Move it away, or point data_dir elsewhere."""


class LedgerUnreachable(LedgerError):
    """The ledger {path} cannot be reached ({why}). It may be tried again."""


class LedgerNewer(LedgerError):
    """The ledger {path} has version {found}; this Semel knows versions up to {known}. Run the newer Semel."""


class LedgerOlder(LedgerError):
    """The ledger {path} has version {found}; this Semel reads version {known}.
    Start the gateway once ('semel up'), or restart it if it runs: that upgrades the ledger. To back it up before that,
    run the command 'backup' of the older Semel that wrote it."""


class LedgerReadOnly(LedgerError):
    """The ledger {path} cannot be written ({why}). Check the owner and mode of the file and of its directory,
    and that the file system is not mounted read-only."""


class LedgerUnreadable(LedgerError):
    """The ledger {path} cannot be read by this user ({why}). Run this as the user who runs the gateway
    (sudo -u NAME ...)."""


class LedgerPlace(LedgerError):
    """The ledger {path} lies on {place}, where SQLite's shared memory and locks do not hold.
    Put data_dir on a local disk."""


class LedgerLost(LedgerError):
    """The ledger {path} is missing or empty, but the mark beside it says that there was one. Nothing was changed.
    Put the file back that was there, or restore a backup with 'semel restore'. Keep {path}-wal if it exists: it may
    hold the only copy of what was accepted last. To begin an empty ledger instead, move {path}.mark to another folder,
    too."""


class LogOfAnother(LedgerError):
    """The log {path}-wal does not belong to the file {path}: it goes on from another state of the ledger.
    Somebody put this file beside the log of a gateway that was killed, or copied the two at different times. Together
    they would be a damaged ledger; nothing was changed. To start from this file, move {path}-wal and {path}-shm
    to another folder and keep them: the ledger is then treated as restored.
    To start from the newest state, put the file back that was there before."""


class MigrationFailed(LedgerError):
    """The ledger {path} could not be upgraded from version {found} to version {wanted} ({why}).
    It is unchanged: go on with the Semel that wrote it, and report this."""


class UpgradeNotCopied(LedgerError):
    """The ledger {path} was not upgraded from version {found} to version {wanted}, because no copy of it could be kept
    first ({why}). It is unchanged. Free some space beside it and start again, or go on with the Semel that wrote it."""


# ---------------------------------------------------------------- while a ledger is in use


class LedgerFailed(LedgerError):
    """The disk under the ledger {path} failed ({why}). This write was not accepted and may be tried again.
    See the system log and 'semel doctor'."""


class LedgerFull(LedgerFailed):
    """There is no space left for the ledger {path} ({why}). This write was not accepted; nothing that was
    accepted is lost. Free some space: writing goes on by itself."""


class LedgerFileLimit(LedgerFull):
    """The ledger {path} has reached the size that a file may have here ({why}). This write was not accepted; nothing
    that was accepted is lost. Raise the limit on the size of files ('ulimit -f'; of a service, LimitFSIZE=), and
    restart the gateway."""


class LedgerBusy(LedgerFailed):
    """Another program keeps the ledger {path} locked for writing ({why}). This write was not accepted.
    Close database browsers and shells that have it open."""


class LedgerDamaged(LedgerFailed):
    """The ledger {path} is damaged ({why}). Stop the gateway, copy the file with its -wal,
    and restore a backup ('semel restore DIR --replace') or run the sqlite3 shell's .recover on the copy."""


class LedgerClosed(LedgerError):
    """The ledger {path} is closed: the gateway is stopping. What was accepted is safe;
    try again after the next start."""


# ---------------------------------------------------------------- backup and restore


class BackupFailed(LedgerError):
    """The backup into {folder} failed ({why}). Nothing of it was kept; earlier backups are as they were."""


class BackupFolderDenied(BackupFailed):
    """This user may not write the folder for backups, {folder} ({why}). Name a folder that this user may write, outside
    the data directory ('semel backup DIR'), or let root make this one: install -d -m 700 -o {name} {target}"""


class BackupFull(BackupFailed):
    """There is no space left in {folder} ({why}). Nothing of this backup was kept; earlier backups are as they were.
    Free some space there, or choose another folder."""


class BackupOfAnother(LedgerError):
    """{folder} holds backups of another ledger ({ledger}). Choose another folder for this one."""


class BackupFolderInUse(LedgerError):
    """{folder} is neither empty nor a folder of backups. Choose another folder, or a new one inside it."""


class BackupRuns(LedgerError):
    """Another backup into {folder} runs (pid {pid}). Wait until it is done, or choose another folder."""


class NoBackup(LedgerError):
    """{folder} holds no complete backup ({why}). Name a folder that 'semel backup' wrote, or one backup in it."""


class BackupDamaged(LedgerError):
    """The backup {folder} is damaged: {why}. Nothing was changed.
    If the same folder holds another backup, restore that one."""


class LedgerThere(LedgerError):
    """There is a ledger at {path} already; nothing was changed. To replace it (the old one is kept beside it), run:
    semel restore --replace {folder}"""


class RestoreFailed(LedgerError):
    """The backup could not be restored into {folder} ({why}). Fix that, then run the same command again."""


class LedgerRestoring(LedgerError):
    """A restore of the ledger {path} is not finished. If none runs, run the same 'semel restore' command again."""


class BackupNewer(LedgerError):
    """The backup {folder} was made by a newer Semel ({found}). Nothing was changed. Restore it with that version."""


# ---------------------------------------------------------------- copies to another engine or place


class LedgerCopying(LedgerError):
    """The copy of a ledger to {path} is not finished. If none runs, run the same 'semel ledger copy' command again.
    To give the copy up, remove {path}.new and then {path}.copying."""


class LedgerMoved(LedgerError):
    """The ledger {path} was copied to {target}, which takes its place: let [ledger] url name that one. Nothing is sent
    from here any more, because both would send the same messages. To move back, stop the gateway and copy the ledger
    back with 'semel ledger copy'. If the copy will never be used again, 'semel restore --here' takes this ledger back
    and treats it as restored."""


class CopyTargetInUse(LedgerError):
    """There is a ledger at {path} already, or what is left of one ({why}); nothing was changed. Choose another place,
    or move the files there whose names begin with {name} to another folder."""


class CopySourceBroken(LedgerError):
    """The ledger {path} breaks these books: {broken}. Nothing was copied. 'semel doctor --laws' shows the rows."""


class CopyFailed(LedgerError):
    """The ledger {path} could not be copied to {target} ({why}). No row of it was changed, and no gateway
    starts on the copy. Fix that, then run the same command again: it begins anew."""
