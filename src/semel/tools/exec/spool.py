"""The spool: reports on disk, written before they are posted and kept until they are acknowledged.

    <data directory>/exec/NODE/RUN/run.json              the command, its session, and where to report
                                   handed                background job: the supervisor is about to start it
                                   process.json          the started process
                                   exec.finished.json    a report; renamed to `.sent` when it is acknowledged
                                   reserve               space for the report of a command that fills the disk
                                   lock                  held while the run's reporting process lives
                               /outputs/RUN.txt          the command's output

Background jobs have the same layout under <data directory>/jobs/RUN. A directory without run.json is no run. A run
whose lock is free has lost its reporter; the process that takes the lock reports it. A second lock, NODE/.lock, is
held only while runs are created or searched.

A run says where its report and a token are sent and which processes to kill. So files that another user could have
planted are never trusted, sent or removed (`owned.py`).
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
OUTPUTS_FOLDER = "outputs"
OUTPUTS_KEPT = 20  # output files of ended runs; older ones are removed when a run begins
OUTPUT_NAME = re.compile(r"([0-9a-f]{32}|job-[0-9a-f]{10})\.txt")  # of `semel exec`; of a background job


@dataclass
class Report:
    """One event to be posted. Its body never changes, so every repeat is the same event (Law 1)."""

    kind: str
    body: Json
    path: Path | None  # `None` if it could not be written to disk and is only in memory
    state: Literal["open", "taken", "refused"] = "open"
    why: str = ""


class Run:
    """A run's directory in the spool, locked by this process."""

    def __init__(self, place: Path, about: Json, lock: int) -> None:
        self.place = place
        self.about = about
        self.reports = [_read_report(path) for path in sorted(place.glob("exec.*.json"), key=_report_order)]
        self._done = {path.stem for path in place.glob("exec.*.sent")}
        self._lock = lock

    @classmethod
    def held(cls, place: Path, lock: int) -> Run:
        """Open the run in `place`, whose lock was taken by another process and inherited here. Raises OSError."""
        return cls(place, dict(json.loads(owned.read(place / "run.json"))), lock)

    @property
    def lock(self) -> int:
        """The descriptor that holds the run's lock."""
        return self._lock

    def __repr__(self) -> str:
        return f"<Run {self.id} {[(report.kind, report.state) for report in self.reports]}>"

    @property
    def id(self) -> str:
        return self.place.name

    @property
    def output(self) -> Path:
        return self.place.parent / OUTPUTS_FOLDER / f"{self.id}.txt"

    @property
    def over(self) -> bool:
        """Whether a report of the run's end exists, acknowledged or not. There is never a second one."""
        return bool({FINISHED, LOST} & (self._done | {report.kind for report in self.reports}))

    @property
    def process(self) -> Json | None:
        """{"pid", "born", "at"} of the command's process; `None` if its start was not recorded."""
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(owned.read(self.place / "process.json")))
        return None

    @property
    def unstarted(self) -> bool:
        """Whether this is a background job that its supervisor never got to start: provably nothing was run."""
        return "job" in self.about and not (self.place / HANDED).exists()

    def handed(self) -> None:
        """Record that a background job's supervisor has its order and starts the command next. Raises OSError."""
        write_durably(self.place / HANDED, b"")

    def began(self, pid: int, born: str | None, at: float) -> None:
        """Record the process, for the one who adopts this run if its reporter is killed."""
        with contextlib.suppress(OSError):  # without it an `exec.lost` report says that the state is unknown
            write_durably(self.place / "process.json", _dump({"pid": pid, "born": born, "at": at}))

    def put(self, kind: str, body: Json) -> Report:
        """Add a report. It is on disk when this returns, unless the disk is full even without the reserve (then
        `path` is `None`)."""
        path: Path | None = self.place / f"{kind}.json"
        assert path is not None
        try:
            _write_with_reserve(path, _dump(body), self.place / "reserve")
            report = Report(kind, body, path)
        except OSError as error:
            report = Report(kind, body, None, why=error.strerror or str(error))
        self.reports.append(report)
        return report

    def settle(self, report: Report) -> None:
        """Mark a report as acknowledged by the gateway."""
        report.state = "taken"
        self._done.add(report.kind)
        if report.path is not None:
            with contextlib.suppress(OSError):  # if this fails it is posted again, as a duplicate
                report.path.rename(report.path.with_suffix(".sent"))
                sync_directory(self.place)

    def close(self) -> None:
        """Release the run. If it has ended and all reports are acknowledged, it is removed; else it waits for the next
        reporter."""
        if self.over and all(report.state == "taken" for report in self.reports):
            remove_run(self.place)
        os.close(self._lock)


