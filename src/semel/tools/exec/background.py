"""Background jobs as a gateway sees them: it starts supervisors, tells them to cancel, and finds what they left.

The order of a start: the row is in the ledger, then the run is in the spool, then its supervisor gets the lock of it
and what to run. A gateway that dies in between leaves a row without a run (it was never started), or a run whose lock
is free (it is lost); nothing can start it again (Law 9).
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
from semel.gateway.process_identity import JOB, kill_group_if_same, kill_strays
from semel.tools.exec import reports
from semel.tools.exec.reporter import Target
from semel.tools.exec.spool import Run, Spool
from semel.tools.exec.watch import ROOM, adopt

log = logging.getLogger("semel.jobs")

Json = dict[str, Any]

SPOOL = "jobs"  # in the data directory
CONTROL = "control"  # a FIFO: a line in it cancels the job, and says who wants that
GRACE = 5.0  # seconds between SIGTERM and SIGKILL
OWN = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What a supervisor gets of the gateway's environment: no secret, and nothing of an agent's."""


@dataclass(frozen=True)
class Workplace:
    """Where the jobs of an agent run, and with which environment."""

    cwd: Path
    env: Mapping[str, str] = field(repr=False)


class Supervisors:
    """`ports.Background`: one supervisor process a job."""

    def __init__(self, data_dir: Path, workplaces: Mapping[str, Workplace], grace: float = GRACE) -> None:
        self.to = Target(data_dir)
        self.workplaces = workplaces
        self.grace = grace
        self._spool = Spool(data_dir, SPOOL)
        self._named: set[str] = set()  # damaged runs that the log names already

    def __repr__(self) -> str:
        return f"<Supervisors of {self._spool.place}>"

    # ------------------------------------------------------------ starting one

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
            run = self._spool.begin(job.id, about, ROOM)
        except OSError as error:
            raise CannotBegin(f"{self._spool.place} cannot be written: {error.strerror or error}") from None
        try:
            supervisor = self._start(run, self._order(job, at))
        except OSError as error:
            shutil.rmtree(run.place, ignore_errors=True)
            raise CannotBegin(f"its supervisor cannot be started: {error.strerror or error}") from None
        finally:
            run.close()  # its lock is the supervisor's from here on
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
                    start_new_session=True, cwd="/", env=_own_environment(),
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

    # ------------------------------------------------------------ those that run

    def cancel(self, id: str, by: str) -> bool:
        """See `ports.Background`."""
        line = " ".join(by.split())[:200] or "somebody"
        try:
            control = os.open(self._spool.place / id / CONTROL, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # its run is gone, or nobody reads it
            return False
        try:
            os.write(control, f"{line}\n".encode())
        except BlockingIOError:
            pass  # it was told so often that the FIFO is full
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
            adopt(run, _end)
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


def _end(run: Run) -> bool:
    """End what is left of a job whose supervisor is gone: the group that is known, and whatever bears its mark."""
    process = run.process
    found = False
    if process is not None and process["born"] is not None:
        pid = int(process["pid"])
        found = kill_group_if_same(pid, pid, process["born"])
    return kill_strays(run.id, JOB) > 0 or found


def _reap(supervisor: subprocess.Popen[bytes], ended: Callable[[], None]) -> None:
    supervisor.wait()
    ended()


def _control(place: Path) -> int:
    """Both ends of the FIFO, so that what is written is kept until the supervisor reads it."""
    os.mkfifo(place / CONTROL, 0o600)
    return os.open(place / CONTROL, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _hand_over(supervisor: subprocess.Popen[bytes], order: bytes) -> None:
    assert supervisor.stdin is not None
    try:
        supervisor.stdin.write(order)
    finally:
        with contextlib.suppress(BrokenPipeError):
            supervisor.stdin.close()


def _own_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in OWN if name in os.environ}
