"""The supervisor of one background job: a process in a session of its own that outlives the gateway and the agent, so
that the job's end is reported whatever happens to them.

Run as `python -P -m semel.tools.exec.supervisor PLACE LOCK CONTROL`. PLACE is the run's directory in the spool. LOCK
and CONTROL are inherited descriptors: of the run's lock and of its FIFO `control`. The order (what to run) is one JSON
object on stdin, because other users can read command lines and environments. If the order is incomplete, the gateway
died while it wrote, and nothing is run.
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

from semel.text.json_types import Json
from semel.tools.exec import reports
from semel.tools.exec.command import CannotRun, CommandProcess
from semel.tools.exec.output import OutputRecorder
from semel.tools.exec.reporter import Reporter, Target
from semel.tools.exec.runner import run_and_report
from semel.tools.exec.spool import FINISHED, SpooledRun

REPORT_TIMEOUT_S = 600.0  # seconds; afterwards the next gateway finds the report in the spool
NOT_RUN_EXIT_CODE = 125  # as `env` and `timeout` use it


class Stopper(threading.Thread):
    """A thread that ends the command at its time limit, or when a line arrives in the control FIFO, whichever comes
    first. `stop_reason` is {"timeout": seconds} or {"cancelled_by": who}."""

    def __init__(self, command: CommandProcess, control: int, seconds: float, grace: float) -> None:
        super().__init__(name="stopper", daemon=True)
        self.command = command
        self.stop_reason: Json | None = None
        self._control = control
        self._seconds = seconds
        self._grace = grace

    def run(self) -> None:
        self.stop_reason = self._wait()
        self.command.stop(self._grace)

    def _wait(self) -> Json:
        poll, deadline, received = select.poll(), time.monotonic() + self._seconds, b""
        poll.register(self._control, select.POLLIN)
        while (remaining := deadline - time.monotonic()) > 0:
            if poll.poll(min(remaining, 3600.0) * 1000):
                received += os.read(self._control, 4096)
            if b"\n" in received:
                return {"cancelled_by": received.partition(b"\n")[0].decode(errors="replace")}
        return {"timeout": self._seconds}


def main() -> None:
    folder, lock, control = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for descriptor in (lock, control):
        os.set_inheritable(descriptor, False)
    _pass_on_signals(control)
    order = _read_order()
    run = SpooledRun.open_inherited(folder, lock)
    reporter = Reporter()
    queue = reporter.add_run(run, Target.from_dict(run.info["to"]))
    reporter.start()
    try:
        if order is None:
            raise OSError("the gateway ended before it had handed over the command")
        run.record_handover()
    except OSError as error:
        reason = f"{error.strerror or error}; nothing was run"
        run.add_report(FINISHED, reports.build_not_started(run.id, run.info, NOT_RUN_EXIT_CODE, reason, time.time()))
        reporter.wake(queue)
    else:
        _supervise(run, order, control, lambda: reporter.wake(queue))
    reporter.wait([queue], REPORT_TIMEOUT_S, threading.Event())
    if reporter.stop():
        run.close()


def _supervise(run: SpooledRun, order: Json, control: int, on_report: Any) -> None:
    output = OutputRecorder(run.output, 0, reports.TAIL_BYTES, int(order["output"]))
    command = CommandProcess(order["argv"], output, env=order["env"], cwd=Path(order["cwd"]), show_output=False)
    stopper = Stopper(command, control, float(order["seconds"]), float(order["grace"]))

    def started_or_over() -> None:
        if command.running and not stopper.ident:
            stopper.start()
        on_report()

    with contextlib.suppress(CannotRun):  # reported through the spool already
        run_and_report(
            run, command, started_or_over, leftover_grace=float(order["grace"]), stop_reason=lambda: stopper.stop_reason
        )


def _read_order() -> Json | None:
    """Read the order from stdin; `None` if it is incomplete. Afterwards our stdin and the command's are /dev/null."""
    data = sys.stdin.buffer.read()
    null_device = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_device, 0)
    os.close(null_device)
    try:
        return dict(json.loads(data))
    except ValueError:
        return None


def _pass_on_signals(control: int) -> None:
    """Treat a signal, such as SIGTERM at shutdown, as a cancel: the command is ended and its end is reported."""

    def cancel_command(signal_number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(control, f"{signal.Signals(signal_number).name} to its supervisor\n".encode())

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, cancel_command)


if __name__ == "__main__":
    main()
