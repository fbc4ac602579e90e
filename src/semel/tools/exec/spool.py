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
planted are never trusted, sent or removed (`trusted_files.py`).
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
from typing import Literal

from semel.ledger.storage.atomic_files import sync_folder
from semel.text.json_types import Json
from semel.tools import trusted_files

STARTED, FINISHED, LOST = "exec.started", "exec.finished", "exec.lost"

ORDER_RECEIVED_FILE = "handed"
EXEC_FOLDER = "exec"  # in the data directory; holds the spools of all nodes
NO_LOCK = -1  # in the place of a descriptor: the run is only read
OUTPUTS_FOLDER = "outputs"
OUTPUTS_KEPT = 20  # output files of ended runs; older ones are removed when a run begins
OUTPUT_NAME = re.compile(r"([0-9a-f]{32}|job-[0-9a-f]{10})\.txt")  # of `semel exec`; of a background job


@dataclass
class SpooledReport:
    """One event to be posted. Its body never changes, so every repeat is the same event (Law 1)."""

    kind: str
    body: Json
    path: Path | None  # `None` if the report could not be written to disk and is only in memory
    state: Literal["open", "taken", "refused"] = "open"
    reason: str = ""


class SpooledRun:
    """A run's directory in the spool, locked by this process."""

    def __init__(self, folder: Path, info: Json, lock: int) -> None:
        self.folder = folder
        self.info = info
        paths = sorted(folder.glob("exec.*.json"), key=lambda path: (path.stem != STARTED, path.name))
        self.reports = [
            SpooledReport(path.stem, dict(json.loads(trusted_files.read_file(path))), path) for path in paths
        ]
        self._done = {path.stem for path in folder.glob("exec.*.sent")}
        self._lock = lock

    @classmethod
    def open_inherited(cls, folder: Path, lock: int) -> SpooledRun:
        """Open the run in `folder`; this process inherited its lock from the one that took it. Raises OSError."""
        return cls(folder, dict(json.loads(trusted_files.read_file(folder / "run.json"))), lock)

    @property
    def lock(self) -> int:
        """The descriptor that holds the run's lock."""
        return self._lock

    def __repr__(self) -> str:
        return f"<SpooledRun {self.id} {[(report.kind, report.state) for report in self.reports]}>"

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def output(self) -> Path:
        return self.folder.parent / OUTPUTS_FOLDER / f"{self.id}.txt"

    @property
    def is_over(self) -> bool:
        """Whether the run's end was reported, acknowledged or not. There is never a second such report."""
        return bool({FINISHED, LOST} & (self._done | {report.kind for report in self.reports}))

    @property
    def process(self) -> Json | None:
        """{"pid", "born", "at"} of the command's process; `None` if its start was not recorded."""
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(trusted_files.read_file(self.folder / "process.json")))
        return None

    @property
    def never_started(self) -> bool:
        """Whether this is a background job whose supervisor never started the command: provably nothing was run."""
        return "job" in self.info and not (self.folder / ORDER_RECEIVED_FILE).exists()

    def record_handover(self) -> None:
        """Record that a background job's supervisor has its order and starts the command next. Raises OSError."""
        write_durably(self.folder / ORDER_RECEIVED_FILE, b"")

    def record_process(self, pid: int, born: str | None, at: float) -> None:
        """Record the command's process, for the process that takes over this run if its reporter is killed."""
        with contextlib.suppress(OSError):  # without this file, an `exec.lost` report says that the state is unknown
            write_durably(self.folder / "process.json", _dump_json({"pid": pid, "born": born, "at": at}))

    def add_report(self, kind: str, body: Json) -> SpooledReport:
        """Add a report. It is on disk when this returns, unless the disk is full even without the reserve (then
        `path` is `None`)."""
        path: Path | None = self.folder / f"{kind}.json"
        assert path is not None
        try:
            _write_with_reserve(path, _dump_json(body), self.folder / "reserve")
            report = SpooledReport(kind, body, path)
        except OSError as error:
            report = SpooledReport(kind, body, None, reason=error.strerror or str(error))
        self.reports.append(report)
        return report

    def acknowledge(self, report: SpooledReport) -> None:
        """Mark a report as acknowledged by the gateway."""
        report.state = "taken"
        self._done.add(report.kind)
        if report.path is not None:
            with contextlib.suppress(OSError):  # if this fails, the report is posted again, as a duplicate
                report.path.rename(report.path.with_suffix(".sent"))
                sync_folder(self.folder)

    def close(self) -> None:
        """Release the lock. A finished run without open reports is removed; any other waits for the next reporter."""
        if self.is_over and all(report.state == "taken" for report in self.reports):
            remove_run(self.folder)
        os.close(self._lock)


