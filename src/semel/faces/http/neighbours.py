"""Whether the other end of a loopback connection is a process of another user of this machine.

Loopback belongs to every user of a machine: where no token is demanded there, any of them would be the owner, an agent
that was given a user id of its own to contain it among them. Linux tells who holds the other socket
(`tools/sockets.py`). Elsewhere it is not known, and loopback is as open as it was.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket

from semel.faces.http.settings import is_loopback
from semel.tools.sockets import holder as holder


def of_another_user(transport: asyncio.Transport) -> bool:
    """True where the other end is on this machine and is not known to be this user's, on a system that tells."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        here, there = sock.getsockname(), sock.getpeername()
    except OSError:  # it is gone already
        return True
    if not is_loopback(here[0]) or not tells():
        return False
    return holder(sock.family, there[:2], here[:2]) != own_user()


@functools.cache
def tells() -> bool:
    """Whether this system tells whose a connection is: asked about one of our own, once, before anybody can hurry."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as here,
            socket.create_connection(here.getsockname(), timeout=1.0) as there,
        ):
            return holder(socket.AF_INET, there.getsockname(), there.getpeername()) == os.geteuid()
    except OSError:
        return False


def own_user() -> int:
    return os.geteuid()
