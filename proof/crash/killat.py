"""The library that kills, from outside: it is built, told where to strike, and asked what it saw."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("killat.c")
LAYOUT = struct.Struct("=qqqii224s")  # struct control: target, count, pid, behind, due, what


class NoCompiler(Exception):
    """There is no C compiler here. The message says what to install."""


def build(folder: Path) -> Path:
    """The library, compiled into `folder`. Raises NoCompiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("it needs a C compiler: install gcc (or another one that is called cc)")
    made = folder / "killat.so"
    told = subprocess.run(
        [compiler, "-O1", "-Wall", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"],
        capture_output=True, text=True,
    )  # fmt: skip
    if told.returncode:
        raise NoCompiler(f"{compiler} does not compile {SOURCE.name}: {' '.join(told.stderr.split())[:300]}")
    return made


def arm(file: Path) -> None:
    """From here on this process is counted, and killed at the point that the file names. Needs LD_PRELOAD."""
    if ctypes.CDLL(None).killat_arm(str(file).encode()) < 0:
        raise OSError(f"{file} cannot be shared")


@dataclass(frozen=True)
class Seen:
    """How far a process came. `what` is the call at which it was killed, such as "before fdatasync /x/ledger.db-wal";
    empty where it was not."""

    target: int
    count: int  # moments that were passed
    what: str

    @property
    def struck(self) -> bool:
        return bool(self.what)


class Control:
    """One process's order and its count. `target` is the point where it is killed; 0: none."""

    def __init__(self, path: Path, target: int) -> None:
        self.path, self.target = path, target
        path.write_bytes(LAYOUT.pack(target, 0, 0, 0, 0, b""))

    def __repr__(self) -> str:
        return f"<Control {self.path.name}: {self.seen()}>"

    def seen(self) -> Seen:
        target, count, *_, what = LAYOUT.unpack(self.path.read_bytes())
        return Seen(target, count, what.split(b"\0")[0].decode(errors="replace"))

    @property
    def struck(self) -> bool:
        return self.seen().struck
