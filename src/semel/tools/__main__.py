"""`python -m semel.tools`: an agent's MCP server over stdio. The agent starts it, as the gateway asked in session/new.

Environment: SEMEL_SOCKET, the gateway's unix socket; SEMEL_TOKEN, the spawn's fencing token (Law 10);
SEMEL_PATIENCE, how many seconds a call waits for the gateway (default 50).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from semel.tools.gateway_link import GatewayLink
from semel.tools.process import CALL_TIMEOUT_S, McpProcess


def main() -> int:
    """Serve until the agent closes stdin or exits, then return 0; return 2 if the environment is wrong."""
    path, token = os.environ.get("SEMEL_SOCKET"), os.environ.get("SEMEL_TOKEN")
    if not path or not token:
        return _report_usage_error(
            "SEMEL_SOCKET and SEMEL_TOKEN are not set; the gateway sets them for the agents it starts"
        )
    try:
        call_timeout = float(os.environ.get("SEMEL_PATIENCE") or CALL_TIMEOUT_S)
    except ValueError:
        return _report_usage_error("SEMEL_PATIENCE must be a number of seconds")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches the whole terminal group; no traceback
    try:
        source, sink = os.dup(0), os.dup(1)
        os.dup2(2, 1)  # whatever prints by mistake goes to stderr and cannot break the protocol
    except OSError:
        return _report_usage_error("stdin, stdout and stderr must be open; this is a server that an agent starts")
    with (
        contextlib.suppress(BrokenPipeError, ConnectionResetError),
        contextlib.closing(GatewayLink(path, token)) as link,
    ):
        McpProcess(link, source=source, sink=sink, parent=_open_parent_pidfd(), call_timeout=call_timeout).run()
    return 0


def _open_parent_pidfd() -> int | None:
    """Return a descriptor that becomes readable when our parent exits (pidfd_open(2), Linux 5.3).

    Returns `None` if there is no such descriptor: then only the end of stdin shows that the agent has exited.
    """
    pid = os.getppid()
    if pid <= 1 or not hasattr(os, "pidfd_open"):
        return None
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    return fd if os.getppid() == pid else None


def _report_usage_error(problem: str) -> int:
    sys.stderr.write(f"semel.tools: {problem}\n")
    return 2


sys.exit(main())
