"""A disk that records every operation, and can fail on demand: an SQLite VFS over the real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw


class Op(NamedTuple):
    """One operation. `at`: of a write the offset, of a truncate the size, of a delete 1 if it waits for the disk.

    kind: write, truncate, sync, delete; or what a caller was told at this moment: ack (`at`: the state it stands for),
    doubt (what is under way now will be refused), refused.
    """

    kind: str
    file: str
    at: int = 0
    data: bytes = b""


class _File(apsw.VFSFile):
    def __init__(self, disk: PowerDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name).name if name else ""

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.begins("write")
        super().xWrite(data, offset)
        self._disk.ops.append(Op("write", self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        self._disk.begins("truncate")
        super().xTruncate(size)
        self._disk.ops.append(Op("truncate", self._name, size))

    def xSync(self, flags: int) -> None:
        self._disk.begins("sync")
        super().xSync(flags)
        if not self._disk.lies:
            self._disk.ops.append(Op("sync", self._name))


class PowerDisk(apsw.VFS):
    """Pass its `name` as `vfs`; keep a reference while it is in use.

    `lies`: it says that it synced, and did not. `before` is called before each operation, by the thread that makes it.
    """

    def __init__(self, name: str, lies: bool = False) -> None:
        super().__init__(name, "")
        self.name = name
        self.lies = lies
        self.ops: list[Op] = []
        self.failing: dict[str, tuple[int, Exception]] = {}
        self.before: Callable[[], object] | None = None

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        self.begins("delete")
        super().xDelete(name, sync)
        self.ops.append(Op("delete", Path(name).name, int(sync)))

    def ack(self, promise: str, state: int = 0) -> None:
        """A caller was told that this is done."""
        self.ops.append(Op("ack", promise, state))

    def fail(self, kind: str, times: int, error: Exception) -> None:
        """Let the next operations of a kind ("write", "sync") fail."""
        self.failing[kind] = (times, error)

    def begins(self, kind: str) -> None:
        """An operation begins; it may be one that fails."""
        if self.before is not None:
            self.before()
        times, error = self.failing.get(kind, (0, OSError()))
        if times:
            self.failing[kind] = (times - 1, error)
            raise error
