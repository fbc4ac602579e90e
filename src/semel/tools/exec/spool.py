"""The spool: what is still to be reported, on disk before it is posted, until it is acknowledged.

    <data directory>/exec/NODE/RUN/run.json              what was run for which session, and how to report it
                                   handed                a background job: its supervisor is about to start it
                               process.json          its process, once it is there
                                   exec.finished.json    a report, still to be taken; `.sent` once it is
                                   reserve               room for the report of a run that fills the disk
                                   lock                  held for as long as its reporter lives
                               /outputs/RUN.txt          what the command printed

A directory without run.json is nothing. A run whose lock is free has lost its reporter: whoever takes the
lock reports it. The lock of NODE is held while runs are made or looked for, and only then.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]

STARTED, FINISHED, LOST = "exec.started", "exec.finished", "exec.lost"

HANDED = "handed"
OUTPUTS_KEPT = 20  # of runs that are over; older ones are removed when a new run begins


@dataclass
class Report:
    """One event as it is posted. Its body is fixed once it is written: every repeat is the same event (Law 1)."""

    kind: str
    body: Json
    path: Path | None  # None: the disk would not take it, and only this process has it
    state: Literal["open", "taken", "refused"] = "open"
    why: str = ""


class Run:
    """A run's place in the spool, held by this process alone."""

    def __init__(self, place: Path, about: Json, lock: int) -> None:
        self.place = place
        self.about = about
        self.reports = [_read_report(path) for path in sorted(place.glob("exec.*.json"), key=_order)]
        self._done = {path.stem for path in place.glob("exec.*.sent")}
        self._lock = lock

    @classmethod
    def held(cls, place: Path, lock: int) -> Run:
        """The run in `place`, whose lock another process took and handed over with this descriptor. Raises OSError."""
        return cls(place, dict(json.loads((place / "run.json").read_bytes())), lock)

    @property
    def lock(self) -> int:
        """The descriptor that holds it."""
        return self._lock

    def __repr__(self) -> str:
        return f"<Run {self.id} {[(report.kind, report.state) for report in self.reports]}>"

    @property
    def id(self) -> str:
        return self.place.name

    @property
    def output(self) -> Path:
        return self.place.parent / "outputs" / f"{self.id}.txt"

    @property
    def over(self) -> bool:
        """Its end was reported, or is about to be: there is one report of it, and never another."""
        return bool({FINISHED, LOST} & (self._done | {report.kind for report in self.reports}))

    @property
    def process(self) -> Json | None:
        """{"pid", "born", "at"}, where the command is known to have been started."""
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads((self.place / "process.json").read_bytes()))
        return None

    @property
    def unstarted(self) -> bool:
        """A background job whose supervisor never came to start it: provably nothing of it was run."""
        return "job" in self.about and not (self.place / HANDED).exists()

    def handed(self) -> None:
        """The supervisor of a background job has all that it needs, and starts it next. Raises OSError."""
        write_durably(self.place / HANDED, b"")

    def began(self, pid: int, born: str | None, at: float) -> None:
        """The process is noted, for whoever finds this run without its reporter."""
        with contextlib.suppress(OSError):  # what is not known then is said
            write_durably(self.place / "process.json", _dump({"pid": pid, "born": born, "at": at}))

    def put(self, kind: str, body: Json) -> Report:
        """A report to be posted, on disk when this returns, unless the disk would not take it even now."""
        path: Path | None = self.place / f"{kind}.json"
        assert path is not None
        try:
            _with_reserve(path, _dump(body), self.place / "reserve")
            report = Report(kind, body, path)
        except OSError as error:
            report = Report(kind, body, None, why=error.strerror or str(error))
        self.reports.append(report)
        return report

    def settle(self, report: Report) -> None:
        """The gateway has it."""
        report.state = "taken"
        self._done.add(report.kind)
        if report.path is not None:
            with contextlib.suppress(OSError):  # then it is posted again, and is a duplicate
                report.path.rename(report.path.with_suffix(".sent"))
                sync_directory(self.place)

    def close(self) -> None:
        """Let go of it: a run that is over and told is removed, any other waits for the next reporter."""
        if self.over and all(report.state == "taken" for report in self.reports):
            remove(self.place)
        os.close(self._lock)


class Spool:
    """The runs of one node."""

    def __init__(self, root: Path, node: str) -> None:
        self.place = root / node
        self.damaged: list[str] = []

    def __repr__(self) -> str:
        return f"<Spool {self.place}>"

    def begin(self, id: str, about: Json, room: int) -> Run:
        """A new run, on disk when this returns. Raises OSError: then nothing of it is left."""
        (self.place / "outputs").mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._alone():
            place = self.place / id
            place.mkdir(mode=0o700)  # if it is there, it is another's, and stays
            try:
                lock = _lock(place / "lock")
                assert lock is not None
                write_durably(place / "reserve", bytes(room))
                write_durably(place / "run.json", _dump(about))
                sync_directory(self.place)
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise
            self._prune()
        return Run(place, about, lock)

    def orphans(self) -> list[Run]:
        """The runs whose reporter is gone, in the order they began; they are ours from now on."""
        if not self.place.is_dir():
            return []
        found = []
        with self._alone():
            for place in self.place.iterdir():
                if place.is_dir() and place.name != "outputs" and (run := self._adopt(place)) is not None:
                    found.append(run)
        return sorted(found, key=lambda run: float(run.about["at"]))

    def _adopt(self, place: Path) -> Run | None:
        try:
            lock = _lock(place / "lock")
        except OSError:  # it was removed just now: told to the end
            return None
        if lock is None:
            return None
        if not (place / "run.json").exists():
            shutil.rmtree(place, ignore_errors=True)
            os.close(lock)
            return None
        try:
            about = dict(json.loads((place / "run.json").read_bytes()))
            float(about["at"]), str(about["session"]), str(about["node"]), list(about["command"])
            return Run(place, about, lock)
        except (OSError, ValueError, TypeError, KeyError) as error:
            os.close(lock)
            self.damaged.append(f"{place} cannot be read ({error}); look at it, then remove it")
            return None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = os.open(self.place / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _prune(self) -> None:
        """Old outputs go; those of runs that are still in the spool stay."""
        over = [path for path in (self.place / "outputs").iterdir() if not (self.place / path.stem).exists()]
        over.sort(key=lambda path: path.stat().st_mtime)
        for path in over[: max(0, len(over) - OUTPUTS_KEPT)]:
            path.unlink(missing_ok=True)


def spools(root: Path) -> list[Spool]:
    """Every node's."""
    return [Spool(root, path.name) for path in sorted(root.iterdir()) if path.is_dir()] if root.is_dir() else []


def remove(place: Path) -> None:
    """run.json goes first: what is left after a kill in between is nothing, not a run that was lost."""
    with contextlib.suppress(OSError):
        (place / "run.json").unlink()
        sync_directory(place)
    shutil.rmtree(place, ignore_errors=True)


def write_durably(path: Path, data: bytes) -> None:
    """The file whole, or as it was before; on disk when this returns. Raises OSError."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_directory(path.parent)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _with_reserve(path: Path, data: bytes, reserve: Path) -> None:
    try:
        write_durably(path, data)
    except OSError:
        reserve.unlink(missing_ok=True)  # the command filled the disk: this room was kept for its report
        write_durably(path, data)


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock, or None where somebody else does. It ends with the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _read_report(path: Path) -> Report:
    return Report(path.stem, dict(json.loads(path.read_bytes())), path)


def _order(path: Path) -> tuple[bool, str]:
    return (not path.name.startswith(STARTED), path.name)


def _dump(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")  # paths may be odd bytes
