"""Processes that begin with everything imported: most of a start is imports, so one process forks all the others.

Each line of stdin, a JSON object with an "id", is one life; each line of stdout is {"born": ID, "pid"} or
{"dead": PID, "code"}, code as in `subprocess.Popen.returncode`. When stdin ends, every life does.
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

from semel.faces.config.load import load
from semel.faces.log import configure
from semel.faces.run import open_gateway

Live = Callable[[dict[str, Any]], None]


def nursery(live: Live) -> None:
    """Until stdin ends. `live` is called in the process that was forked for it, with what its line said."""
    wakes, wakened = os.pipe()
    os.set_blocking(wakened, False)
    signal.set_wakeup_fd(wakened)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: set[int] = set()
    asked = b""
    while True:
        ready, _, _ = select.select([0, wakes], [], [])
        if wakes in ready:
            os.read(wakes, 4096)
            _bury(living)
        if 0 in ready:
            came = os.read(0, 65536)
            if not came:
                break
            *lines, asked = (asked + came).split(b"\n")
            for line in lines:
                told = json.loads(line)
                pid = _fork(live, told)
                living.add(pid)
                _tell(born=told["id"], pid=pid)
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def settle_in(env: Mapping[str, str], cwd: str | Path, log: str | Path) -> None:
    """A life's own environment and directory; nothing to read, and all that it writes goes into its log."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((nothing, written, written)):
        os.dup2(file, number)


async def gateway(config: Path, data: Path) -> None:
    """What `semel up` runs, on a free port, until SIGTERM."""
    settings = load(config, data, "127.0.0.1:0", "json")
    configure(settings.log, False)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_gateway(settings):
        await stop.wait()


def _fork(live: Live, told: dict[str, Any]) -> int:
    """The pid of a new life."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        live(told)
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _bury(living: set[int]) -> None:
    for pid in list(living):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            living.discard(pid)
            _tell(dead=pid, code=os.waitstatus_to_exitcode(status))


def _tell(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
