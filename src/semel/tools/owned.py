"""Whether a file or a directory is ours: what another user could have put there is neither believed nor changed.

Ours is what belongs to us (or to root) and what nobody else may write to. What is read is looked at by its descriptor,
so that it is the very file that was looked at.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from pathlib import Path


class NotOurs(OSError):
    """What is there may be another user's doing. The message says what to do."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, why)

    def __str__(self) -> str:
        return self.strerror or ""


def trusted() -> tuple[int, int]:
    """The users whose doing we believe: we ourselves, and root."""
    return os.geteuid(), 0


def named(uid: int) -> str:
    """A user as people know it."""
    try:
        return f"{pwd.getpwuid(uid).pw_name}, uid {uid}"
    except KeyError:
        return f"uid {uid}"


def folder(path: Path, *, link: bool = False) -> None:
    """A directory in which others change nothing. `link`: the path may be a link to it.

    Raises NotOurs, or OSError where it is none.
    """
    found = _directory(path, link)
    _check_owner(path, found, trusted())
    _check_mode(path, found)


def make(path: Path, *, link: bool = False) -> None:
    """The same, made where it is missing, of this very user, and closed to all others. Raises like `folder`."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = _directory(path, link)
    _check_owner(path, found, (os.geteuid(),))
    if found.st_mode & 0o077:
        path.chmod(0o700)


def read(path: Path, *, link: bool = False) -> bytes:
    """What is in a regular file. Raises NotOurs, or OSError where it cannot be read."""
    with os.fdopen(open_file(path, link=link), "rb") as file:
        return file.read()


def open_file(path: Path, *, link: bool = False) -> int:
    """A descriptor of it, to read. Raises like `read`."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if link else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _a_link(path) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotOurs(f"{path} is no regular file and is not used")
        _check_owner(path, found, trusted())
        _check_mode(path, found)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _directory(path: Path, link: bool) -> os.stat_result:
    found = path.stat() if link else path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise _a_link(path)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return found


def _a_link(path: Path) -> NotOurs:
    return NotOurs(f"{path} is a link and is not used: put there what it leads to")


def _check_owner(path: Path, found: os.stat_result, users: tuple[int, ...]) -> None:
    if found.st_uid not in users:
        every = "-R " if stat.S_ISDIR(found.st_mode) else ""
        raise NotOurs(
            f"{path} belongs to another user ({named(found.st_uid)}) and is not used. Run this as that user, name one "
            f"of your own, or make it yours: chown {every}{os.geteuid()} {path}"
        )


def _check_mode(path: Path, found: os.stat_result) -> None:
    if found.st_mode & 0o022:
        raise NotOurs(
            f"{path} can be written by other users and is not used: what is there may be theirs. "
            f"If you know that it is yours: chmod go-w {path}"
        )
