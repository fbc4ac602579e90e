"""Find the user at the other end of a local TCP connection.

Linux reports a socket's owner (sock_diag(7), `inet_diag_req_v2`): one look-up by both addresses, whose cost does not
depend on the number of open sockets. On other systems the owner is unknown.
"""

from __future__ import annotations

import socket
import struct
import sys

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
_HEAD = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_DIAG_REQUEST = struct.Struct("=BBBxI")  # inet_diag_req_v2: family, protocol, extensions, states
_SOCKET = struct.Struct("!HH16s16s")  # inet_diag_sockid: ports and addresses
_ANY_INTERFACE_AND_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # INET_DIAG_NOCOOKIE
_UID_AND_INODE = struct.Struct("=II")  # inet_diag_msg: uid and inode, after 4 + 48 + 12 bytes
_UID_OFFSET = _HEAD.size + 4 + 48 + 12
_ALL_STATES = 0xFFFFFFFF

HostAndPort = tuple[str, int]


def find_socket_uid(family: int, local: HostAndPort, remote: HostAndPort) -> int | None:
    """Return the uid that owns the TCP socket bound to `local` and connected to `remote`, or else the socket listening
    at `local`. `None` if no process holds such a socket or the system does not report it."""
    if not sys.platform.startswith("linux"):
        return None
    request = _DIAG_REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES)
    request += (
        _SOCKET.pack(local[1], remote[1], _pack_address(family, local[0]), _pack_address(family, remote[0]))
        + _ANY_INTERFACE_AND_COOKIE
    )
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG) as netlink:
            netlink.settimeout(0.5)  # the kernel answers within the call
            netlink.sendto(
                _HEAD.pack(_HEAD.size + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0) + request, (0, 0)
            )
            return _parse_uid(netlink.recv(4096))
    except OSError:
        return None


def _pack_address(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0")


def _parse_uid(answer: bytes) -> int | None:
    """Return the uid in a netlink answer; `None` if there is none, or if no process holds the socket: then the inode is
    0, and the uid root's."""
    message_type = _HEAD.unpack_from(answer)[1]
    if message_type != SOCK_DIAG_BY_FAMILY or len(answer) < _UID_OFFSET + _UID_AND_INODE.size:
        return None
    uid, inode = _UID_AND_INODE.unpack_from(answer, _UID_OFFSET)
    return int(uid) if inode else None
