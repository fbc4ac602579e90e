"""The process that `python_process` forks Python processes from. It has imported Semel, so that they need not.

    python fork_server.py CONTROL

CONTROL is the descriptor of a socket (SOCK_SEQPACKET). Each message starts a process: the fields of `Job` as
a JSON object, and four descriptors: its stdin, stdout and stderr, and a pipe to which its pid and later its exit code
are written, each on a line. When the socket is closed, all processes are killed.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from starlette.routing import compile_path

MODULES = (
    *("semel.faces.run", "semel.faces.cli.start_screen", "semel.faces.service.notify", "semel.faces.process_memory"),
    *("semel.faces.health.agents", "semel.faces.health.doctor", "semel.faces.health.overview"),
    *("httpcore2", "truststore", "encodings.idna", "anyio._backends._asyncio", "anyio.streams.tls"),
    *("uvicorn.protocols.http.auto", "uvicorn.lifespan.off"),
)
"""What a gateway and the commands import when they use it."""
MAX_MESSAGE_BYTES = 1 << 20


class Job(NamedTuple):
    """A process to start, as `python_process.PythonProcess` describes it."""

    args: list[str]
    env: dict[str, str]
    cwd: str
    interruptible: bool
    new_session: bool
    on_terminal: bool


def import_semel() -> None:
    """Import and build what a gateway and the commands need, and nothing of `semel.testing`."""
    from semel.faces.cli import build_command
    from semel.faces.config.file import ConfigFile, HttpOptions
    from semel.faces.http.operations import operations
    from semel.gateway.settings import GatewaySettings

    for name in MODULES:
        importlib.import_module(name)
    build_command(None)
    for table in (ConfigFile, HttpOptions, GatewaySettings):
        table.model_rebuild()
    for operation in operations():
        compile_path(operation.path)  # `re` keeps what it has compiled
    gc.collect()
    gc.freeze()  # what was imported stays shared with the forked processes


# ---------------------------------------------------------------- the server


def serve(control: socket.socket) -> Job | None:
    """Fork a process for each message. Returns the job in the forked process, None here once `control` is closed."""
    children: dict[int, int] = {}  # pid -> the pipe for its exit code
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([control, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            report_ended(children)
        if control in ready:
            message, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 4)
            if not message:
                break
            job, status = Job(**json.loads(message)), descriptors.pop()
            pid = os.fork()
            if not pid:
                set_up_process(job, descriptors)
                return job
            for descriptor in descriptors:
                os.close(descriptor)
            children[pid] = status
            report(status, pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    return None


def report_ended(children: dict[int, int]) -> None:
    for pid, status in list(children.items()):
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            del children[pid]
            report(status, os.waitstatus_to_exitcode(code))
            os.close(status)


def report(status: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # who started the process does not wait for it
        os.write(status, f"{number}\n".encode())


# ---------------------------------------------------------------- the forked process


def set_up_process(job: Job, stdio: list[int]) -> None:
    """Make this process, which was just forked, like one that Python has just started."""
    for target, descriptor in enumerate(stdio):
        os.dup2(descriptor, target)
    for path in list(Path("/proc/self/fd").iterdir()):
        if int(path.name) > 2:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(int(path.name))
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if job.interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if job.on_terminal:
        os.login_tty(0)
    elif job.new_session:
        os.setsid()
    os.chdir(job.cwd)
    os.environ.clear()
    os.environ.update(job.env)
    time.tzset()
    show_command_line([sys.executable, *job.args], job.env)
    open_stdio()


def open_stdio() -> None:
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        is_unbuffered = before.write_through  # PYTHONUNBUFFERED, which is for all three, but leaves stdin its buffer
        is_by_line = not is_unbuffered and (descriptor == 2 or os.isatty(descriptor))
        mode, buffering = ("wb", 0 if is_unbuffered else -1) if descriptor else ("rb", -1)
        binary: Any = os.fdopen(descriptor, mode, buffering, closefd=False)
        stream = io.TextIOWrapper(
            binary, before.encoding, before.errors, line_buffering=is_by_line, write_through=is_unbuffered
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def show_command_line(args: list[str], env: dict[str, str]) -> None:
    """Let /proc/PID/cmdline and /proc/PID/environ show these. The server's own are long enough to have room for them.

    libc has its own copies of the variables by now: each was set anew.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    arg_start, arg_end, env_start, env_end = map(int, fields[45:49])
    for start, end, texts in (
        (arg_start, arg_end, args),
        (env_start, env_end, [f"{name}={value}" for name, value in env.items()]),
    ):
        shown = b"".join(os.fsencode(text) + b"\0" for text in texts)[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, shown, len(shown))


def run(job: Job) -> None:
    """Run what the arguments name, as `python` does."""
    kind, *rest = job.args
    sys.orig_argv = [sys.executable, *job.args]
    if kind == "-m":
        sys.argv, sys.path[0] = rest, str(Path.cwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})  # noqa: S102
    else:
        sys.argv, sys.path[0] = job.args, str(Path(kind).parent)
        runpy.run_path(kind, run_name="__main__")


def run_and_end(job: Job) -> None:
    """Run what the arguments name, and end as Python does, but let the kernel free the memory.

    Python would take every module apart, which copies the memory that is shared with the server: that takes 50 ms.
    """
    code: object = 0
    try:
        run(job)
    except SystemExit as end:
        code = 0 if end.code is None else end.code
        if not isinstance(code, int):
            raise  # Python prints it
    threading._shutdown()  # waits for the threads
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        sys.exit(code)  # Python tells of what cannot be written, and has an exit code for it
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started this: the socket is closed then
    import_semel()
    job = serve(socket.socket(fileno=int(sys.argv[1])))
    if job is not None:
        run_and_end(job)
