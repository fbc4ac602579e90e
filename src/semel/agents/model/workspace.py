"""The workspace: where a model agent's file tools may read and write, and nowhere else.

A path is resolved with all its symbolic links; what ends outside is refused. The file itself is opened without
following a link, so that one which is put there in between leads nowhere.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path


class Refused(Exception):
    """What a tool may or can not do, in words for the model."""


class Workspace:
    """Paths as a model writes them, relative to the workspace or absolute inside it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def __repr__(self) -> str:
        return f"<Workspace {self.root}>"

    def path(self, told: str) -> Path:
        """The real path. Raises Refused if it lies outside, or cannot be one."""
        if "\0" in told:
            raise Refused("a path holds no NUL")
        try:
            real = Path(os.path.realpath(self.root / told))
        except (OSError, ValueError) as error:
            raise Refused(f"{told!r} is no path: {error}") from None
        if not real.is_relative_to(self.root):
            raise Refused(f"{told!r} is outside the workspace {self.root}: only what is inside can be used")
        return real

    def name(self, path: Path) -> str:
        """As the model is told it: relative to the workspace."""
        return str(path.relative_to(self.root)) if path != self.root else "."

    def open(self, told: str) -> tuple[int, os.stat_result]:
        """A regular file, for reading: (descriptor, status). Raises Refused."""
        path = self.path(told)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise Refused(f"{told!r} cannot be read: {error.strerror}") from None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            what = "a directory: use list" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise Refused(f"{told!r} is {what}")
        return fd, status

    def write(self, told: str, data: bytes) -> Path:
        """The whole file, at once or not at all; one that was there keeps its mode. Raises Refused."""
        path = self.path(told)
        mode = 0o666 & ~_umask()
        fresh = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}")
        try:
            if path.is_dir():
                raise Refused(f"{told!r} is a directory")
            if path.exists():
                mode = stat.S_IMODE(path.stat().st_mode)
            path.parent.mkdir(parents=True, exist_ok=True)
            self.path(self.name(path.parent))  # it is inside still
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            try:
                with os.fdopen(fd, "wb") as file:
                    os.fchmod(fd, mode)
                    file.write(data)
                    file.flush()
                    os.fsync(fd)
                fresh.replace(path)
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise Refused(f"{told!r} cannot be written: {error.strerror}") from None
        return path


def _umask() -> int:
    """What the process was started with, without a moment in which it is another one (Linux; elsewhere the usual)."""
    try:
        with Path("/proc/self/status").open(encoding="ascii") as lines:
            return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
    except (OSError, StopIteration, ValueError):
        return 0o022
