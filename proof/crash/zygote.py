"""What gateways and reporters are forked from: a process that has imported all of Semel, under the library that kills.

    python -m proof.crash.zygote

Each line of stdin is one life, {"id", "do", "place", "killat"?, ...}; each line of stdout {"born": ID, "pid"} or
{"dead": PID, "code"}. When stdin ends, every life does.

    do = "gateway"  what `semel up` runs, by PLACE/semel.toml, with its data in PLACE/data
    do = "exec"     `semel exec` with the arguments "argv"

`killat`: the file that says where this life ends (`killat.py`). Waits that people choose for real platforms are cut
short, or a run would mostly sleep: the first back-off, and a reporter's looks for a new gateway.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import os
import select
import signal
import sys
import traceback
from importlib.abc import SourceLoader
from pathlib import Path
from typing import Any

import semel.channels
import semel.faces.cli
import semel.law.backoff
import semel.tools.exec.background
import semel.tools.exec.reporter
import semel.tools.exec.supervisor
import semel.tools.exec.watch
import semel.tools.process
from proof.crash import killat, post
from semel.faces.config.load import load
from semel.faces.log import configure
from semel.faces.run import open_house

FIRST_MS = 40  # before the second attempt at a send
LOOK = 0.05  # seconds between two looks for a new gateway
Json = dict[str, Any]


def prepare() -> None:
    """All is imported here, and so compiled: nothing that is started later writes what Python compiles."""
    found = importlib.util.find_spec("semel.tools.__main__")
    if found is not None and isinstance(found.loader, SourceLoader):
        found.loader.get_code(found.name)
    semel.channels._OWN["post"] = post.KIND
    semel.channels.kinds()
    semel.faces.cli.commands()
    semel.law.backoff.FIRST_MS = FIRST_MS
    semel.tools.exec.reporter.FIRST_PAUSE = semel.tools.exec.reporter.WATCH = LOOK
    own = semel.tools.exec.background.OWN  # supervisors can be armed, too
    semel.tools.exec.background.OWN = (*own, "LD_PRELOAD", "KILLAT_FILE", "KILLAT_WORD")  # type: ignore[assignment]
    gc.collect()
    gc.freeze()


# ---------------------------------------------------------------- one life


def live(told: Json) -> None:
    place = Path(told["place"])
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(place)
    log = os.open(place / f"{told['do']}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((nothing, log, log)):
        os.dup2(file, number)
    if "killat" in told:
        killat.arm(Path(told["killat"]))
    if told["do"] == "gateway":
        asyncio.run(gateway(place))
    else:
        sys.argv = ["semel", *told["argv"]]
        semel.faces.cli.main()


async def gateway(place: Path) -> None:
    config = load(place / "semel.toml", place / "data", "127.0.0.1:0", "json")
    configure(config.log, False)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_house(config):
        await stop.wait()


def fork(told: Json) -> int:
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


# ---------------------------------------------------------------- all of them


def tell(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started this; our stdin ends then
    prepare()
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
            bury(living)
        if 0 in ready:
            came = os.read(0, 65536)
            if not came:
                break
            *lines, asked = (asked + came).split(b"\n")
            for line in lines:
                told = json.loads(line)
                pid = fork(told)
                living.add(pid)
                tell(born=told["id"], pid=pid)
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def bury(living: set[int]) -> None:
    for pid in list(living):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            living.discard(pid)
            tell(dead=pid, code=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
