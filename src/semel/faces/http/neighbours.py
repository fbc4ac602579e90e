"""Whether the other end of a loopback connection is a process of another user of this machine.

Loopback belongs to every user of a machine: where no token is demanded there, any of them would be the owner, an agent
that was given a user id of its own to contain it among them. Linux tells who holds the other socket (sock_diag(7),
`inet_diag_req_v2`: one look-up by both addresses, whatever else is open). Elsewhere it is not known, and loopback is as
open as it was.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import struct
import sys

from semel.faces.http.settings import is_loopback

FAMILY = 4  # NETLINK_SOCK_DIAG
BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
REQUEST = 1  # NLM_F_REQUEST
_HEAD = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_ASKED = struct.Struct("=BBBxI")  # inet_diag_req_v2: family, protocol, extensions, states
_SOCKET = struct.Struct("!HH16s16s")  # inet_diag_sockid: ports and addresses
_ANY = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # any interface, no cookie (INET_DIAG_NOCOOKIE)
_HOLDER = struct.Struct("=II")  # of inet_diag_msg: user and inode, behind the 4 + 48 + 12 bytes of what was asked for
_HOLDER_AT = _HEAD.size + 4 + 48 + 12
_STATES = 0xFFFFFFFF  # all


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


def holder(family: int, local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """The user whose TCP socket is bound to `local` and connected to `remote`; None: no process holds it, or it is not
    told."""
    if not sys.platform.startswith("linux"):
        return None
    asked = _ASKED.pack(family, socket.IPPROTO_TCP, 0, _STATES)
    asked += _SOCKET.pack(local[1], remote[1], _packed(family, local[0]), _packed(family, remote[0])) + _ANY
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, FAMILY) as netlink:
            netlink.settimeout(0.5)  # the kernel answers within the call
            netlink.sendto(_HEAD.pack(_HEAD.size + len(asked), BY_FAMILY, REQUEST, 1, 0) + asked, (0, 0))
            return _read(netlink.recv(4096))
    except OSError:
        return None


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0")


def _read(answer: bytes) -> int | None:
    """The user in a netlink message. A socket without inode is held by nobody, and told as if it were root's."""
    kind = _HEAD.unpack_from(answer)[1]
    if kind != BY_FAMILY or len(answer) < _HOLDER_AT + _HOLDER.size:
        return None
    uid, inode = _HOLDER.unpack_from(answer, _HOLDER_AT)
    return int(uid) if inode else None
