"""`python -m semel.tools`: an agent's MCP server over stdio. Started by the agent, as the gateway told it to.

Environment: SEMEL_SOCKET, the gateway's unix socket; SEMEL_TOKEN, the spawn's fencing token (Law 10);
SEMEL_PATIENCE, seconds a call waits for the gateway (default 50).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from semel.tools.process import PATIENCE, Process
from semel.tools.rpc_client import Link


def main() -> int:
    """Exit codes: 0 the agent closed us or is gone, 2 wrong environment."""
    path, token = os.environ.get("SEMEL_SOCKET"), os.environ.get("SEMEL_TOKEN")
    if not path or not token:
        return _wrong("SEMEL_SOCKET and SEMEL_TOKEN are not set; the gateway sets them for the agents it starts")
    try:
        patience = float(os.environ.get("SEMEL_PATIENCE") or PATIENCE)
    except ValueError:
        return _wrong("SEMEL_PATIENCE must be a number of seconds")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches the whole terminal group; no traceback
    try:
        source, sink = os.dup(0), os.dup(1)
        os.dup2(2, 1)  # whatever prints by mistake goes to stderr and cannot break the protocol
    except OSError:
        return _wrong("stdin, stdout and stderr must be open; this is a server that an agent starts")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), contextlib.closing(Link(path)) as link:
        Process(link, token, source=source, sink=sink, parent=_parent(), patience=patience).run()
    return 0


def _parent() -> int | None:
    """A descriptor that becomes ready when our parent ends (Linux 5.3: pidfd_open(2)); elsewhere the end of
    stdin must do."""
    pid = os.getppid()
    if pid <= 1 or not hasattr(os, "pidfd_open"):
        return None
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    return fd if os.getppid() == pid else None


def _wrong(what: str) -> int:
    sys.stderr.write(f"semel.tools: {what}\n")
    return 2


sys.exit(main())
