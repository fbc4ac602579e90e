"""`semel exec`: run a command and report it, and report the runs whose own reporter was killed as lost."""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from semel.gateway.process_identity import read_identity
from semel.tools.exec import reports
from semel.tools.exec.command import CannotRun, CommandExit, CommandProcess
from semel.tools.exec.output import OutputRecorder
from semel.tools.exec.reporter import Reporter, ReportQueue, Target
from semel.tools.exec.spool import FINISHED, LOST, STARTED, Spool, SpooledReport, SpooledRun

ShowLine = Callable[[str], None]

RESERVE_BYTES = 128 * 1024  # reserved for the report of a command that fills the disk; more with --attach
FIRST_ANSWER_S, FIRST_ANSWER_STEP_S = 2.0, 0.2
"""Seconds for which a gateway's first answer is awaited silently, unless an attempt fails; and between two looks."""
FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class ExecRunner:
    """One call of `semel exec -- CMD...`. `show_line` prints a line for the user."""

    def __init__(self, spool: Spool, target: Target, show_line: ShowLine) -> None:
        self.spool = spool
        self.target = target
        self.show_line = show_line
        self.reporter = Reporter()
        self.interrupted = threading.Event()
        self._command: CommandProcess | None = None

    def run(self, session: str, node: str, argv: Sequence[str], attach: bool, timeout: float) -> int:
        """Run a command and return its exit code; waits up to `timeout` seconds until its report is acknowledged.

        Raises OSError if the spool cannot be written; then nothing was started.
        """
        info = {**reports.describe_run(node, session, argv, time.time()), "to": self.target.to_dict()}
        run = self.spool.begin(
            secrets.token_hex(16), info, reports.MAX_OUTPUT_JSON_BYTES + RESERVE_BYTES if attach else RESERVE_BYTES
        )
        head, tail = (reports.ATTACHED_END_BYTES, reports.ATTACHED_END_BYTES) if attach else (0, reports.TAIL_BYTES)
        output = OutputRecorder(run.output, head, tail)
        with self._forward_signals():
            own_queue = self.reporter.add_run(run, self.target)
            self._adopt_orphans()
            self.reporter.start()
            code = self._run_command(run, own_queue, CommandProcess(argv, output))
            self._wait_for_gateway(own_queue, timeout)
        self._close()
        return code

    def _run_command(self, run: SpooledRun, own_queue: ReportQueue, command: CommandProcess) -> int:
        self._command = command
        try:
            ended, report = run_and_report(run, command, lambda: self.reporter.wake(own_queue))
        except CannotRun as error:
            self.show_line(f"{error}; nothing was run")
            return error.code
        if report.path is None:
            self.show_line(
                f"the report could not be written to the spool ({report.reason}): until the gateway has it, it is only "
                "in memory"
            )
        return ended.code

    def _adopt_orphans(self) -> None:
        try:
            for run in self.spool.orphans():
                report_lost_run(run)
                self.reporter.add_run(run, read_target(run, self.target))
        except OSError as error:  # leave them to the next `semel exec`; this run goes on
            self.show_line(f"earlier runs in {self.spool.folder} cannot be read: {error.strerror or error}")
        for problem in self.spool.damaged:
            self.show_line(problem)

    def _wait_for_gateway(self, own_queue: ReportQueue, timeout: float) -> None:
        """Wait until the report is acknowledged, at most `timeout` seconds."""
        wait_for_gateway(self.reporter, [own_queue], timeout, self.interrupted, self.show_line)
        if not own_queue.open_reports:  # the gateway answers, so post the reports of earlier runs, too
            same_target = [line for line in self.reporter.queues if line.target == self.target]
            self.reporter.wait(same_target, min(timeout, 2.0), self.interrupted)
        print_unacknowledged(own_queue, self.show_line)

    def _close(self) -> None:
        if self.reporter.stop(1.0):
            for line in self.reporter.queues:
                line.run.close()

    # ------------------------------------------------------------ signals

    @contextlib.contextmanager
    def _forward_signals(self) -> Iterator[None]:
        """Forward signals to the command while it runs; afterwards a signal ends the wait for the gateway."""
        handlers = {number: signal.getsignal(number) for number in FORWARDED_SIGNALS}
        handled_signals = [number for number, handler in handlers.items() if handler is not signal.SIG_IGN]
        for number in handled_signals:
            signal.signal(number, self._handle_signal)
        try:
            yield
        finally:
            for number in handled_signals:
                signal.signal(number, handlers[number])

    def _handle_signal(self, number: int, _frame: object) -> None:
        if self._command is not None and self._command.running:
            self._command.signal(number)
        else:
            self.interrupted.set()


def wait_for_gateway(
    reporter: Reporter,
    queues: Sequence[ReportQueue],
    timeout: float,
    interrupted: threading.Event,
    show_line: ShowLine,
) -> None:
    """Wait until the reports of these runs are acknowledged, at most `timeout` seconds.

    If the first attempts fail, say at once why, and how long it waits.
    """
    deadline = time.monotonic() + timeout
    for _ in range(round(FIRST_ANSWER_S / FIRST_ANSWER_STEP_S)):
        if reporter.wait(queues, min(timeout, FIRST_ANSWER_STEP_S), interrupted) or interrupted.is_set():
            break
        if all(queue.failure_reason for queue in queues if queue.open_reports):
            break
    left = deadline - time.monotonic()
    waiting = [queue for queue in queues if queue.open_reports]
    if waiting and left > 0 and not interrupted.is_set():
        if left >= 1:
            show_line(_describe_wait(waiting, left))
        reporter.wait(queues, left, interrupted)


