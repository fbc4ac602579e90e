"""Map errors of SQLite and the system to the ledger's errors."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import apsw

from semel.ledger.storage.errors import (
    NO_SPACE,
    LedgerBusy,
    LedgerDamaged,
    LedgerError,
    LedgerFailed,
    LedgerFileLimit,
    LedgerFull,
    LedgerPlace,
    LedgerReadOnly,
    NotALedger,
)

_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def to_ledger_error(fault: BaseException, path: Path, system_errno: int = 0) -> BaseException:
    """Return the LedgerError to raise for `fault`. Return `fault` itself if the storage did not cause it.

    `system_errno`: the error number of the operating system, as SQLite recorded it; 0 if there is none.
    """
    if isinstance(fault, OSError):
        system_errno = fault.errno or 0
    elif not isinstance(fault, apsw.Error) or isinstance(fault, LedgerError):
        return fault
    if _is_io(fault) and system_errno == errno.EFBIG:
        error_class: type[LedgerError] = LedgerFileLimit
    elif isinstance(fault, apsw.FullError) or (_is_io(fault) and system_errno in NO_SPACE):
        error_class = LedgerFull
    elif isinstance(fault, apsw.BusyError):
        error_class = LedgerBusy
    elif isinstance(fault, apsw.CorruptError):
        error_class = LedgerDamaged
    elif isinstance(fault, apsw.NotADBError):
        error_class = NotALedger
    elif isinstance(fault, apsw.ReadOnlyError) or (_is_io(fault) and system_errno in _FORBIDDEN):
        error_class = LedgerReadOnly
    elif isinstance(fault, (OSError, apsw.IOError, apsw.CantOpenError, apsw.NoMemError, apsw.InterruptError)):
        error_class = LedgerFailed
    else:
        return fault
    ledger_error = error_class(path=path, why=_describe_cause(fault, system_errno))
    ledger_error.__cause__ = fault
    return ledger_error


def _is_io(error: BaseException) -> bool:
    return isinstance(error, (OSError, apsw.IOError, apsw.CantOpenError))


def _describe_cause(error: BaseException, system_errno: int) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    message = f"SQLite: {error}"
    return f"{message}, {os.strerror(system_errno)}" if system_errno and _is_io(error) else message


def wal_unsupported_error(path: Path, mode: str) -> LedgerPlace:
    """Return the error for a file system on which SQLite uses the journal mode `mode` instead of a write-ahead log."""
    return LedgerPlace(path=path, place=f"a file system that allows only journal mode {mode} ({sys.platform})")
