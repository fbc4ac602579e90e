"""Run the command: a process in a session of its own, whose output is shown and recorded.

The command's exit ends the run, although processes that it left running may hold the pipes open. `wait` ends those of
them that are in the command's process group, if the caller wants that. The output of the others is recorded for two
more seconds at most.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from semel.gateway.process_identity import list_group_members
from semel.gateway.start_errors import correct_start_error
from semel.tools.exec.output import OutputRecorder

TRAILING_QUIET_S = 0.2  # after the exit: stop reading after so many seconds without output
MAX_TRAILING_OUTPUT_S = 2.0  # after the exit: stop reading even if output goes on


class CannotRun(Exception):
    """The command could not be started. `code` is the exit code that a shell would return: 126 or 127."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class CommandExit:
    """How a command ended. `code` is its exit code, or 128 + n after signal n, as in shells.

    `seconds`: how long it ran. `at`: when it ended, in seconds since the epoch.
    """

    code: int
    signal: str | None
    seconds: float
    at: float


class CommandProcess:
    """One command: `start`, then `wait`. In between, a signal handler may call `signal`, another thread `stop`.

    The command gets a session of its own. So Ctrl-C reaches it only through us, and a program that wants to ask on the
    terminal fails, instead of being stopped in the background forever.

    env, cwd      default: ours
    show_output   copy the command's output to our stdout and stderr
    """

    def __init__(
        self,
        argv: Sequence[str],
        output: OutputRecorder,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        show_output: bool = True,
    ) -> None:
        self.argv = list(argv)
        self.output = output
        self.env = env
        self.cwd = cwd
        self.show_output = show_output
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._signals_sent = 0
        self._ended = threading.Event()
        self._pumps: list[threading.Thread] = []

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def start(self) -> None:
        """Start the process and the threads that read its output. Raises CannotRun."""
        terminal = sys.stdin is None or sys.stdin.closed or sys.stdin.isatty()
        self._began = time.monotonic()
        try:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL if terminal else None,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env=self.env,
                cwd=self.cwd,
            )
        except OSError as error:
            reason = correct_start_error(self.argv[0], error, (self.env or os.environ).get("PATH", os.defpath))
            if not isinstance(reason, FileNotFoundError):
                raise CannotRun(126, f"{self.argv[0]}: {reason.strerror or reason}") from None
            if self.cwd is not None and not self.cwd.is_dir():
                raise CannotRun(126, f"{self.cwd}: no such directory") from None
            raise CannotRun(127, self._describe_missing()) from None
        assert self._process.stdout is not None and self._process.stderr is not None
        for name, source, terminal_fd in (("out", self._process.stdout, 1), ("err", self._process.stderr, 2)):
            pump = threading.Thread(target=self._pump, args=(name, source, terminal_fd), daemon=True)
            self._pumps.append(pump)
            pump.start()

    def _describe_missing(self) -> str:
        is_line = len(self.argv) == 1 and any(character.isspace() for character in self.argv[0])
        hint = "; write a line for the shell as: sh -c 'LINE'" if is_line else ""
        return f"{self.argv[0]}: no such command{hint}"

    def signal(self, number: int) -> None:
        """Forward a signal to the whole group; the third one is sent as SIGKILL."""
        self._signals_sent += 1
        self._signal_group(number if self._signals_sent < 3 else signal.SIGKILL)

    def stop(self, grace: float) -> None:
        """Send SIGTERM to the whole group, and SIGKILL after each `grace` seconds until the command has ended."""
        self._signal_group(signal.SIGTERM)
        while not self._ended.wait(grace):
            self._signal_group(signal.SIGKILL)

    def wait(self, leftover_grace: float | None = None) -> CommandExit:
        """Wait until the command has ended and its output is recorded.

        leftover_grace: processes that the command left in its group get SIGTERM, and SIGKILL after this many seconds.
        If it is None, they go on running, and are not waited for.
        """
        assert self._process is not None
        self._wait_for_exit()
        seconds, at = time.monotonic() - self._began, time.time()
        if leftover_grace is not None:
            self._end_leftovers(leftover_grace)
        code = self._process.wait()
        self._ended.set()
        for pump in self._pumps:
            while pump.is_alive() and self._signals_sent < 3:
                pump.join(0.1)
        self.output.end()
        if code < 0:
            return CommandExit(128 - code, _name_signal(-code), seconds, at)
        return CommandExit(code, None, seconds, at)

    def _wait_for_exit(self) -> None:
        """Wait for the command's exit. If possible, do not reap it yet: its pid (its group's id) must not be reused."""
        assert self._process is not None
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()

    def _end_leftovers(self, grace_s: float) -> None:
        """End the processes that the command left in its group: SIGTERM, then SIGKILL after `grace_s` seconds."""
        deadline = time.monotonic() + grace_s
        for number in (signal.SIGTERM, signal.SIGKILL):
            if list_group_members(self.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)
            while list_group_members(self.pid) and time.monotonic() < deadline:
                time.sleep(0.02)

    def _signal_group(self, number: int) -> None:
        if self.running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _pump(self, name: str, source: IO[bytes], terminal_fd: int) -> None:
        with source:
            self._carry(name, source.fileno(), terminal_fd)

    def _carry(self, name: str, source: int, terminal_fd: int) -> None:
        """Copy a pipe to the recorded output and the terminal until the pipe is closed.

        After the command's end, stop as soon as the pipe is quiet, or after MAX_TRAILING_OUTPUT_S.
        """
        poll, is_shown = select.poll(), self.show_output
        poll.register(source, select.POLLIN | select.POLLHUP | select.POLLERR)
        deadline: float | None = None
        while True:
            ready = poll.poll(TRAILING_QUIET_S * 1000)
            if self._ended.is_set():
                deadline = deadline or time.monotonic() + MAX_TRAILING_OUTPUT_S
                if not ready or time.monotonic() > deadline:
                    break
            if ready:
                chunk = os.read(source, 65536)
                self.output.take(name, chunk)
                if not chunk:
                    break
                is_shown = is_shown and _write_through(terminal_fd, chunk)


def _write_through(terminal: int, chunk: bytes) -> bool:
    """Write to our stdout or stderr. Returns False if nobody reads it any more (`semel exec ... | head`)."""
    while chunk:
        try:
            chunk = chunk[os.write(terminal, chunk) :]
        except BlockingIOError:
            select.select([], [terminal], [])
        except OSError:
            return False
    return True


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
