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
from dataclasses import dataclass, field, replace
from pathlib import Path

from semel.gateway.ports import CannotBegin, Job, Orphan
from semel.gateway.process_identity import JOB_VARIABLE, kill_group_if_same, kill_tagged_processes
from semel.text.json_types import Json
from semel.tools.exec import reports
from semel.tools.exec.reporter import Target
from semel.tools.exec.runner import RESERVE_BYTES, report_lost_run
from semel.tools.exec.spool import Spool, SpooledRun

log = logging.getLogger("semel.jobs")


JOBS_FOLDER = "jobs"  # in the data directory
CONTROL_FIFO = "control"  # a FIFO: a line in it cancels the job, and names who cancels
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
class JobEnvironment:
    """The working directory and the environment of an agent's jobs."""

    cwd: Path
    env: Mapping[str, str] = field(repr=False)


class SupervisorRunner:
    """Implements `ports.Background` with one supervisor process per job."""

    def __init__(self, data_dir: Path, workplaces: Mapping[str, JobEnvironment], grace: float = KILL_GRACE_S) -> None:
        self.target = Target(data_dir)
        self.workplaces = workplaces
        self.grace = grace
        self._spool = Spool(data_dir, JOBS_FOLDER)
        self._logged_damage: set[str] = set()  # damaged runs that were logged already

    def __repr__(self) -> str:
        return f"<SupervisorRunner of {self._spool.folder}>"

    # ------------------------------------------------------------ starting a job

    def begin(self, job: Job, ended: Callable[[], None]) -> None:
        """See `ports.Background`."""
        workplace = self.workplaces.get(job.agent)
        if workplace is None:
            raise CannotBegin(f"no agent is named {job.agent!r} any more")
        if job.folder is not None:
            workplace = replace(workplace, cwd=Path(job.folder))
        info = {
            **reports.describe_job(job.session, job.command, job.name, str(workplace.cwd), job.at / 1000),
            "to": self.target.to_dict(),
        }
        try:
            run = self._spool.begin(job.id, info, RESERVE_BYTES)
        except OSError as error:
            raise CannotBegin(f"{self._spool.folder} cannot be written: {error.strerror or error}") from None
        try:
            supervisor = self._start_supervisor(run, self._build_order(job, workplace))
        except OSError as error:
            shutil.rmtree(run.folder, ignore_errors=True)
            raise CannotBegin(f"its supervisor cannot be started: {error.strerror or error}") from None
        finally:
            run.close()  # the supervisor has inherited the lock
        threading.Thread(
            target=_wait_for_supervisor, args=(supervisor, ended), name=f"end of {job.id}", daemon=True
        ).start()

    def _build_order(self, job: Job, workplace: JobEnvironment) -> bytes:
        order = {
            "argv": ["/bin/sh", "-c", job.command],
            "cwd": str(workplace.cwd),
            "env": {**workplace.env, JOB_VARIABLE: job.id},
            "seconds": job.seconds,
            "output": job.output,
            "grace": self.grace,
        }
        return json.dumps(order).encode()

    def _start_supervisor(self, run: SpooledRun, order: bytes) -> subprocess.Popen[bytes]:
        control = _make_control_fifo(run.folder)
        try:
            command = [sys.executable, "-P", "-m", "semel.tools.exec.supervisor"]
            environment = {name: os.environ[name] for name in SUPERVISOR_VARIABLES if name in os.environ}
            with (run.folder / "supervisor.log").open("wb") as log:
                supervisor = subprocess.Popen(
                    [*command, str(run.folder), str(run.lock), str(control)],
                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log, pass_fds=(run.lock, control),
                    start_new_session=True, cwd="/", env=environment,
                )  # fmt: skip
        finally:
            os.close(control)
        try:
            _send_order(supervisor, order)
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
            control = os.open(self._spool.folder / id / CONTROL_FIFO, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
        folder = self._spool.folder
        return {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()

    def orphans(self) -> list[Orphan]:
        """See `ports.Background`."""
        orphans: list[Orphan] = []
        for run in self._spool.orphans():
            report_lost_run(run, _kill_leftovers)
            orphans.append(_Orphan(run))
        for problem in self._spool.damaged:
            if problem not in self._logged_damage:
                log.error("a job cannot be reported: %s", problem)
            self._logged_damage.add(problem)
        self._spool.damaged.clear()
        return orphans


class _Orphan:
    def __init__(self, run: SpooledRun) -> None:
        self.run = run
        self.session = str(run.info["session"])
        self._open = [report for report in run.reports if report.state == "open"]

    def __repr__(self) -> str:
        return f"<Orphan {self.run!r}>"

    def reports(self) -> list[Json]:
        return [report.body for report in self._open]

    def release(self, heard: int) -> None:
        for report in self._open[:heard]:
            self.run.acknowledge(report)
        self.run.close()


def _kill_leftovers(run: SpooledRun) -> bool:
    """Kill the remaining processes of a job whose supervisor is gone: its group, and every process with the job's id
    in its environment. Returns whether there were any."""
    process = run.process
    killed = False
    if process is not None and process["born"] is not None:
        pid = int(process["pid"])
        killed = kill_group_if_same(pid, pid, process["born"])
    return kill_tagged_processes(run.id, JOB_VARIABLE) > 0 or killed


def _wait_for_supervisor(supervisor: subprocess.Popen[bytes], ended: Callable[[], None]) -> None:
    supervisor.wait()
    ended()


def _make_control_fifo(folder: Path) -> int:
    """Create the control FIFO and open it for reading and writing: a cancel may be written before it is read."""
    os.mkfifo(folder / CONTROL_FIFO, 0o600)
    return os.open(folder / CONTROL_FIFO, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _send_order(supervisor: subprocess.Popen[bytes], order: bytes) -> None:
    assert supervisor.stdin is not None
    try:
        supervisor.stdin.write(order)
    finally:
        with contextlib.suppress(BrokenPipeError):
            supervisor.stdin.close()
