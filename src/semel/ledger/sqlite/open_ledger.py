"""Open a ledger: create its files, check them and migrate them, before any other code uses them."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from semel.ledger.sqlite import mark_file, migrate
from semel.ledger.sqlite.connect import connect, make_durable
from semel.ledger.sqlite.errors import to_ledger_error
from semel.ledger.sqlite.tx import SqliteTx
from semel.ledger.storage.atomic_files import sync_folder
from semel.ledger.storage.errors import (
    LedgerCopying,
    LedgerError,
    LedgerInUse,
    LedgerLost,
    LedgerMissing,
    LedgerMoved,
    LedgerNewer,
    LedgerOlder,
    LedgerPlace,
    LedgerRestoring,
    LedgerUnreadable,
    LogOfAnother,
    OldSqlite,
)
from semel.ledger.storage.migrations import Migration, Upgrade
from semel.ledger.storage.rows import LedgerRow
from semel.ledger.storage.sql import Tx, queries

# Network and host-shared file systems. WAL needs memory shared by all who have the file open, and true locks.
# https://sqlite.org/wal.html, "All processes using a database must be on the same host computer".
_NETWORK_FILE_SYSTEMS = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs", "fuse.gcsfuse",
    "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse", "gfs2", "glusterfs",
    "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb2", "smb3", "smbfs", "vboxsf",
})  # fmt: skip

MOVED_SUFFIX = ".moved"


class Lock:
    """An exclusive lock on a file, held from construction until `release`. The file contains the holder's pid.

    The kernel releases the lock when the process ends, however it ends. The file is never removed, because removing it
    would let two processes hold the lock. If another process holds the lock, the constructor raises `refuse(pid)`.
    """

    def __init__(self, file: Path, refuse: Callable[[str], LedgerError]) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
                raise refuse(holder or "unknown") from None
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(self._file)
            raise

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def lock_ledger(ledger: Path) -> Lock:
    """Lock a ledger for this process, and return the lock. Raises LedgerInUse, because one ledger has one gateway."""
    return Lock(Path(f"{ledger}.lock"), lambda pid: LedgerInUse(path=ledger, pid=pid))


def find_holder(ledger: Path) -> int | None:
    """Return the pid of the process that holds a ledger's lock. None also where only a try to lock it would tell.

    The lock is not tried: a gateway that starts at that moment would be refused.
    """
    lock = Path(f"{ledger}.lock")
    try:
        pid = int(lock.read_text())
        is_open = any(file.exists() and file.samefile(lock) for file in Path(f"/proc/{pid}/fd").iterdir())
    except (OSError, ValueError):
        return None
    return pid if is_open else None


@dataclass(frozen=True)
class OpenedLedger:
    """A ledger that is open for writing and has the newest schema version.

    `was_whole`: there was no write-ahead log, so the database file held every change.
    """

    path: Path
    db: apsw.Connection
    lock: Lock | None
    was_whole: bool


def open_for_writing(
    path: Path,
    *,
    exclusive: bool,
    clock: Callable[[], int],
    migrations: Sequence[Migration],
    vfs: str | None = None,
    announce: Callable[[Upgrade], object] | None = None,
    may_be_moved: bool = False,
) -> OpenedLedger:
    """Create or open a ledger, check it, migrate it to the newest of `migrations`, and return it.

    `exclusive`: hold the gateway's lock. `announce` is called before an older ledger is changed. `may_be_moved`: open
    it even if a copy has taken its place. Raises the errors in the first section of `semel.ledger.storage.errors`.
    """
    refuse_old_sqlite(apsw.sqlite_lib_version())
    path = path.expanduser().resolve()  # two paths of one ledger must share one lock
    lock: Lock | None = None
    db: apsw.Connection | None = None
    try:
        make_folder(path.parent)
        refuse_network_file_system(path.parent)
        lock = lock_ledger(path) if exclusive else None
        refuse_unfinished(path)
        if not may_be_moved:  # looked at under the lock, which the program that copies holds until it is marked
            refuse_moved(path)
        refuse_lost_ledger(path)
        refuse_log_of_another(path)
        was_whole = mark_file.identify_log(path) == ""
        _make_file(path)
        db = connect(path, vfs=vfs)
        prepare_ledger(db, path, migrations, clock(), announce)
        return OpenedLedger(path, db, lock, was_whole)
    except BaseException as error:
        ledger_error = to_ledger_error(error, path, db.system_errno if db else 0)
        if db is not None:
            db.close()
        if lock is not None:
            lock.release()
        if ledger_error is error:
            raise
        raise ledger_error from error


def restoring_flag_path(ledger: Path) -> Path:
    """Return the path of the file that exists while a restore replaces the ledger (`semel.ledger.backup.restore`)."""
    return ledger.with_name(f"{ledger.name}.restoring")


def copying_flag_path(ledger: Path) -> Path:
    """Return the path of the file that exists while a ledger is copied to here (`semel.ledger.sqlite.transfer`)."""
    return ledger.with_name(f"{ledger.name}.copying")


def moved_note_path(ledger: Path) -> Path:
    """Return the path of the file that names the copy of this ledger which has taken its place, if there is one."""
    return ledger.with_name(f"{ledger.name}{MOVED_SUFFIX}")


def refuse_unfinished(ledger: Path) -> None:
    """Raise LedgerRestoring while a restore replaces the ledger: its files may be those of two ledgers.

    Raise LedgerCopying while the ledger is copied to here: a gateway would begin an empty one.
    """
    if restoring_flag_path(ledger).exists():
        raise LedgerRestoring(path=ledger)
    if copying_flag_path(ledger).exists():
        raise LedgerCopying(path=ledger)


def read_moved_to(ledger: Path) -> str | None:
    """Return the copy of this ledger that has taken its place; None if none has."""
    try:
        return moved_note_path(ledger).read_text("utf-8").strip()
    except FileNotFoundError:
        return None


def refuse_moved(ledger: Path) -> None:
    """Raise LedgerMoved if a copy of this ledger has taken its place: both would send the same messages (Law 14)."""
    target = read_moved_to(ledger)
    if target is not None:
        raise LedgerMoved(path=ledger, target=target)


def read_own_mark(tx: Tx) -> mark_file.LedgerMark:
    """Return the mark that the ledger itself stores: its name, incarnation and number of commits."""
    row = tx.get(LedgerRow, "ledger_get")
    return mark_file.LedgerMark(row.name, row.incarnation, row.commits)


def refuse_lost_ledger(path: Path) -> None:
    """Raise LedgerLost if the database file is missing or empty, but a mark file says that there was a ledger.

    Call this before SQLite opens the ledger. SQLite would begin an empty ledger and delete the log of the lost one.
    Then everything accepted before would be lost silently, and accepted again (Laws 1, 12, 14).
    """
    if mark_file.read_mark(path) is None:
        return
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        size = 0
    if size == 0:
        raise LedgerLost(path=path)


def refuse_log_of_another(path: Path) -> None:
    """Raise LogOfAnother if the write-ahead log does not belong to the database file.

    Call this before the ledger is opened for writing, because that changes both files. The database file is behind
    where the log began, if it is an older copy; the mark file tells that, unless it names another log or none. The
    file is ahead of where the log ends, if it is a copy that went on elsewhere: a log is complete and synced before
    any of it is written into the file. Nothing is refused if the file cannot be read without its log (a new ledger is
    all in its log).
    """
    log = mark_file.identify_log(path)
    file_mark = _read_mark_in(f"file:{quote(str(path))}?immutable=1") if log else None
    if file_mark is None:
        return
    known_mark = mark_file.read_mark(path)
    if known_mark is not None and known_mark.log == log:
        is_other = file_mark.ledger != known_mark.ledger
        if is_other or file_mark.position < known_mark.base:
            raise LogOfAnother(path=path)
    end_mark = _read_mark_in(f"file:{quote(str(path))}")
    if end_mark is not None and file_mark.ledger == end_mark.ledger and file_mark.is_ahead_of(end_mark):
        raise LogOfAnother(path=path)


def _read_mark_in(uri: str) -> mark_file.LedgerMark | None:
    """Return the mark that the ledger with this URI stores, without changing it; None if it cannot be read."""
    try:
        db = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            return read_own_mark(SqliteTx(db.cursor(), queries(), 0))
        finally:
            db.close()
    except (apsw.Error, AssertionError, ValueError, TypeError):
        return None


def prepare_ledger(
    db: apsw.Connection,
    path: Path,
    migrations: Sequence[Migration],
    now: int,
    announce: Callable[[Upgrade], object] | None = None,
) -> None:
    """Make an open file a ledger of the newest version. `now` (ms) is the creation time of a new ledger.

    A file that is no ledger, or too new, is refused with an error and stays unchanged.
    """
    migrate.read_version(db, path)
    make_durable(db, path)
    migrate.migrate_to_newest(db, migrations, queries(), path, name=secrets.token_hex(8), now=now, announce=announce)
    # A write without effect: a full or read-only disk fails here instead of at the first message.
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA user_version = {migrations[-1].version}")
    db.execute("COMMIT")


def check_readable(path: Path, known_version: int) -> Path:
    """Check that a ledger can be read, whether or not a gateway uses it.

    Return its resolved path. Raises LedgerError. `known_version`: the schema version that this Semel reads. Nothing is
    created, locked or migrated.
    """
    refuse_old_sqlite(apsw.sqlite_lib_version())
    path = path.expanduser().resolve()
    try:
        refuse_unfinished(path)
        refuse_lost_ledger(path)
        is_missing = not path.exists()
    except PermissionError as error:
        raise LedgerUnreadable(path=path, why=error.strerror) from None
    if is_missing:
        raise LedgerMissing(path=path)
    refuse_log_of_another(path)
    file_version = _read_file_version(path)
    if file_version == 0:
        raise LedgerMissing(path=path)
    if file_version != known_version:
        raise (LedgerNewer if file_version > known_version else LedgerOlder)(
            path=path, found=file_version, known=known_version
        )
    return path


def _read_file_version(path: Path) -> int:
    errno = 0
    try:
        db = connect(path, readonly=True)
        try:
            return migrate.read_version(db, path)
        finally:
            errno = db.system_errno
            db.close()
    except apsw.Error as error:
        raise to_ledger_error(error, path, errno) from error


def make_folder(folder: Path) -> None:
    """Create a folder for its owner only. Sync its parent, so that the new folder survives a power failure."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def _make_file(path: Path) -> None:
    """Create an empty file that only its owner can read. SQLite later gives -wal and -shm the same mode.

    An existing file is not opened here: closing a plain descriptor of an open ledger would drop SQLite's locks on it
    (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass


def refuse_old_sqlite(version: str) -> None:
    """Raise OldSqlite for a SQLite version in which two connections that write and checkpoint can corrupt the log.

    The bug is in 3.7.0 to 3.51.2, except for the back-ports 3.50.7 and 3.44.6 (https://sqlite.org/wal.html, "the
    WAL-reset bug").
    """
    number = tuple(int(part) for part in version.split(".")[:3])
    fixed = number >= (3, 51, 3) or (3, 50, 7) <= number < (3, 51) or (3, 44, 6) <= number < (3, 45)
    if not fixed:
        raise OldSqlite(version=version)


def refuse_network_file_system(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Raise LedgerPlace if the folder is on a network file system.

    This check works only on Linux; elsewhere SQLite itself must refuse such a file system.
    """
    kind = file_system_type(folder, mounts)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise LedgerPlace(path=folder, place=f"a shared file system ({kind})")


def file_system_type(folder: Path, mounts: Path) -> str:
    """Return the type of the file system that contains a folder; "" if it is unknown.

    `mounts`: a file in the format of proc_pid_mountinfo(5).
    """
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    longest, kind, folder = -1, "", folder.resolve()
    for line in lines:
        fields, _, description = line.partition(" - ")
        mount_point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields.split(" ")[4])
        if len(mount_point) >= longest and folder.is_relative_to(mount_point):  # a later mount covers an earlier one
            longest, kind = len(mount_point), description.split(" ")[0]
    return kind
