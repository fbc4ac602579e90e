"""A disk for tests: it records every operation, can fail on demand, and can be cut off at any point.

`images` rebuilds what a disk could hold if power failed after the k-th operation. Operations that were not yet
synced may be lost, torn or reordered by 512-byte sectors; synced ones may not.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import apsw

SECTOR = 512
MODES = ("killed", "torn", "lost", "sectors")  # what happens to operations that no sync covers


class Op(NamedTuple):
    kind: str  # write, truncate, sync, delete, or ack: a promise was made to a caller
    file: str
    at: int = 0
    data: bytes = b""


class _File(apsw.VFSFile):
    def __init__(self, disk: PowerDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name).name if name else ""

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.may_fail("write")
        super().xWrite(data, offset)
        self._disk.ops.append(Op("write", self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._disk.ops.append(Op("truncate", self._name, size))

    def xSync(self, flags: int) -> None:
        self._disk.may_fail("sync")
        super().xSync(flags)
        self._disk.ops.append(Op("sync", self._name))


class PowerDisk(apsw.VFS):
    """An SQLite VFS over the real one. Pass its `name` as `vfs`; keep a reference while it is in use."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.ops: list[Op] = []
        self.failing: dict[str, tuple[int, Exception]] = {}

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        self.ops.append(Op("delete", Path(name).name))

    def ack(self, promise: str) -> None:
        """A caller was told that this is done."""
        self.ops.append(Op("ack", promise))

    def fail(self, kind: str, times: int, error: Exception) -> None:
        """Let the next operations of a kind ("write", "sync") fail."""
        self.failing[kind] = (times, error)

    def may_fail(self, kind: str) -> None:
        times, error = self.failing.get(kind, (0, OSError()))
        if times:
            self.failing[kind] = (times - 1, error)
            raise error


def image(ops: list[Op], mode: str, luck: random.Random) -> dict[str, bytearray]:
    """The files as a disk could hold them after these operations and a power failure."""
    files: dict[str, bytearray] = defaultdict(bytearray)
    loose: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        if op.kind in ("write", "truncate"):
            loose[op.file].append(op)
        elif op.kind == "sync":
            for done in loose.pop(op.file, []):
                _apply(files[op.file], done)
        elif op.kind == "delete":
            loose.pop(op.file, None)
            files.pop(op.file, None)
    for name, unsynced in loose.items():
        for op in _survivors(unsynced, mode, luck):
            _apply(files[name], op)
    return files


def _survivors(unsynced: list[Op], mode: str, luck: random.Random) -> list[Op]:
    if mode == "lost":
        return []
    if mode == "torn":
        last = unsynced[-1]
        cut = luck.randrange(1, len(last.data)) if len(last.data) > 1 else 0
        return [*unsynced[:-1], last._replace(data=last.data[:cut])]
    if mode == "sectors":
        kept: list[Op] = []
        for op in unsynced:
            starts = range(0, max(1, len(op.data)), SECTOR)
            kept += [
                op._replace(at=op.at + at, data=op.data[at : at + SECTOR]) if op.data else op
                for at in starts
                if luck.random() < 0.5
            ]
        return kept
    return unsynced


def _apply(file: bytearray, op: Op) -> None:
    end = op.at + len(op.data)
    if len(file) < end:
        file.extend(bytes(end - len(file)))
    if op.kind == "truncate":
        del file[op.at :]
    else:
        file[op.at : end] = op.data


def lay_out(files: dict[str, bytearray], folder: Path) -> None:
    """Put an image into an empty folder."""
    for old in folder.iterdir():
        old.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
