"""What gateways and reporters are forked from: a process that has imported all of Semel, under the library that kills.

    python -m proof.crash.zygote

Each line of stdin is one life, {"id", "do", "place", "killat"?, ...}, as `semel.testing.forking` has it.

    do = "gateway"  what `semel up` runs, by PLACE/semel.toml, with its data in PLACE/data
    do = "exec"     `semel exec` with the arguments "argv"
    do = "editor"   `semel acp` with the arguments "argv", between the two named pipes "pipes"

`killat`: the file that says where this life ends (`killat.py`). Waits that people choose for real platforms are cut
short, or a run would mostly sleep: the first back-off, and a reporter's looks for a new gateway.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import signal
import sys
from importlib.abc import SourceLoader
from pathlib import Path
from typing import Any

import semel.channels
import semel.faces.acp.connection.serve_editor
import semel.faces.acp.session.open_session
import semel.faces.cli
import semel.faces.start
import semel.law.retries
import semel.tools.exec.background
import semel.tools.exec.reporter
import semel.tools.exec.runner
import semel.tools.exec.supervisor
import semel.tools.process
from proof.crash import killat, post
from semel.testing.forking import run_gateway, serve_forks, set_up_process

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
    semel.faces.cli.load_commands()
    semel.law.retries.FIRST_MS = FIRST_MS
    semel.tools.exec.reporter.MIN_RETRY_DELAY_S = semel.tools.exec.reporter.GATEWAY_CHECK_INTERVAL_S = LOOK
    own = semel.tools.exec.background.SUPERVISOR_VARIABLES  # supervisors can be armed, too
    semel.tools.exec.background.SUPERVISOR_VARIABLES = (*own, "LD_PRELOAD", "KILLAT_FILE", "KILLAT_WORD")  # type: ignore[assignment]
    gc.collect()
    gc.freeze()


# ---------------------------------------------------------------- one life


def live(told: Json) -> None:
    place = Path(told["place"])
    set_up_process(told["env"], place, place / f"{told['do']}.log")
    if told["do"] == "editor":  # not descriptors 0 and 1: the library takes 1 for the log
        ends = os.open(told["pipes"][0], os.O_RDONLY), os.open(told["pipes"][1], os.O_WRONLY)
        serve_editor = semel.faces.acp.connection.serve_editor
        serve_editor.STDIN, serve_editor.STDOUT = ends
    if "killat" in told:
        killat.arm(Path(told["killat"]))
    if told["do"] == "gateway":
        asyncio.run(run_gateway(place / "semel.toml", place / "data"))
    else:
        sys.argv = ["semel", *told["argv"]]
        (semel.faces.start.main if told["do"] == "editor" else semel.faces.cli.main)()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started this; our stdin ends then
    prepare()
    serve_forks(live)


if __name__ == "__main__":
    main()
