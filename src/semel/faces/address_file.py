"""Publish a gateway's address in its data directory, or why it waits, where `semel.tools.address` finds it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

from semel.tools.address import GATEWAY_FILE, LAST_CONFIG_FILE, WAIT_FILE


@contextlib.contextmanager
def publish_address(
    data_dir: Path,
    config: Path | None,
    url: str,
    socket: Path,
    waiting: str | None = None,
    *,
    gives_way: bool = False,
) -> Iterator[None]:
    """Publish the address in `gateway.json` until the block ends; this replaces the file of a killed gateway.

    `config`: the file that the gateway read. `waiting`: its name, if it waits and another one answers for it.
    `gives_way`: whether it ends for the next `semel up`.
    """
    path, last = (data_dir / name for name in (GATEWAY_FILE, LAST_CONFIG_FILE))
    path.unlink(missing_ok=True)
    last.unlink(missing_ok=True)
    address = {"url": url, "socket": str(socket), "pid": os.getpid(), "inode": path.parent.stat().st_ino}
    read = {"config": str(config or "")}
    write_private(last, json.dumps(read) + "\n")
    more = {**({} if waiting is None else {"waiting": waiting}), **({"gives_way": True} if gives_way else {})}
    write_private(path, json.dumps({**address, **read, **more}) + "\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def note_wait(data_dir: Path, name: str, why: str | None) -> None:
    """Publish why a gateway of a cluster can take no place; None: it waits no more, or only for the active one to end.

    `name`: the gateway's. `why`: begins with "waits".
    """
    path = data_dir / WAIT_FILE
    path.unlink(missing_ok=True)
    if why is not None:
        write_private(path, json.dumps({"name": name, "pid": os.getpid(), "why": why}) + "\n")


def write_private(path: Path, text: str) -> None:
    """Create a file of mode 0600 atomically. Raises FileExistsError if it exists."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError as error:  # a file system without hard links, such as exFAT
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
