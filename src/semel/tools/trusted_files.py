"""Check that a file or directory is ours before it is trusted: another user may have planted it.

A file is ours if it belongs to us or to root and nobody else may write to it. Files are checked through the open
descriptor (fstat), so the file that is checked is the one that is read.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from pathlib import Path


class UntrustedFile(OSError):
    """The file or directory may have been put there by another user. The message says what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EPERM, reason)

    def __str__(self) -> str:
        return self.strerror or ""


def trusted_uids() -> tuple[int, int]:
    """Return the uids whose files we trust: our own and root's."""
    return os.geteuid(), 0


def format_user(uid: int) -> str:
    """Format a user for a message: name and uid, or only the uid if it has no name."""
    name = _name_user(uid)
    return f"uid {uid}" if name.startswith("#") else f"{name}, uid {uid}"


def _name_user(uid: int) -> str:
    """Return the name of a user, or `#uid`, which sudo takes for one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"


def check_directory(path: Path, *, link: bool = False) -> None:
    """Check that a directory is ours. `link`: the path may be a symbolic link to it.

    Raises UntrustedFile, or another OSError if it is missing or not a directory.
    """
    status = _stat_directory(path, link)
    _check_owner(path, status, trusted_uids())
    _check_mode(path, status)


def make_directory(path: Path, *, link: bool = False) -> None:
    """Create a directory if it is missing, check that it belongs to this user (not root), and make it mode 0700.

    Raises UntrustedFile or another OSError.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = _stat_directory(path, link)
    _check_owner(path, status, (os.geteuid(),))
    if status.st_mode & 0o077:
        path.chmod(0o700)


def read_file(path: Path, *, link: bool = False) -> bytes:
    """Read a regular file that is ours. Raises UntrustedFile, or another OSError if it cannot be read."""
    with os.fdopen(open_file(path, link=link), "rb") as file:
        return file.read()


def open_file(path: Path, *, link: bool = False) -> int:
    """Open a regular file that is ours for reading; returns the descriptor. Raises UntrustedFile or another OSError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if link else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _make_link_error(path) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedFile(f"{path} is not a regular file and is not used")
        _check_owner(path, status, trusted_uids())
        _check_mode(path, status)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _stat_directory(path: Path, link: bool) -> os.stat_result:
    status = path.stat() if link else path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise _make_link_error(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return status


def _make_link_error(path: Path) -> UntrustedFile:
    return UntrustedFile(f"{path} is a link and is not used: put there what it leads to")


def _check_owner(path: Path, status: os.stat_result, allowed_uids: tuple[int, ...]) -> None:
    if status.st_uid not in allowed_uids:
        option = "-R " if stat.S_ISDIR(status.st_mode) else ""
        raise UntrustedFile(
            f"{path} belongs to another user ({format_user(status.st_uid)}) and is not used. Run this as that user "
            f"(sudo -H -u {_name_user(status.st_uid)} ...), name one of your own, or make it yours if that user's "
            f"gateway does not need it: chown {option}{os.geteuid()} {path}"
        )


def _check_mode(path: Path, status: os.stat_result) -> None:
    if status.st_mode & 0o022:
        raise UntrustedFile(
            f"{path} can be written by other users and is not used: what is there may be theirs. "
            f"If you know that it is yours: chmod go-w {path}"
        )
