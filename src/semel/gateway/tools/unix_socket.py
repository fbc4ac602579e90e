"""Create a unix socket that only its owner can reach, atomically, and never in place of a live gateway's."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import stat
import struct
import sys
import tempfile
from pathlib import Path

MAX_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""Longest path of a unix socket in bytes (unix(7): sun_path holds 108 on Linux, 104 on the BSDs, with the NUL)."""


class SocketRefused(Exception):
    """The socket cannot be opened at that path. The message says what to do."""


def socket_path(data_dir: Path) -> Path:
    """The socket path of the gateway with this data directory.

    It is inside the data directory or, if that path is too long for a unix socket, in a private directory of this user
    under $XDG_RUNTIME_DIR or the temporary directory.
    """
    path = data_dir / "gateway.sock"
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        return path
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    name = hashlib.blake2b(os.fsencode(path.absolute()), digest_size=8).hexdigest()
    return Path(base) / f"semel-{os.getuid()}" / f"{name}.sock"


def listen(path: Path) -> tuple[socket.socket, tuple[int, int]]:
    """A listening socket at `path`, and its (device, inode).

    It is bound under another name, restricted to its owner, and renamed once it listens. A caller therefore never
    finds a socket that is not ready, and a dead gateway's socket is replaced atomically. Raises SocketRefused.
    """
    _private(path.parent)
    _free(path)
    draft = path.with_name(f".{os.getpid()}")
    for name in (path, draft):
        if len(os.fsencode(name)) > MAX_PATH_BYTES:
            raise SocketRefused(
                f"{name} is too long for a unix socket ({MAX_PATH_BYTES} bytes); use a shorter data_dir"
            )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        draft.unlink(missing_ok=True)
        listener.bind(os.fspath(draft))
        draft.chmod(0o600)
        listener.listen(128)
        draft.rename(path)
        found = path.lstat()
    except OSError as error:
        listener.close()
        raise SocketRefused(f"cannot listen at {path}: {error.strerror}") from error
    listener.setblocking(False)
    return listener, (found.st_dev, found.st_ino)


def _private(directory: Path) -> None:
    """Make sure that the directory exists, is ours, and is closed to others. Raises SocketRefused."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise SocketRefused(f"{directory} must be a directory of this user; move it away or change data_dir")
        if found.st_mode & 0o077:
            directory.chmod(0o700)
    except OSError as error:
        raise SocketRefused(f"cannot use {directory}: {error.strerror}") from error


def _free(path: Path) -> None:
    """Check that `path` is free, or the socket of a dead gateway. Raises SocketRefused."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketRefused(f"{path} is not a socket; move it away")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(1.0)
    try:
        probe.connect(os.fspath(path))
    except (ConnectionRefusedError, FileNotFoundError):
        return
    except OSError as error:
        raise SocketRefused(f"{path} may belong to a running gateway ({error})") from error
    finally:
        probe.close()
    raise SocketRefused(f"another gateway listens at {path}; stop it first")


def unlink_ours(path: Path, inode: tuple[int, int] | None) -> None:
    """Remove the socket if it is still ours: a gateway that stops late must not remove its successor's (cf. Law 10)."""
    with contextlib.suppress(OSError):
        found = path.lstat()
        if (found.st_dev, found.st_ino) == inode:
            path.unlink()


def peer_uid(writer: asyncio.StreamWriter) -> int | None:
    """The uid of the connected process (Linux: SO_PEERCRED, unix(7)); None on other systems."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    peer: socket.socket = writer.get_extra_info("socket")
    creds = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", creds)[1])
