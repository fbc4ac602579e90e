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

from semel.gateway.process_identity import identity
from semel.tools.exec import reports
from semel.tools.exec.command import CannotRun, Command, CommandExit
from semel.tools.exec.output import Output
from semel.tools.exec.reporter import Line, Reporter, Target
from semel.tools.exec.spool import FINISHED, LOST, STARTED, Report, Run, Spool

Say = Callable[[str], None]

EXEC_FOLDER = "exec"  # in the data directory; holds the spools of all nodes
RESERVE_BYTES = 128 * 1024  # reserved on disk for the report of a command that fills it; more with --attach
FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class ExecRunner:
    """One `semel exec -- CMD...`. `say` shows a line to the user."""

    def __init__(self, spool: Spool, to: Target, say: Say) -> None:
        self.spool = spool
        self.to = to
        self.say = say
        self.reporter = Reporter()
        self.leave = threading.Event()
        self._command: Command | None = None

    def run(self, session: str, node: str, argv: Sequence[str], attach: bool, patience: float) -> int:
        """Run a command and return its exit code; waits up to `patience` seconds until its report is acknowledged.

        Raises OSError if the spool cannot be written; then nothing was started.
        """
        about = {**reports.about(node, session, argv, time.time()), "to": self.to.told()}
        run = self.spool.begin(
            secrets.token_hex(16), about, reports.MAX_OUTPUT_JSON_BYTES + RESERVE_BYTES if attach else RESERVE_BYTES
        )
        head, tail = (reports.ATTACHED_END_BYTES, reports.ATTACHED_END_BYTES) if attach else (0, reports.TAIL)
        output = Output(run.output, head, tail)
        with self._signals():
            own = self.reporter.add(run, self.to)
            self._take_over()
            self.reporter.start()
            code = self._see_through(run, own, Command(argv, output))
            self._see_off(own, patience)
        self._close()
        return code

    def _see_through(self, run: Run, own: Line, command: Command) -> int:
        self._command = command
        try:
            ended, report = run_and_report(run, command, lambda: self.reporter.news(own))
        except CannotRun as error:
            self.say(f"{error}; nothing was run")
            return error.code
        if report.path is None:
            self.say(f"the spool cannot take the report ({report.why}): it is in memory only until it is taken")
        return ended.code

    def _take_over(self) -> None:
        try:
            for run in self.spool.orphans():
                report_lost_run(run)
                self.reporter.add(run, read_target(run, self.to))
        except OSError as error:  # leave them to the next `semel exec`; this run goes on
            self.say(f"earlier runs in {self.spool.place} cannot be looked at: {error.strerror or error}")
        for what in self.spool.damaged:
            self.say(what)

    def _see_off(self, own: Line, patience: float) -> None:
        """Wait until the report is acknowledged; after 2 s, tell the user why it is not."""
        if not self.reporter.wait([own], min(patience, 2.0), self.leave) and patience > 2.0:
            self.say(
                f"the report waits: {own.why or 'the gateway has not answered yet'}. Ctrl-C leaves it in the spool"
            )
            self.reporter.wait([own], patience - 2.0, self.leave)
        if not own.open:  # the gateway answers, so post the reports of earlier runs, too
            same = [line for line in self.reporter.lines if line.to == self.to]
            self.reporter.wait(same, min(patience, 2.0), self.leave)
        told(own, self.say)

    def _close(self) -> None:
        if self.reporter.stop(1.0):
            for line in self.reporter.lines:
                line.run.close()

    # ------------------------------------------------------------ signals

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Forward signals to the command while it runs; afterwards a signal ends the wait for the gateway."""
        before = {number: signal.getsignal(number) for number in FORWARDED_SIGNALS}
        ours = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
        for number in ours:
            signal.signal(number, self._signalled)
        try:
            yield
        finally:
            for number in ours:
                signal.signal(number, before[number])

    def _signalled(self, number: int, _frame: object) -> None:
        if self._command is not None and self._command.running:
            self._command.signal(number)
        else:
            self.leave.set()


def run_and_report(
    run: Run,
    command: Command,
    news: Callable[[], None],
    *,
    sweep: float | None = None,
    stopped: Callable[[], dict[str, Any] | None] = lambda: None,
) -> tuple[CommandExit, Report]:
    """Run a command to its end and put reports of its start and its end into the spool.

    news      called after each report, to wake the reporter
    sweep     see `Command.wait`
    stopped   returns why the command was ended by us, or `None` (see `semel.tools.exec.reports`)

    Raises CannotRun if it cannot be started; that is reported as well.
    """
    try:
        command.start()
    except CannotRun as error:
        run.put(FINISHED, reports.build_not_started(run.id, run.about, error.code, str(error)))
        news()
        raise
    run.began(command.pid, identity(command.pid), time.time())
    run.put(STARTED, reports.build_started(run.id, run.about, command.pid))
    news()
    ended = command.wait(sweep)
    report = run.put(FINISHED, reports.build_finished(run.id, run.about, ended, command.output, stopped()))
    news()
    return ended, report


def flush(spools: Sequence[Spool], to: Target, override: bool, patience: float, say: Say) -> tuple[list[str], int]:
    """Post the reports that earlier runs left; returns (acknowledged reports, number of runs that remain).

    Runs whose own reporter still lives are skipped. `override`: post all to `to`, not to each run's own target.
    """
    reporter, leave = Reporter(), threading.Event()
    for spool in spools:
        for run in spool.orphans():
            report_lost_run(run)
            reporter.add(run, to if override else read_target(run, to))
        for what in spool.damaged:
            say(what)
    left = sum(len(spool.damaged) for spool in spools)
    waiting = [(line, list(line.open)) for line in reporter.lines]
    handler = signal.signal(signal.SIGINT, lambda *_: leave.set())
    try:
        reporter.start()
        reporter.wait(reporter.lines, patience, leave)
    finally:
        signal.signal(signal.SIGINT, handler)
    taken = [
        f"{line.run.id} {report.kind} {line.run.about['session']}"
        for line, reports_ in waiting
        for report in reports_
        if report.state == "taken"
    ]
    for line in reporter.lines:
        told(line, say)
        left += bool(line.open or line.refused)
    if reporter.stop(1.0):
        for line in reporter.lines:
            line.run.close()
    return taken, left


def report_lost_run(run: Run, end: Callable[[Run], bool] = lambda _: False) -> None:
    """Add an `exec.lost` report to a run whose reporter is gone, unless its end was reported.

    end: kills the run's remaining processes, if that is wanted; returns True if there were any.
    """
    if run.over:
        return
    process = run.process
    alive = process is not None and process["born"] is not None and identity(int(process["pid"])) == process["born"]
    if run.unstarted:
        run.put(LOST, reports.build_never_started(run.id, run.about))
    else:
        run.put(LOST, reports.lost(run.id, run.about, process, alive, run.output, killed=end(run)))


def read_target(run: Run, otherwise: Target) -> Target:
    """The target stored in the run; `otherwise` if there is none."""
    try:
        return Target.of(run.about["to"])
    except (KeyError, TypeError, AttributeError):
        return otherwise


def told(line: Line, say: Say) -> None:
    """Tell the user which reports of a run are not acknowledged, why, and where they are kept; nothing if all are."""
    for note in line.notes:
        say(f"run {line.run.id}: {note}")
    for report in line.refused:
        say(f"the gateway refuses {report.kind} of run {line.run.id}: {report.why}")
    open_ = line.open
    if open_:
        why = f": {line.why}" if line.why else ""
        say(f"{' and '.join(report.kind for report in open_)} of run {line.run.id} not taken yet{why}")
    if not open_ and not line.refused:
        return
    if any(report.path is None for report in (*open_, *line.refused)):
        say(f"it could not be written to {line.run.place}; a later `semel exec` tells that the run was lost")
    else:
        say(f"kept in {line.run.place}; the next `semel exec` of this node, or `semel exec --flush`, sends it")


def flush_stdout() -> None:
    """Flush Python's own output, so that it appears before the command's."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
