"""Start Python processes quickly: forked from a process that has imported Semel already (`fork_server`).

    process = start_python("-m", "semel", "up", env=env, cwd=home, stdout=log, stderr=log)
    done = run_python("-m", "semel", "status", env=env, cwd=home)

Imports are most of what `semel` costs at its start; the tests start it hundreds of times.

What is forked is a process as `subprocess.Popen([sys.executable, ...])` starts one: it has its own pid, environment,
working directory, stdin, stdout and stderr, the default signal handlers, no other open descriptor, no other thread and
no event loop. /proc shows its own arguments and variables, any signal ends it, and it ends as Python does. It is in the
process group of the tests unless it has a session of its own. The server has imported modules and done nothing else:
it has opened no ledger, read no configuration, set up no logging, and drawn from no random numbers but those of the
imports. Python seeds `random` anew after a fork.

What differs: its parent is the server, which reaps it at once; its modules are imported already, and are not taken
apart at its end; all processes of one server share the hash seed. So what is promised about imports, about the first
moments of a process, or about its parent is tested with `subprocess`. `start_python` itself starts a new interpreter
for variables that only that reads.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOM_BYTES = 16384  # in the server's arguments and in its environment, for those of the processes that are forked
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "FORCE_COLOR", "PY_COLORS", "TERMINAL_WIDTH")
"""How variables begin that Python, libc or a library reads before a forked process has its environment."""

File = int | IO[Any] | None


class PythonProcess:
    """A process that runs `python ARGS`, with the attributes and methods of `subprocess.Popen` that the tests use.

    args           -m MODULE, -c CODE or the path of a script; then its arguments
    stdin ...      as for `Popen`: None, a descriptor or file, PIPE, DEVNULL, STDOUT; `text` applies to the pipes
    interruptible  whether SIGINT raises KeyboardInterrupt; by default, unless these tests ignore it: what a shell
                   starts in the background does, and so does all it starts
    on_terminal    whether stdin is a terminal that becomes its own, in a session of its own
    """

    stdin: IO[Any]
    stdout: IO[Any]
    stderr: IO[Any]

    def __init__(
        self, *args: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: File = None,
        stdout: File = None, stderr: File = None, text: bool = False, interruptible: bool | None = None,
        start_new_session: bool = False, on_terminal: bool = False,
    ) -> None:  # fmt: skip
        self.args = [str(arg) for arg in args]
        self.returncode: int | None = None
        self._reading = threading.Lock()
        env, server = dict(os.environ if env is None else env), _share_server()
        if start_options := server.find_start_options(self.args, env):
            raise ValueError(f"only the start of Python reads {', '.join(start_options)}: use subprocess")
        with contextlib.ExitStack() as theirs:  # descriptors that are closed here once the process has them
            pipes = _Pipes(theirs, text)
            given = [pipes.open_input(stdin), pipes.open_output(stdout, 1)]
            given.append(pipes.open_output(given[1] if stderr == subprocess.STDOUT else stderr, 2))
            status, their_status = os.pipe()
            theirs.callback(os.close, their_status)
            self._status = status
            weakref.finalize(self, os.close, status)
            if interruptible is None:
                interruptible = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
            server.start(
                [*given, their_status], args=self.args, env=env, cwd=str(cwd or Path.cwd()),
                interruptible=interruptible, new_session=start_new_session, on_terminal=on_terminal,
            )  # fmt: skip
        self.stdin, self.stdout, self.stderr = pipes.ours
        self.pid = int(self._read_status() or 0)
        assert self.pid, "the fork server has ended: what it said is on stderr"

    def __repr__(self) -> str:
        return f"<PythonProcess {self.pid} {self.args} returncode={self.returncode}>"

    def __del__(self) -> None:
        if getattr(self, "pid", 0) and self.returncode is None:
            warnings.warn(f"{self!r} is still running", ResourceWarning, source=self, stacklevel=2)

    def __enter__(self) -> PythonProcess:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                file.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code. Raises `subprocess.TimeoutExpired`."""
        poller = select.poll()
        poller.register(self._status, select.POLLIN)
        if self.returncode is None and not poller.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        with self._reading:  # threads may wait for one process
            if self.returncode is None:
                self.returncode = int(self._read_status() or -signal.SIGKILL)  # all end with the server
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write `input`, read all output and wait. Returns stdout and stderr. Raises `subprocess.TimeoutExpired`."""
        end = None if timeout is None else time.monotonic() + timeout
        outputs: list[Any] = [None, None]

        def read(index: int, file: IO[Any]) -> None:
            outputs[index] = file.read()
            file.close()

        readers = [
            threading.Thread(target=read, args=(index, file), daemon=True)
            for index, file in enumerate((self.stdout, self.stderr))
            if file is not None and not file.closed
        ]
        for reader in readers:
            reader.start()
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                if input:
                    self.stdin.write(input)
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
        for reader in readers:
            reader.join(None if end is None else max(0.0, end - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if end is None else max(0.0, end - time.monotonic()))
        return outputs[0], outputs[1]

    def _read_status(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            if not (byte := os.read(self._status, 1)):
                return b""
            line += byte
        return line


Process = PythonProcess | subprocess.Popen[Any]


def start_python(*args: str | Path, **options: Any) -> Process:
    """Start `python ARGS`: forked, or as a new interpreter if only that reads the variables or options it is given."""
    texts, env = [str(arg) for arg in args], options.get("env")
    if not _share_server().find_start_options(texts, dict(os.environ if env is None else env)):
        return PythonProcess(*args, **options)
    interruptible, on_terminal = options.pop("interruptible", None), options.pop("on_terminal", False)

    def prepare() -> None:
        if interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if on_terminal:
            os.login_tty(0)

    if interruptible or on_terminal:
        options["preexec_fn"] = prepare
    return subprocess.Popen([sys.executable, *texts], **options)


def run_python(
    *args: str | Path, input: Any = None, timeout: float | None = None, check: bool = False, text: bool = True,
    stdin: File = subprocess.DEVNULL, **options: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """Run `python ARGS` to its end, with its output captured, as `subprocess.run` does."""
    pipe = subprocess.PIPE
    process = start_python(
        *args, stdin=stdin if input is None else pipe, stdout=pipe, stderr=pipe, text=text, **options
    )
    try:
        stdout, stderr = process.communicate(input, timeout)
    except BaseException:
        process.kill()
        process.wait()
        raise
    done = subprocess.CompletedProcess([sys.executable, *map(str, args)], process.wait(), stdout, stderr)
    if check:
        done.check_returncode()
    return done


class _Pipes:
    """The ends of a process's stdin, stdout and stderr: `ours`, None where it has no pipe, and theirs."""

    def __init__(self, theirs: contextlib.ExitStack, text: bool) -> None:
        self.ours: list[Any] = []
        self._theirs, self._text = theirs, text

    def open_input(self, file: File) -> int:
        if file != subprocess.PIPE:
            return self._open_file(file, 0, os.O_RDONLY)
        reader, writer = os.pipe()
        self._theirs.callback(os.close, reader)
        self.ours.append(os.fdopen(writer, "w", 1) if self._text else os.fdopen(writer, "wb"))
        return reader

    def open_output(self, file: File, number: int) -> int:
        if file != subprocess.PIPE:
            return self._open_file(file, number, os.O_WRONLY)
        reader, writer = os.pipe()
        self._theirs.callback(os.close, writer)
        self.ours.append(os.fdopen(reader) if self._text else os.fdopen(reader, "rb"))
        return writer

    def _open_file(self, file: File, number: int, mode: int) -> int:
        self.ours.append(None)
        if file is None:
            return number
        if file == subprocess.DEVNULL:
            null = os.open(os.devnull, mode)
            self._theirs.callback(os.close, null)
            return null
        return file if isinstance(file, int) else file.fileno()


class _ForkServer:
    """The process `fork_server.py`."""

    def __init__(self) -> None:
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(("SEMEL_", "XDG_"))}
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("fork_server.py"), str(theirs.fileno()), "." * ROOM_BYTES],
                env={**self._env, "ROOM": "." * ROOM_BYTES}, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def find_start_options(self, args: list[str], env: dict[str, str]) -> list[str]:
        """Return the variables and options that only a new interpreter can read."""
        changed = sorted({name for name, _ in self._env.items() ^ env.items() if name.startswith(READ_AT_START)})
        return changed + ([args[0]] if args[0].startswith("-") and args[0] not in ("-m", "-c") else [])

    def start(self, descriptors: list[int], **job: Any) -> None:
        """Fork a process. `job`: see `fork_server.Job`; `descriptors`: for its stdin, stdout, stderr and status."""
        socket.send_fds(self._control, [json.dumps(job).encode()], descriptors)

    def close(self) -> None:
        self._control.close()
        self._process.wait()


_creating = threading.Lock()


def _share_server() -> _ForkServer:
    with _creating:
        return _create_server()


@cache
def _create_server() -> _ForkServer:
    server = _ForkServer()
    atexit.register(server.close)
    return server
