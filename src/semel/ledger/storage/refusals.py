"""Checks before a ledger is opened, and the one mapping of SQLite's and the system's errors to Semel's."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path

import apsw

from semel.ledger.storage.errors import (
    LedgerBusy,
    LedgerDamaged,
    LedgerError,
    LedgerFailed,
    LedgerFull,
    LedgerPlace,
    LedgerReadOnly,
    NotALedger,
    OldSqlite,
)

# Network and host-shared file systems. WAL needs memory shared by all who have the file open, and true locks.
# https://sqlite.org/wal.html, "All processes using a database must be on the same host computer".
_REMOTE = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs", "fuse.gcsfuse",
    "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse", "gfs2", "glusterfs",
    "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb2", "smb3", "smbfs", "vboxsf",
})  # fmt: skip
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def refuse_old_sqlite(version: str) -> None:
    """Raises OldSqlite where two connections that write and checkpoint can corrupt the log (3.7.0 to 3.51.2).

    Back-ports of the fix: 3.50.7 and 3.44.6. https://sqlite.org/wal.html, "the WAL-reset bug".
    """
    number = tuple(int(part) for part in version.split(".")[:3])
    fixed = number >= (3, 51, 3) or (3, 50, 7) <= number < (3, 51) or (3, 44, 6) <= number < (3, 45)
    if not fixed:
        raise OldSqlite(version=version)


def refuse_place(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Raise LedgerPlace for a network file system. Only Linux is checked; elsewhere SQLite itself must object."""
    kind = file_system(folder, mounts)
    if kind in _REMOTE:
        raise LedgerPlace(path=folder, place=f"a shared file system ({kind})")


def file_system(folder: Path, mounts: Path) -> str:
    """The type of the file system a folder lies on, "" if unknown. Format: proc_pid_mountinfo(5)."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields.split(" ")[4])
        if len(point) >= best and folder.resolve().is_relative_to(point):  # a later mount covers an earlier one
            best, kind = len(point), rest.split(" ")[0]
    return kind


def failure(fault: BaseException, path: Path, system: int = 0) -> BaseException:
    """The error to raise for this fault. A fault that is not the storage's is returned unchanged.

    `system` is the operating system's error number that SQLite recorded (0: none).
    """
    if isinstance(fault, OSError):
        system = fault.errno or 0
    elif not isinstance(fault, apsw.Error) or isinstance(fault, LedgerError):
        return fault
    if isinstance(fault, apsw.FullError) or (_is_io(fault) and system in _NO_SPACE):
        kind: type[LedgerError] = LedgerFull
    elif isinstance(fault, apsw.BusyError):
        kind = LedgerBusy
    elif isinstance(fault, apsw.CorruptError):
        kind = LedgerDamaged
    elif isinstance(fault, apsw.NotADBError):
        kind = NotALedger
    elif isinstance(fault, apsw.ReadOnlyError) or (_is_io(fault) and system in _FORBIDDEN):
        kind = LedgerReadOnly
    elif isinstance(fault, (OSError, apsw.IOError, apsw.CantOpenError, apsw.NoMemError, apsw.InterruptError)):
        kind = LedgerFailed
    else:
        return fault
    error = kind(path=path, why=_why(fault, system))
    error.__cause__ = fault
    return error


def _is_io(fault: BaseException) -> bool:
    return isinstance(fault, (OSError, apsw.IOError, apsw.CantOpenError))


def _why(fault: BaseException, system: int) -> str:
    if isinstance(fault, OSError):
        return fault.strerror or str(fault)
    told = f"SQLite: {fault}"
    return f"{told}, {os.strerror(system)}" if system and _is_io(fault) else told


def place_without_wal(path: Path, mode: str) -> LedgerPlace:
    """The error for a file system where SQLite cannot use a write-ahead log."""
    return LedgerPlace(path=path, place=f"a file system that allows only journal mode {mode} ({sys.platform})")
