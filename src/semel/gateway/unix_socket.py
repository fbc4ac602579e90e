"""The gateway's unix socket: its path, and a listener that only the gateway's user can reach.

The socket has mode 0600 in a directory of mode 0700 that belongs to the gateway's user. So every process that listens
or connects there belongs to that user (or root), and no further authentication is needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import sys
import tempfile
from pathlib import Path

from semel.text.write_errors import advise_on_write_error

MAX_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""The maximum length of a unix socket's path in bytes (unix(7): with the NUL, 108 on Linux and 104 on the BSDs)."""

BACKLOG = 512


class SocketRefused(OSError):
    """The gateway cannot listen at that path. The message says what to do."""


def socket_path(data_dir: Path) -> Path:
    """Return the socket path of the gateway with this data directory.

    It is inside the data directory or, if that path is too long for a unix socket, in a private directory of this user
    under $XDG_RUNTIME_DIR or the temporary directory.
    """
    path = data_dir.resolve() / "gateway.sock"
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        return path
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    name = hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()
    return Path(base) / f"semel-{os.getuid()}" / f"{name}.sock"


class UnixListener:
    """A listening socket at `path`.

    It is bound under another name, restricted to its owner, and renamed once it listens. So a client never finds a
    socket that is not ready, and the socket of a dead gateway is replaced atomically.
    """

    def __init__(self, path: Path) -> None:
        """Listen at `path`.

        Raises SocketRefused if the path is too long, in use by a live gateway, or not this user's.
        """
        _make_private(path.parent)
        _check_unused(path)
        draft = path.with_name(f".{os.getpid()}")
        for name in (path, draft):
            if len(os.fsencode(name)) > MAX_PATH_BYTES:
                raise SocketRefused(
                    f"{name} is too long for a unix socket ({MAX_PATH_BYTES} bytes); use a shorter data_dir, "
                    "or set TMPDIR to a folder with a short path"
                )
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            draft.unlink(missing_ok=True)
            self.socket.bind(os.fspath(draft))
            draft.chmod(0o600)
            self.socket.listen(BACKLOG)
            draft.rename(path)
            status = path.lstat()
        except OSError as error:
            self.socket.close()
            advice = advise_on_write_error(error)
            raise SocketRefused(f"cannot listen at {path}: {error.strerror}.{advice and f' {advice}'}") from error
        self.socket.setblocking(False)
        self._inode = (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Close the socket. Remove its file if the file still belongs to this listener.

        A gateway that stops late must not remove the socket of its successor.
        """
        self.socket.close()
        with contextlib.suppress(OSError):
            present = self.path.lstat()
            if (present.st_dev, present.st_ino) == self._inode:
                self.path.unlink()


def _make_private(directory: Path) -> None:
    """Create the directory if needed, and close it to other users.

    Raises SocketRefused if it belongs to another user.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise SocketRefused(f"{directory} must be a directory of this user; move it away or change data_dir")
        if status.st_mode & 0o077:
            directory.chmod(0o700)
    except SocketRefused:
        raise
    except OSError as error:
        raise SocketRefused(
            f"cannot use {directory}: {error.strerror}. {advise_on_write_error(error)}".strip()
        ) from error


def _check_unused(path: Path) -> None:
    """Raise SocketRefused unless `path` is free, or has the socket of a dead gateway."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise SocketRefused(f"{path} is not a socket; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError as error:
            raise SocketRefused(f"{path} may belong to a running gateway ({error})") from error
    raise SocketRefused(f"another gateway listens at {path}; stop it first")
