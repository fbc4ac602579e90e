"""Start processes quickly: one server process imports everything and forks all others, since imports take longest.

Each line of stdin, a JSON object with an "id", starts a process. Each line of stdout is {"born": ID, "pid"} or
{"dead": PID, "code"}, with the code as in `subprocess.Popen.returncode`. When stdin ends, all processes are killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from semel.faces.config.load import load_config
from semel.faces.log import configure_logging
from semel.faces.run import open_gateway

ProcessBody = Callable[[dict[str, Any]], None]


def serve_forks(live: ProcessBody) -> None:
    """Fork a process for each line of stdin, until stdin ends. Each process calls `live` with its parsed line."""
    wakeup_reader, wakeup_writer = os.pipe()
    os.set_blocking(wakeup_writer, False)
    signal.set_wakeup_fd(wakeup_writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living_pids: set[int] = set()
    unread = b""
    while True:
        ready, _, _ = select.select([0, wakeup_reader], [], [])
        if wakeup_reader in ready:
            os.read(wakeup_reader, 4096)
            _report_ended(living_pids)
        if 0 in ready:
            chunk = os.read(0, 65536)
            if not chunk:
                break
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                job = json.loads(line)
                pid = _fork_process(live, job)
                living_pids.add(pid)
                _write_line(born=job["id"], pid=pid)
    for pid in living_pids:
        os.kill(pid, signal.SIGKILL)


def set_up_process(env: Mapping[str, str], cwd: str | Path, log: str | Path) -> None:
    """Set this process's environment and working directory, empty its stdin, and append stdout and stderr to `log`."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null_fd = os.open(os.devnull, os.O_RDONLY)
    for target_fd, source_fd in enumerate((null_fd, log_fd, log_fd)):
        os.dup2(source_fd, target_fd)


async def run_gateway(config: Path, data: Path) -> None:
    """Run a gateway as `semel up` does, on a free port, until SIGTERM."""
    settings = load_config(config, data, "127.0.0.1:0", "json")
    configure_logging(settings.log, False)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_gateway(settings):
        await stop.wait()


def _fork_process(body: ProcessBody, job: dict[str, Any]) -> int:
    """Fork a process that calls `body` with its job. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        body(job)
        code = 0
    except SystemExit as exit_error:
        code = exit_error.code if isinstance(exit_error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _report_ended(living_pids: set[int]) -> None:
    for pid in list(living_pids):
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if ended_pid:
            living_pids.discard(pid)
            _write_line(dead=pid, code=os.waitstatus_to_exitcode(status))


def _write_line(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
