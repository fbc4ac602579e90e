"""The supervisor of one background job: a process in a session of its own that outlives the gateway and the agent, so
that the job's end is reported whatever happens to them.

Run as `python -P -m semel.tools.exec.supervisor PLACE LOCK CONTROL`. PLACE is the run's directory in the spool. LOCK
and CONTROL are inherited descriptors: of the run's lock and of its FIFO `control`. The order (what to run) is one JSON
object on stdin, because other users can read command lines and environments. If it is incomplete, the gateway died
while it wrote, and nothing is run.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from semel.tools.exec import reports
from semel.tools.exec.command import CannotRun, Command
from semel.tools.exec.output import Output
from semel.tools.exec.reporter import Reporter, Target
from semel.tools.exec.spool import FINISHED, Run
from semel.tools.exec.watch import run_and_report

Json = dict[str, Any]

REPORT_TIMEOUT_S = 600.0  # seconds; afterwards the next gateway finds the report in the spool
NOT_RUN_EXIT_CODE = 125  # as `env` and `timeout` use it


class Stopper(threading.Thread):
    """A thread that ends the command at its time limit, or when a line arrives in the control FIFO, whichever comes
    first. `why` is {"timeout": seconds} or {"cancelled_by": who}."""

    def __init__(self, command: Command, control: int, seconds: float, grace: float) -> None:
        super().__init__(name="stopper", daemon=True)
        self.command = command
        self.why: Json | None = None
        self._control = control
        self._seconds = seconds
        self._grace = grace

    def run(self) -> None:
        self.why = self._wait()
        self.command.stop(self._grace)

    def _wait(self) -> Json:
        poll, ends, told = select.poll(), time.monotonic() + self._seconds, b""
        poll.register(self._control, select.POLLIN)
        while (left := ends - time.monotonic()) > 0:
            if poll.poll(min(left, 3600.0) * 1000):
                told += os.read(self._control, 4096)
            if b"\n" in told:
                return {"cancelled_by": told.partition(b"\n")[0].decode(errors="replace")}
        return {"timeout": self._seconds}


def main() -> None:
    place, lock, control = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for descriptor in (lock, control):
        os.set_inheritable(descriptor, False)
    _pass_on_signals(control)
    order = _read_order()
    run = Run.held(place, lock)
    reporter = Reporter()
    line = reporter.add(run, Target.of(run.about["to"]))
    reporter.start()
    try:
        if order is None:
            raise OSError("the gateway ended before it had handed it over")
        run.handed()
    except OSError as error:
        why = f"{error.strerror or error}; nothing was run"
        run.put(FINISHED, reports.build_not_started(run.id, run.about, NOT_RUN_EXIT_CODE, why))
        reporter.news(line)
    else:
        _supervise(run, order, control, lambda: reporter.news(line))
    reporter.wait([line], REPORT_TIMEOUT_S, threading.Event())
    if reporter.stop():
        run.close()


def _supervise(run: Run, order: Json, control: int, news: Any) -> None:
    output = Output(run.output, 0, reports.TAIL, int(order["output"]))
    command = Command(order["argv"], output, env=order["env"], cwd=Path(order["cwd"]), shown=False)
    stopper = Stopper(command, control, float(order["seconds"]), float(order["grace"]))

    def started_or_over() -> None:
        if command.running and not stopper.ident:
            stopper.start()
        news()

    with contextlib.suppress(CannotRun):  # reported through the spool already
        run_and_report(run, command, started_or_over, sweep=float(order["grace"]), stopped=lambda: stopper.why)


def _read_order() -> Json | None:
    """Read the order from stdin; `None` if it is incomplete. Then makes /dev/null the stdin of us and the command."""
    told = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        return dict(json.loads(told))
    except ValueError:
        return None


def _pass_on_signals(control: int) -> None:
    """Treat a signal (a machine that shuts down) as a cancel: the command is ended and its end still reported."""

    def asked(number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(control, f"{signal.Signals(number).name} to its supervisor\n".encode())

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, asked)


if __name__ == "__main__":
    main()
