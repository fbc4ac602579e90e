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

What another user could have put there is neither believed nor sent, nor removed (`owned.py`): a run says where to its
report and a token go, and which process is its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from semel.tools import owned

Json = dict[str, Any]

STARTED, FINISHED, LOST = "exec.started", "exec.finished", "exec.lost"

HANDED = "handed"
OUTPUTS = "outputs"
OUTPUTS_KEPT = 20  # of runs that are over; older ones are removed when a new run begins
OUTPUT = re.compile(r"([0-9a-f]{32}|job-[0-9a-f]{10})\.txt")  # of a run of `semel exec`, or of a background job


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
        return cls(place, dict(json.loads(owned.read(place / "run.json"))), lock)

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
        return self.place.parent / OUTPUTS / f"{self.id}.txt"

    @property
    def over(self) -> bool:
        """Its end was reported, or is about to be: there is one report of it, and never another."""
        return bool({FINISHED, LOST} & (self._done | {report.kind for report in self.reports}))

    @property
    def process(self) -> Json | None:
        """{"pid", "born", "at"}, where the command is known to have been started."""
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(owned.read(self.place / "process.json")))
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
    """The runs of one node, in a folder of the data directory: `exec`, NODE, or of its background jobs: `jobs`.

    Where one of these, or the data directory, may be another user's doing, methods raise owned.NotOurs, an OSError.
    """

    def __init__(self, data_dir: Path, *folders: str) -> None:
        self.data_dir = data_dir
        self.folders = folders
        self.place = data_dir.joinpath(*folders)
        self.damaged: list[str] = []

    def __repr__(self) -> str:
        return f"<Spool {self.place}>"

    def begin(self, id: str, about: Json, room: int) -> Run:
        """A new run, on disk when this returns. Raises OSError: then nothing of it is left."""
        self._make()
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
        if not self._exists():
            return []
        found = []
        with self._alone():
            for place in self.place.iterdir():
                if place.is_dir() and place.name != OUTPUTS and (run := self._adopt(place)) is not None:
                    found.append(run)
        return sorted(found, key=lambda run: float(run.about["at"]))

    def _make(self) -> None:
        """Its folders, as far as they are missing, and closed to others."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        owned.folder(self.data_dir, link=True)
        place = self.data_dir
        for name in (*self.folders, OUTPUTS):
            place /= name
            owned.make(place)

    def _exists(self) -> bool:
        """Whether there may be a run, in folders that are all ours."""
        try:
            owned.folder(self.data_dir, link=True)
            place = self.data_dir
            for name in (*self.folders, OUTPUTS):
                place /= name
                owned.folder(place)
        except FileNotFoundError:
            return self.place.is_dir()
        return True

    def _adopt(self, place: Path) -> Run | None:
        try:
            owned.folder(place)
            lock = _lock(place / "lock")
        except owned.NotOurs as error:
            self.damaged.append(f"{error}. Look at it, then remove it")
            return None
        except OSError:  # it was removed just now: told to the end
            return None
        if lock is None:
            return None
        if not os.path.lexists(place / "run.json"):
            shutil.rmtree(place, ignore_errors=True)
            os.close(lock)
            return None
        try:
            about = dict(json.loads(owned.read(place / "run.json")))
            float(about["at"]), str(about["session"]), str(about["node"]), list(about["command"])
            return Run(place, about, lock)
        except (OSError, ValueError, TypeError, KeyError) as error:
            os.close(lock)
            self.damaged.append(f"{place} cannot be read ({error}); look at it, then remove it")
            return None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = os.open(self.place / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _prune(self) -> None:
        """Old outputs go; those of runs that are still in the spool stay, and what is no output of a run."""
        outputs = os.open(self.place / OUTPUTS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with os.scandir(outputs) as found:
                over = [(one.stat(follow_symlinks=False).st_mtime_ns, one.name) for one in found if self._old(one)]
            for _, name in sorted(over)[: max(0, len(over) - OUTPUTS_KEPT)]:
                os.unlink(name, dir_fd=outputs)
        finally:
            os.close(outputs)

    def _old(self, one: os.DirEntry[str]) -> bool:
        """Whether it is the output of a run that is no more in the spool."""
        run = OUTPUT.fullmatch(one.name)
        return run is not None and one.is_file(follow_symlinks=False) and not (self.place / run[1]).exists()


def spools(data_dir: Path, folder: str) -> list[Spool]:
    """Every node's. Raises OSError, owned.NotOurs among it."""
    try:
        owned.folder(data_dir, link=True)
        owned.folder(data_dir / folder)
    except FileNotFoundError:
        return []
    return [Spool(data_dir, folder, path.name) for path in sorted((data_dir / folder).iterdir()) if path.is_dir()]


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
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(fresh, flags, 0o600)
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
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _read_report(path: Path) -> Report:
    return Report(path.stem, dict(json.loads(owned.read(path))), path)


def _order(path: Path) -> tuple[bool, str]:
    return (not path.name.startswith(STARTED), path.name)


def _dump(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")  # paths may be odd bytes
