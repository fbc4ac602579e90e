"""One target under atheris, in a process of its own: `python -m proof.fuzz.engine TARGET FOLDER SECONDS SEED`.

FOLDER gets what is found: `finding-N.bin` with the bytes and `finding-N.txt` with the reason. libFuzzer's own lines
(executions, coverage) go to stderr.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proof.fuzz.hush import hush
from proof.fuzz.targets import READS

SLOW = 2.0
"""Seconds of CPU that no input of at most 64 KiB may take."""
SLOWED = 3.0
"""How many times slower a reader is while its coverage is counted, at most: what it takes longer for is replayed."""
HANGS = 40
"""Seconds after which libFuzzer ends the process and keeps the input."""
LONGEST = 16_384
MOST = 6
"""Findings of different kinds that are kept in one run."""
HERE = ("/proof/fuzz/", "/semel/")


def load(name: str) -> Any:
    return importlib.import_module(f"proof.fuzz.targets.{name}")


def unread(name: str) -> list[str]:
    """Modules of ours that the target does not read with: to count their coverage costs time and leads nowhere."""
    spec = importlib.util.find_spec("semel")
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parent
    files = [file.relative_to(root.parent).with_suffix("") for file in root.rglob("*.py")]
    modules = [".".join(file.parts).removesuffix(".__init__") for file in files]
    reads = READS[name]
    return [each for each in modules if not any(each == one or each.startswith(f"{one}.") for one in reads)]


class Book:
    """What was found: one of each kind, the shortest input."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kinds: dict[str, tuple[int, int]] = {}  # kind -> number, length of its input

    def note(self, kind: str, data: bytes, why: str) -> None:
        number, length = self._kinds.get(kind, (len(self._kinds) + 1, len(data) + 1))
        if number > MOST or len(data) >= length:
            return
        self._kinds[kind] = (number, len(data))
        (self._folder / f"finding-{number}.bin").write_bytes(data)
        (self._folder / f"finding-{number}.txt").write_text(why, encoding="utf-8", errors="backslashreplace")


def kind_of(fault: BaseException) -> str:
    """Faults of one kind have one cause: the type, and the last line of ours that it came through."""
    frames = [f for f in traceback.extract_tb(fault.__traceback__) if any(part in f.filename for part in HERE)]
    at = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(fault).__name__} {at}"


def watched(one: Callable[[bytes], None], book: Book) -> Callable[[bytes], None]:
    """The target; what it raises or takes too long for is noted, and the fuzzer goes on."""

    def run(data: bytes) -> None:
        began = time.process_time()
        try:
            one(data)
        except Exception as fault:
            book.note(kind_of(fault), data, "".join(traceback.format_exception(fault)))
        used = time.process_time() - began
        if used > SLOW * SLOWED:
            book.note("slow", data, f"it took {used:.1f} s of CPU under the fuzzer")

    return run


def main() -> None:
    name, folder, seconds, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["semel"], exclude=unread(name)):
        target = load(name)
    hush()
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for data in target.SEEDS:
        (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)
    options = [
        sys.argv[0], f"-max_total_time={seconds}", f"-seed={seed}", f"-timeout={HANGS}", "-rss_limit_mb=2000",
        f"-max_len={getattr(target, 'LONGEST', LONGEST)}", f"-artifact_prefix={folder}/", str(corpus),
    ]  # fmt: skip
    atheris.Setup(options, watched(target.one, Book(folder)))
    atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    main()
