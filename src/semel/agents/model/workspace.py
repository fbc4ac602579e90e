"""Confine a model agent's file tools to its workspace.

All symbolic links of a path are resolved, and a path that then lies outside is refused. The file itself is opened
without following links. So a link that replaces the file in the meantime cannot lead outside.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path


class ToolRefused(Exception):
    """A tool call was refused, or cannot be done. The message is a sentence for the model."""


class Workspace:
    """The files in a workspace. It resolves paths as a model writes them: relative to the workspace, or absolute.

    `root`: the workspace's directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def __repr__(self) -> str:
        return f"<Workspace {self.root}>"

    def path(self, written: str) -> Path:
        """Resolve a path that a model wrote.

        Raises ToolRefused if it lies outside the workspace or is not a valid path.
        """
        if "\0" in written:
            raise ToolRefused("a path holds no NUL")
        try:
            real = Path(os.path.realpath(self.root / written))
        except (OSError, ValueError) as error:
            raise ToolRefused(f"{written!r} is not a valid path: {error}") from None
        if not real.is_relative_to(self.root):
            raise ToolRefused(f"{written!r} is outside the workspace {self.root}: only what is inside can be used")
        return real

    def name(self, path: Path) -> str:
        """Return a resolved path in the form that the model sees: relative to the workspace."""
        return str(path.relative_to(self.root)) if path != self.root else "."

    def open(self, written: str) -> tuple[int, os.stat_result]:
        """Open a regular file for reading. Return (file descriptor, status). Raises ToolRefused."""
        path = self.path(written)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ToolRefused(f"{written!r} cannot be read: {error.strerror}") from None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            kind = "a directory: use list" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise ToolRefused(f"{written!r} is {kind}")
        return fd, status

    def write(self, written: str, data: bytes) -> Path:
        """Write a file atomically, and return its resolved path. Raises ToolRefused.

        An existing file keeps its mode. Missing directories are created.
        """
        path = self.path(written)
        mode = 0o666 & ~_umask()
        new_file = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}")
        try:
            if path.is_dir():
                raise ToolRefused(f"{written!r} is a directory")
            if path.exists():
                mode = stat.S_IMODE(path.stat().st_mode)
            path.parent.mkdir(parents=True, exist_ok=True)
            self.path(self.name(path.parent))  # refuse if a directory was replaced by a link meanwhile
            fd = os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            try:
                with os.fdopen(fd, "wb") as file:
                    os.fchmod(fd, mode)
                    file.write(data)
                    file.flush()
                    os.fsync(fd)
                new_file.replace(path)
            except BaseException:
                new_file.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise ToolRefused(f"{written!r} cannot be written: {error.strerror}") from None
        return path


def _umask() -> int:
    """Return the process's umask; 022 where it cannot be read (not Linux). os.umask() would change it for a moment."""
    try:
        with Path("/proc/self/status").open(encoding="ascii") as lines:
            return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
    except (OSError, StopIteration, ValueError):
        return 0o022
