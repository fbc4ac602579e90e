"""Confine a model agent's file tools to its workspace.

A path is resolved with all its symbolic links and refused if it lies outside. The file itself is then opened without
following links, so a link that replaces it in between cannot lead outside.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path


class ToolRefused(Exception):
    """A tool call was refused or cannot be done; the message is a sentence for the model."""


class Workspace:
    """Paths as a model writes them, relative to the workspace or absolute inside it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def __repr__(self) -> str:
        return f"<Workspace {self.root}>"

    def path(self, told: str) -> Path:
        """Resolve a path. Raises ToolRefused if it lies outside the workspace or is not a valid path."""
        if "\0" in told:
            raise ToolRefused("a path holds no NUL")
        try:
            real = Path(os.path.realpath(self.root / told))
        except (OSError, ValueError) as error:
            raise ToolRefused(f"{told!r} is no path: {error}") from None
        if not real.is_relative_to(self.root):
            raise ToolRefused(f"{told!r} is outside the workspace {self.root}: only what is inside can be used")
        return real

    def name(self, path: Path) -> str:
        """The path as shown to the model: relative to the workspace."""
        return str(path.relative_to(self.root)) if path != self.root else "."

    def open(self, told: str) -> tuple[int, os.stat_result]:
        """Open a regular file for reading; returns (descriptor, status). Raises ToolRefused."""
        path = self.path(told)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ToolRefused(f"{told!r} cannot be read: {error.strerror}") from None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            what = "a directory: use list" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise ToolRefused(f"{told!r} is {what}")
        return fd, status

    def write(self, told: str, data: bytes) -> Path:
        """Replace a file atomically, keeping its mode, and make missing directories. Raises ToolRefused."""
        path = self.path(told)
        mode = 0o666 & ~_umask()
        fresh = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}")
        try:
            if path.is_dir():
                raise ToolRefused(f"{told!r} is a directory")
            if path.exists():
                mode = stat.S_IMODE(path.stat().st_mode)
            path.parent.mkdir(parents=True, exist_ok=True)
            self.path(self.name(path.parent))  # refuse if a directory was replaced by a link meanwhile
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
            raise ToolRefused(f"{told!r} cannot be written: {error.strerror}") from None
        return path


def _umask() -> int:
    """The process's umask, read without changing it (os.umask() would, for a moment). Not on Linux: 022."""
    try:
        with Path("/proc/self/status").open(encoding="ascii") as lines:
            return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
    except (OSError, StopIteration, ValueError):
        return 0o022