def _describe_wait(waiting: Sequence[ReportQueue], seconds_left: float) -> str:
    reasons = dict.fromkeys(queue.failure_reason or "the gateway has not answered yet" for queue in waiting)
    is_one = len(waiting) == 1
    subject, pronoun = ("the report waits", "it") if is_one else (f"the reports of {len(waiting)} runs wait", "them")
    return (
        f"{subject} for the gateway, {format_seconds(seconds_left)} at most: {'; '.join(reasons)}. Ctrl-C leaves "
        f"{pronoun} in the spool, and `semel exec --flush` sends {pronoun} later"
    )


def format_seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def run_and_report(
    run: SpooledRun,
    command: CommandProcess,
    on_report: Callable[[], None],
    *,
    leftover_grace: float | None = None,
    stop_reason: Callable[[], dict[str, Any] | None] = lambda: None,
) -> tuple[CommandExit, SpooledReport]:
    """Run a command to its end and put reports of its start and its end into the spool. Returns (how it ended, the
    report of its end).

    on_report        called after each report, to wake the reporter
    leftover_grace   see `CommandProcess.wait`
    stop_reason      returns why we ended the command, or `None` (see `reports.build_finished`)

    Raises CannotRun if the command cannot be started; that is reported as well.
    """
    try:
        command.start()
    except CannotRun as error:
        run.add_report(FINISHED, reports.build_not_started(run.id, run.info, error.code, str(error), time.time()))
        on_report()
        raise
    run.record_process(command.pid, read_identity(command.pid), time.time())
    run.add_report(STARTED, reports.build_started(run.id, run.info, command.pid))
    on_report()
    ended = command.wait(leftover_grace)
    report = run.add_report(FINISHED, reports.build_finished(run.id, run.info, ended, command.output, stop_reason()))
    on_report()
    return ended, report


def flush_reports(
    spools: Sequence[Spool], ids: Sequence[str], target: Target, override: bool, timeout: float, show_line: ShowLine
) -> tuple[list[str], int]:
    """Post the reports that earlier runs left; returns (acknowledged reports, number of runs that remain).

    Runs whose own reporter still lives are skipped. `ids`: of the runs to post; if empty, all. `override`: post to
    `target`, not to each run's own target.
    """
    reporter, interrupted = Reporter(), threading.Event()
    for spool in spools:
        for run in spool.orphans():
            if ids and run.id not in ids:
                run.close()
                continue
            report_lost_run(run)
            reporter.add_run(run, target if override else read_target(run, target))
        for problem in spool.damaged:
            show_line(problem)
    remaining = sum(len(spool.damaged) for spool in spools)
    open_reports = [(queue, list(queue.open_reports)) for queue in reporter.queues]
    handler = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        reporter.start()
        wait_for_gateway(reporter, reporter.queues, timeout, interrupted, show_line)
    finally:
        signal.signal(signal.SIGINT, handler)
    acknowledged = [
        f"{queue.run.id} {report.kind} {queue.run.info['session']}"
        for queue, reports_ in open_reports
        for report in reports_
        if report.state == "taken"
    ]
    for queue in reporter.queues:
        print_unacknowledged(queue, show_line)
        remaining += bool(queue.open_reports or queue.refused_reports)
    if reporter.stop(1.0):
        for queue in reporter.queues:
            queue.run.close()
    return acknowledged, remaining


def report_lost_run(run: SpooledRun, kill_leftovers: Callable[[SpooledRun], bool] = lambda _: False) -> None:
    """Add an `exec.lost` report to a run whose reporter is gone, unless its end was reported.

    kill_leftovers: kills the run's remaining processes and returns whether there were any.
    """
    if run.is_over:
        return
    process = run.process
    alive = (
        process is not None and process["born"] is not None and read_identity(int(process["pid"])) == process["born"]
    )
    if run.never_started:
        run.add_report(LOST, reports.build_never_started(run.id, run.info))
    else:
        run.add_report(
            LOST, reports.build_lost(run.id, run.info, process, alive, run.output, killed=kill_leftovers(run))
        )


def read_target(run: SpooledRun, default: Target) -> Target:
    """Return the target stored in the run; `default` if there is none."""
    try:
        return Target.from_dict(run.info["to"])
    except (KeyError, TypeError, AttributeError):
        return default


def print_unacknowledged(queue: ReportQueue, show_line: ShowLine) -> None:
    """Tell the user what the gateway noted, which reports of a run are not acknowledged, why, and where they are kept.

    Print nothing if the gateway has them all and noted nothing.
    """
    for note in queue.notes:
        show_line(note)
    for report in queue.refused_reports:
        show_line(f"the gateway refuses {report.kind} of run {queue.run.id}: {report.reason}")
    open_reports = queue.open_reports
    if open_reports:
        reason = f": {queue.failure_reason}" if queue.failure_reason else ""
        show_line(f"{' and '.join(report.kind for report in open_reports)} of run {queue.run.id} not taken yet{reason}")
    if not open_reports and not queue.refused_reports:
        return
    give_up = f"to give it up: semel exec --drop --run {queue.run.id}"
    if any(report.path is None for report in (*open_reports, *queue.refused_reports)):
        show_line(f"it could not be written to {queue.run.folder}; a later `semel exec` reports the run as lost")
    elif open_reports:
        show_line(f"kept in {queue.run.folder}; the next `semel exec` of this node, or `semel exec --flush`, sends it")
        if queue.target.url is not None:
            show_line(
                f"if the address is wrong, name another: semel exec --flush --run {queue.run.id} --url URL; {give_up}"
            )
    else:
        show_line(f"kept in {queue.run.folder}: when the reason is mended, `semel exec --flush` sends it; {give_up}")


def flush_stdout() -> None:
    """Flush Python's own output, so that it appears before the command's."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
