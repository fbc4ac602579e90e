"""Whose a TCP connection on this machine is.

Linux tells who holds a socket (sock_diag(7), `inet_diag_req_v2`: one look-up by both addresses, whatever else is open).
Elsewhere it is not known.
"""

from __future__ import annotations

import socket
import struct
import sys

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

Address = tuple[str, int]


def holder(family: int, local: Address, remote: Address) -> int | None:
    """The user whose TCP socket is bound to `local` and connected to `remote`, or listens at `local` where none is
    connected; None: no process holds it, or it is not told."""
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


def answering(sock: socket.socket) -> int | None:
    """The user who answers on a connection that we made; None: not on this machine (or behind a container's own
    network), or it is not told.

    A connection that nobody has accepted yet is told by its listener, and so is one that root listens for: servers
    that root starts accept as a user without rights.
    """
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        here, there = sock.getsockname()[:2], sock.getpeername()[:2]
    except OSError:  # it is gone already
        return None
    if here[0] != there[0] and not there[0].startswith("127."):
        return None
    accepted = listens = None
    for _ in range(2):  # who accepts between the two look-ups, and listens no more, is found the second time
        accepted = holder(sock.family, there, here)
        listens = holder(sock.family, there, (here[0], 0))  # from where nobody can be connected
        if accepted is not None or listens is not None:
            break
    return listens if accepted is None or listens == 0 else accepted


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0")


def _read(answer: bytes) -> int | None:
    """The user in a netlink message. A socket without inode is held by nobody, and told as if it were root's."""
    kind = _HEAD.unpack_from(answer)[1]
    if kind != BY_FAMILY or len(answer) < _HOLDER_AT + _HOLDER.size:
        return None
    uid, inode = _HOLDER.unpack_from(answer, _HOLDER_AT)
    return int(uid) if inode else None
