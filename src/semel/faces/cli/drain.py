"""`semel drain`: stop the gateway of this data directory, and wait until it has ended."""

from __future__ import annotations

import os
import signal
import time

import typer

from semel.faces.cli.app import Config, DataDir, app
from semel.faces.cli.printing import print_error, print_remark
from semel.faces.config.paths import locate_running
from semel.tools.address import NoGateway, find_pid, is_process_running

POLL_INTERVAL_S = 0.1
END_TIMEOUT_S = 600.0  # `grace` may be long


@app.command()
def drain(config: Config = None, data_dir: DataDir = None) -> None:
    """Stop the gateway on this machine, and wait until it has ended.

    Running turns have `grace` to end, as at Ctrl-C; the next start resumes the others. In a cluster, another gateway
    takes the duties over at once. If a service manager runs the gateway, stop it there, or it may start it again.
    """
    data = locate_running(config, data_dir)
    try:
        pid = find_pid(data)
        os.kill(pid, signal.SIGTERM)
    except (NoGateway, ProcessLookupError):
        print_error(f"no gateway is running on {data}")
        raise typer.Exit(1) from None
    print_remark("the gateway stops; its running turns have time to end")
    await_end(pid)
    print_remark("it has ended")


def await_end(pid: int) -> None:
    """Wait until a gateway that was told to stop has ended. If it does not, say so, and exit with 1."""
    end = time.monotonic() + END_TIMEOUT_S
    while is_process_running(pid):
        if time.monotonic() > end:
            print_error(f"the gateway (process {pid}) has not ended after {END_TIMEOUT_S:g} s; see: semel logs")
            raise typer.Exit(1)
        time.sleep(POLL_INTERVAL_S)