class Spool:
    """The runs in one folder of the data directory: `exec`/NODE for a node, `jobs` for background jobs.

    Methods raise owned.NotOurs (an OSError) if a folder on the way could be another user's.
    """

    def __init__(self, data_dir: Path, *folders: str) -> None:
        self.data_dir = data_dir
        self.folders = folders
        self.place = data_dir.joinpath(*folders)
        self.damaged: list[str] = []

    def __repr__(self) -> str:
        return f"<Spool {self.place}>"

    def begin(self, id: str, about: Json, room: int) -> Run:
        """Create a run; it is on disk when this returns. Raises OSError and leaves nothing behind."""
        self._make()
        with self._alone():
            place = self.place / id
            place.mkdir(mode=0o700)  # an existing one belongs to another run and must stay
            try:
                lock = _try_lock(place / "lock")
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
        """Take over the runs whose reporter is gone, in the order they began. Unreadable ones go into `damaged`."""
        if not self._exists():
            return []
        found = []
        with self._alone():
            for place in self.place.iterdir():
                if place.is_dir() and place.name != OUTPUTS_FOLDER and (run := self._adopt(place)) is not None:
                    found.append(run)
        return sorted(found, key=lambda run: float(run.about["at"]))

    def _make(self) -> None:
        """Create the missing folders, mode 0700."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        owned.check_directory(self.data_dir, link=True)
        place = self.data_dir
        for name in (*self.folders, OUTPUTS_FOLDER):
            place /= name
            owned.make_directory(place)

    def _exists(self) -> bool:
        """Whether the spool exists; checks that all its folders are ours."""
        try:
            owned.check_directory(self.data_dir, link=True)
            place = self.data_dir
            for name in (*self.folders, OUTPUTS_FOLDER):
                place /= name
                owned.check_directory(place)
        except FileNotFoundError:
            return self.place.is_dir()
        return True

    def _adopt(self, place: Path) -> Run | None:
        try:
            owned.check_directory(place)
            lock = _try_lock(place / "lock")
        except owned.NotOurs as error:
            self.damaged.append(f"{error}. Look at it, then remove it")
            return None
        except OSError:  # removed just now, because its reports were acknowledged
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
        """Remove the oldest output files of ended runs. Files of runs in the spool, and any other files, stay."""
        outputs = os.open(self.place / OUTPUTS_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with os.scandir(outputs) as found:
                over = [(one.stat(follow_symlinks=False).st_mtime_ns, one.name) for one in found if self._old(one)]
            for _, name in sorted(over)[: max(0, len(over) - OUTPUTS_KEPT)]:
                os.unlink(name, dir_fd=outputs)
        finally:
            os.close(outputs)

    def _old(self, one: os.DirEntry[str]) -> bool:
        """Whether this is the output file of a run that is no longer in the spool."""
        run = OUTPUT_NAME.fullmatch(one.name)
        return run is not None and one.is_file(follow_symlinks=False) and not (self.place / run[1]).exists()


def list_spools(data_dir: Path, folder: str) -> list[Spool]:
    """The spools of all nodes. Raises OSError, including owned.NotOurs."""
    try:
        owned.check_directory(data_dir, link=True)
        owned.check_directory(data_dir / folder)
    except FileNotFoundError:
        return []
    return [Spool(data_dir, folder, path.name) for path in sorted((data_dir / folder).iterdir()) if path.is_dir()]


def remove_run(place: Path) -> None:
    """Remove a run's directory, run.json first: if we are killed in between, the rest does not look like a lost run."""
    with contextlib.suppress(OSError):
        (place / "run.json").unlink()
        sync_directory(place)
    shutil.rmtree(place, ignore_errors=True)


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file atomically; it is on disk when this returns. Raises OSError and leaves the old file as it was."""
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


def _write_with_reserve(path: Path, data: bytes, reserve: Path) -> None:
    try:
        write_durably(path, data)
    except OSError:
        reserve.unlink(missing_ok=True)  # the command filled the disk: free the space kept for its report
        write_durably(path, data)


def _try_lock(path: Path) -> int | None:
    """Try to take a lock; returns its descriptor, or `None` if another process holds it. The process's end frees it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _read_report(path: Path) -> Report:
    return Report(path.stem, dict(json.loads(owned.read(path))), path)


def _report_order(path: Path) -> tuple[bool, str]:
    return (not path.name.startswith(STARTED), path.name)


def _dump(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")  # paths may not be UTF-8
