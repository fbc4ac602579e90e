"""What a disk can hold after power failed behind the k-th operation.

What was synced is there. Of what was not, all may be there (the process was killed, the machine lives on), or all but
the rest of the last write (`tear`), or nothing, or any of its sectors: each sector of each write on its own, with odds
that differ from file to file, so that one file may be all new and another all old. A file that was deleted without
waiting for the disk may be back.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from proof.power.disk import Op

MODES = ("killed", "torn", "lost", "sectors", "pages")
SECTORS = {"sectors": 512, "pages": 4096}
LOGS = ("-wal", "-journal")
ODDS = (0.0, 0.1, 0.5, 0.9, 1.0)

Files = dict[str, bytes]


class Medium:
    """The disk behind the operations taken so far: what is durable, and what is not yet."""

    def __init__(self) -> None:
        self.durable: dict[str, bytearray] = {}
        self.loose: dict[str, list[Op]] = defaultdict(list)
        self.new: set[str] = set()  # files that no sync has reached yet
        self.ghosts: dict[str, bytearray] = {}  # deleted, but perhaps not on the disk
        self.last: Op | None = None

    def __repr__(self) -> str:
        loose = {name: len(ops) for name, ops in self.loose.items()}
        return f"<Medium durable {sorted(self.durable)}, loose {loose}>"

    def take(self, op: Op) -> None:
        """One operation; what callers were told is none."""
        if op.kind in ("write", "truncate"):
            if op.file not in self.durable:
                self.new.add(op.file)
            self.loose[op.file].append(op)
        elif op.kind == "sync":
            if op.file in self.new and op.file.endswith(LOGS):  # the first sync of a log syncs its folder, too
                self.ghosts.clear()
            self.new.discard(op.file)
            file = self.durable.setdefault(op.file, bytearray())
            for done in self.loose.pop(op.file, []):
                apply(file, done)
        elif op.kind == "delete":
            self.loose.pop(op.file, None)
            gone = self.durable.pop(op.file, None)
            if op.at:
                self.ghosts.clear()
            elif gone is not None:
                self.ghosts[op.file] = gone
        else:
            return
        self.last = op

    def image(self, mode: str, luck: random.Random) -> Files:
        """The files as they could be."""
        names = {*self.durable, *self.loose, *self.ghosts}
        found = ((name, self._file(name, mode, luck)) for name in sorted(names))
        return {name: bytes(file) for name, file in found if file is not None}

    def _file(self, name: str, mode: str, luck: random.Random) -> bytearray | None:
        ghost = self.ghosts.get(name)
        if ghost is not None and (mode == "lost" or (mode in SECTORS and luck.random() < 0.5)):
            return ghost
        there = name in self.durable
        file = bytearray(self.durable.get(name, b""))
        for op in self._survivors(self.loose.get(name, ()), mode, luck):
            apply(file, tear(file, op, luck) if mode == "torn" and op is self.last else op)
            there = True
        return file if there else None

    def _survivors(self, loose: Iterable[Op], mode: str, luck: random.Random) -> Iterator[Op]:
        if mode == "lost":
            return
        if mode in SECTORS:
            odds = luck.choice(ODDS)
            yield from (piece for op in loose for piece in pieces(op, SECTORS[mode]) if luck.random() < odds)
            return
        yield from loose


def tear(file: bytes | bytearray, write: Op, luck: random.Random) -> Op:
    """The beginning of a write, so long that neither what was there nor what is written is left; else all of it.

    A cut among bytes that the write leaves as they are tears nothing: most of a slot of the mark is such bytes.
    """
    there = file[write.at : write.at + len(write.data)]
    changed = [at for at, byte in enumerate(write.data) if at >= len(there) or there[at] != byte]
    if len(changed) < 2:
        return write
    return write._replace(data=write.data[: luck.randrange(changed[0] + 1, changed[-1] + 1)])


def pieces(op: Op, size: int) -> Iterator[Op]:
    """An operation by the sectors of the disk that it touches."""
    if op.kind != "write":
        yield op
        return
    at, end = op.at, op.at + len(op.data)
    while at < end:
        stop = min(end, (at // size + 1) * size)
        yield op._replace(at=at, data=op.data[at - op.at : stop - op.at])
        at = stop


def apply(file: bytearray, op: Op) -> None:
    end = op.at + len(op.data)
    if len(file) < end:
        file.extend(bytes(end - len(file)))
    if op.kind == "truncate":
        del file[op.at :]
    else:
        file[op.at : end] = op.data


def image(ops: Iterable[Op], mode: str, luck: random.Random) -> Files:
    """The files after these operations."""
    medium = Medium()
    for op in ops:
        medium.take(op)
    return medium.image(mode, luck)


def lay_out(files: Files, folder: Path) -> None:
    """Put an image into a folder that holds nothing else."""
    for old in folder.iterdir():
        old.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