class Spool:
    """The runs in one folder of the data directory: `exec`/NODE for a node, `jobs` for background jobs.

    Methods raise UntrustedFile (an OSError) if a folder on the way could be another user's.
    """

    def __init__(self, data_dir: Path, *folders: str) -> None:
        self.data_dir = data_dir
        self.folders = folders
        self.folder = data_dir.joinpath(*folders)
        self.damaged: list[str] = []

    def __repr__(self) -> str:
        return f"<Spool {self.folder}>"

    def begin(self, id: str, info: Json, reserve_bytes: int) -> SpooledRun:
        """Create a run; it is on disk when this returns. Raises OSError and leaves nothing behind."""
        self._make_folders()
        with self._locked():
            folder = self.folder / id
            folder.mkdir(mode=0o700)  # an existing one belongs to another run and must stay
            try:
                lock = _try_lock(folder / "lock")
                assert lock is not None
                write_durably(folder / "reserve", bytes(reserve_bytes))
                write_durably(folder / "run.json", _dump_json(info))
                sync_folder(self.folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._remove_old_outputs()
        return SpooledRun(folder, info, lock)

    def orphans(self) -> list[SpooledRun]:
        """Take over the runs whose reporter is gone, in the order they began. Unreadable ones go into `damaged`."""
        if not self._check_folders():
            return []
        with self._locked():
            runs = [run for folder in self._list_folders() if (run := self._adopt(folder)) is not None]
        return sorted(runs, key=lambda run: float(run.info["at"]))

    def look_over(self) -> list[tuple[SpooledRun, bool]]:
        """Return all runs, to be read only, each with whether a living process reports it. Nothing is taken over.

        Unreadable ones go into `damaged`.
        """
        if not self._check_folders():
            return []
        with self._locked():
            return [found for folder in self._list_folders() if (found := self._look_at(folder)) is not None]

    def _list_folders(self) -> list[Path]:
        return [folder for folder in self.folder.iterdir() if folder.is_dir() and folder.name != OUTPUTS_FOLDER]

    def _make_folders(self) -> None:
        """Create the missing folders, mode 0700."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        trusted_files.check_directory(self.data_dir, link=True)
        folder = self.data_dir
        for name in (*self.folders, OUTPUTS_FOLDER):
            folder /= name
            trusted_files.make_directory(folder)

    def _check_folders(self) -> bool:
        """Whether the spool exists. Raises UntrustedFile if one of its folders may be another user's."""
        try:
            trusted_files.check_directory(self.data_dir, link=True)
            folder = self.data_dir
            for name in (*self.folders, OUTPUTS_FOLDER):
                folder /= name
                trusted_files.check_directory(folder)
        except FileNotFoundError:
            return self.folder.is_dir()
        return True

    def _adopt(self, folder: Path) -> SpooledRun | None:
        try:
            trusted_files.check_directory(folder)
            lock = _try_lock(folder / "lock")
        except trusted_files.UntrustedFile as error:
            self.damaged.append(f"{error}. Look at it, then remove it")
            return None
        except OSError:  # removed just now, because its reports were acknowledged
            return None
        if lock is None:
            return None
        if not os.path.lexists(folder / "run.json"):
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            return None
        try:
            return _read_run(folder, lock)
        except (OSError, ValueError, TypeError, KeyError) as error:
            os.close(lock)
            self.damaged.append(f"{folder} cannot be read ({error}); look at it, then remove it")
            return None

    def _look_at(self, folder: Path) -> tuple[SpooledRun, bool] | None:
        if (run := self._adopt(folder)) is not None:
            os.close(run.lock)
            return run, False
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):  # it just ended, or `_adopt` has named it
            trusted_files.check_directory(folder)
            return _read_run(folder, NO_LOCK), True
        return None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _remove_old_outputs(self) -> None:
        """Remove the oldest output files of ended runs. Files of runs in the spool, and any other files, stay."""
        outputs = os.open(self.folder / OUTPUTS_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with os.scandir(outputs) as files:
                old_files = [
                    (file.stat(follow_symlinks=False).st_mtime_ns, file.name)
                    for file in files
                    if self._is_unused_output(file)
                ]
            for _, name in sorted(old_files)[: max(0, len(old_files) - OUTPUTS_KEPT)]:
                os.unlink(name, dir_fd=outputs)
        finally:
            os.close(outputs)

    def _is_unused_output(self, file: os.DirEntry[str]) -> bool:
        """Whether this is the output file of a run that is no longer in the spool."""
        run = OUTPUT_NAME.fullmatch(file.name)
        return run is not None and file.is_file(follow_symlinks=False) and not (self.folder / run[1]).exists()


def list_spools(data_dir: Path, folder: str) -> list[Spool]:
    """Return the spools of all nodes in a folder of the data directory. Raises OSError, including UntrustedFile."""
    try:
        trusted_files.check_directory(data_dir, link=True)
        trusted_files.check_directory(data_dir / folder)
    except FileNotFoundError:
        return []
    return [Spool(data_dir, folder, path.name) for path in sorted((data_dir / folder).iterdir()) if path.is_dir()]


def _read_run(folder: Path, lock: int) -> SpooledRun:
    """Read a run. Raises OSError, or ValueError, TypeError or KeyError if it is damaged."""
    info = dict(json.loads(trusted_files.read_file(folder / "run.json")))
    float(info["at"]), str(info["session"]), str(info["node"]), list(info["command"])
    return SpooledRun(folder, info, lock)


def remove_run(folder: Path) -> None:
    """Remove a run's directory, run.json first: if we are killed in between, the rest does not look like a lost run."""
    with contextlib.suppress(OSError):
        (folder / "run.json").unlink()
        sync_folder(folder)
    shutil.rmtree(folder, ignore_errors=True)


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file atomically; it is on disk when this returns. Raises OSError and leaves the old file as it was."""
    temporary = path.with_name(f"{path.name}.new")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(temporary, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _write_with_reserve(path: Path, data: bytes, reserve: Path) -> None:
    try:
        write_durably(path, data)
    except OSError:
        reserve.unlink(missing_ok=True)  # the command filled the disk: free the space kept for its report
        write_durably(path, data)


def _try_lock(path: Path) -> int | None:
    """Take a lock and return its descriptor; `None` if another process holds the lock. It ends with the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _dump_json(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")  # paths may not be UTF-8
