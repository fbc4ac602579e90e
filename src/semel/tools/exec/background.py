"""The gateway's side of background jobs: start a supervisor per job, cancel jobs, find runs whose supervisor died.

A job starts in this order: its row in the ledger, its run in the spool, then the supervisor, which inherits the run's
lock and reads the order (what to run) from stdin. A gateway that dies in between leaves a row without a run (the job
never started) or a run whose lock is free (it is reported as lost). In no case is a job started twice (Law 9).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semel.gateway.ports import CannotBegin, Job, Orphan
from semel.gateway.process_identity import JOB, kill_group_if_same, kill_tagged_processes
from semel.tools.exec import reports
from semel.tools.exec.reporter import Target
from semel.tools.exec.spool import Run, Spool
from semel.tools.exec.watch import RESERVE_BYTES, report_lost_run

log = logging.getLogger("semel.jobs")

Json = dict[str, Any]

JOBS_FOLDER = "jobs"  # in the data directory
CONTROL_FIFO = "control"  # a FIFO: a line in it cancels the job, and says who wants that
KILL_GRACE_S = 5.0  # seconds between SIGTERM and SIGKILL
SUPERVISOR_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
"""Variables that a supervisor gets from the gateway's environment: no secrets, and none of the agent's."""


@dataclass(frozen=True)
class Workplace:
    """The working directory and the environment of an agent's jobs."""

    cwd: Path
    env: Mapping[str, str] = field(repr=False)


class Supervisors:
    """Implements `ports.Background` with one supervisor process per job."""

    def __init__(self, data_dir: Path, workplaces: Mapping[str, Workplace], grace: float = KILL_GRACE_S) -> None:
        self.to = Target(data_dir)
        self.workplaces = workplaces
        self.grace = grace
        self._spool = Spool(data_dir, JOBS_FOLDER)
        self._named: set[str] = set()  # damaged runs that were logged already

    def __repr__(self) -> str:
        return f"<Supervisors of {self._spool.place}>"

    # ------------------------------------------------------------ starting a job

    def begin(self, job: Job, ended: Callable[[], None]) -> None:
        """See `ports.Background`."""
        at = self.workplaces.get(job.agent)
        if at is None:
            raise CannotBegin(f"no agent is named {job.agent!r} any more")
        about = {
            **reports.about_job(job.session, job.command, job.name, str(at.cwd), job.at / 1000),
            "to": self.to.told(),
        }
        try:
            run = self._spool.begin(job.id, about, RESERVE_BYTES)
        except OSError as error:
            raise CannotBegin(f"{self._spool.place} cannot be written: {error.strerror or error}") from None
        try:
            supervisor = self._start(run, self._order(job, at))
        except OSError as error:
            shutil.rmtree(run.place, ignore_errors=True)
            raise CannotBegin(f"its supervisor cannot be started: {error.strerror or error}") from None
        finally:
            run.close()  # the supervisor has inherited the lock
        threading.Thread(target=_reap, args=(supervisor, ended), name=f"end of {job.id}", daemon=True).start()

    def _order(self, job: Job, at: Workplace) -> bytes:
        order = {
            "argv": ["/bin/sh", "-c", job.command],
            "cwd": str(at.cwd),
            "env": {**at.env, JOB: job.id},
            "seconds": job.seconds,
            "output": job.output,
            "grace": self.grace,
        }
        return json.dumps(order).encode()

    def _start(self, run: Run, order: bytes) -> subprocess.Popen[bytes]:
        control = _control(run.place)
        try:
            command = [sys.executable, "-P", "-m", "semel.tools.exec.supervisor"]
            with (run.place / "supervisor.log").open("wb") as log:
                supervisor = subprocess.Popen(
                    [*command, str(run.place), str(run.lock), str(control)],
                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log, pass_fds=(run.lock, control),
                    start_new_session=True, cwd="/", env=_build_supervisor_environment(),
                )  # fmt: skip
        finally:
            os.close(control)
        try:
            _hand_over(supervisor, order)
        except OSError:
            supervisor.kill()
            supervisor.wait()
            raise
        return supervisor

    # ------------------------------------------------------------ running jobs

    def cancel(self, id: str, by: str) -> bool:
        """See `ports.Background`."""
        line = " ".join(by.split())[:200] or "somebody"
        try:
            control = os.open(self._spool.place / id / CONTROL_FIFO, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # the run is gone, or has no supervisor
            return False
        try:
            os.write(control, f"{line}\n".encode())
        except BlockingIOError:
            pass  # the FIFO is full of earlier cancels
        except OSError:
            return False
        finally:
            os.close(control)
        return True

    def present(self) -> set[str]:
        """See `ports.Background`."""
        place = self._spool.place
        return {one.name for one in place.iterdir() if one.is_dir()} if place.is_dir() else set()

    def orphans(self) -> list[Orphan]:
        """See `ports.Background`."""
        found: list[Orphan] = []
        for run in self._spool.orphans():
            report_lost_run(run, _kill_leftovers)
            found.append(_Orphan(run))
        for what in self._spool.damaged:
            if what not in self._named:
                log.error("a job cannot be told of: %s", what)
            self._named.add(what)
        self._spool.damaged.clear()
        return found


class _Orphan:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.session = str(run.about["session"])
        self._open = [report for report in run.reports if report.state == "open"]

    def __repr__(self) -> str:
        return f"<Orphan {self.run!r}>"

    def reports(self) -> list[Json]:
        return [report.body for report in self._open]

    def release(self, heard: int) -> None:
        for report in self._open[:heard]:
            self.run.settle(report)
        self.run.close()


def _kill_leftovers(run: Run) -> bool:
    """Kill what is left of a job whose supervisor is gone: its process group, and every process that carries its mark
    in the environment. True if there was something."""
    process = run.process
    found = False
    if process is not None and process["born"] is not None:
        pid = int(process["pid"])
        found = kill_group_if_same(pid, pid, process["born"])
    return kill_tagged_processes(run.id, JOB) > 0 or found


def _reap(supervisor: subprocess.Popen[bytes], ended: Callable[[], None]) -> None:
    supervisor.wait()
    ended()


def _control(place: Path) -> int:
    """Create the FIFO and open both its ends, so that a cancel is kept until the supervisor reads it."""
    os.mkfifo(place / CONTROL_FIFO, 0o600)
    return os.open(place / CONTROL_FIFO, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _hand_over(supervisor: subprocess.Popen[bytes], order: bytes) -> None:
    assert supervisor.stdin is not None
    try:
        supervisor.stdin.write(order)
    finally:
        with contextlib.suppress(BrokenPipeError):
            supervisor.stdin.close()


def _build_supervisor_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in SUPERVISOR_VARIABLES if name in os.environ}
