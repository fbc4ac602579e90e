"""Detect loopback connections from processes of other users of this machine.

Every user of a machine can connect to loopback. If no token were needed there, each of them would act as the owner, for
instance an agent that runs under its own user id for isolation. Linux shows which user owns the other socket
(`tools/sockets.py`). On other systems this is unknown, and loopback stays open to all users.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket

from semel.faces.http.settings import is_loopback
from semel.tools.sockets import find_socket_uid as holder


def of_another_user(transport: asyncio.Transport) -> bool:
    """Whether a loopback peer is not known to belong to this user. Always False on systems that cannot tell."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        here, there = sock.getsockname(), sock.getpeername()
    except OSError:  # the connection is closed already
        return True
    if not is_loopback(here[0]) or not can_identify_owner():
        return False
    return holder(sock.family, there[:2], here[:2]) != own_user()


@functools.cache
def can_identify_owner() -> bool:
    """Whether this system shows the owner of a connection. Tested once with our own, at the start."""
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
