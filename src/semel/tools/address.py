"""Find the gateway of a data directory: its URL and the owner's token, read from files that only the owner can write.

A gateway that was killed leaves its address file behind, and any other user of the machine can listen on that port
next. So before the first byte is sent over a local connection, the httpx hooks below check that the process at the
other end is not another user's, as far as the system reports it (`sockets.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.tools import owned, sockets

GATEWAY_FILE = "gateway.json"  # {"url", "pid"}, in the data directory while the gateway runs
CONNECTED_EVENT = "connection.connect_tcp.complete"  # httpx `trace` event: connected, nothing sent yet


class NoGateway(Exception):
    """No gateway answers for this data directory. Start one with `semel up`."""

    def __init__(self, data_dir: Path):
        super().__init__(f"no gateway is running on {data_dir}. Start one with: semel up")


class AnotherUsers(NoGateway):
    """The process at the gateway's address, or the address file, may be another user's. Nothing was sent."""

    def __init__(self, why: str):
        Exception.__init__(self, why)


@dataclass(frozen=True)
class Address:
    url: str
    token: str

    @classmethod
    def of(cls, data_dir: Path) -> Address:
        """Read the address of a data directory's gateway. Raises NoGateway if there is none, or AnotherUsers if other
        users could have written the files. The gateway may be gone: the address of a killed one remains."""
        try:
            owned.check_directory(data_dir, link=True)
            told = json.loads(owned.read(data_dir / GATEWAY_FILE))
            token = owned.read(data_dir / "owner.token", link=True).decode().strip()
            return cls(str(told["url"]).rstrip("/"), token)
        except owned.NotOurs as error:
            raise AnotherUsers(str(error)) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise NoGateway(data_dir) from None


# ---------------------------------------------------------------- checking the other end


def look(event: str, info: dict[str, Any]) -> None:
    """An httpx `trace` callback. Closes a connection to another user's process before it is used; raises
    AnotherUsers."""
    if event == CONNECTED_EVENT:
        try:
            check(info["return_value"].get_extra_info("socket"))
        except AnotherUsers:
            info["return_value"].close()
            raise


async def look_async(event: str, info: dict[str, Any]) -> None:
    """The same for an async client."""
    if event == CONNECTED_EVENT:
        try:
            check(info["return_value"].get_extra_info("socket"))
        except AnotherUsers:
            await info["return_value"].aclose()
            raise


def check(sock: Any) -> None:
    """Check that a connected socket does not lead to another user's process. Raises AnotherUsers."""
    user = sockets.find_peer_uid(sock)
    if user is not None and user not in owned.trusted_uids():
        host, port = sock.getpeername()[:2]
        raise AnotherUsers(
            f"another user of this machine ({owned.named(user)}) listens at port {port} of {host}, where your gateway "
            "should be. Nothing was sent there. Start yours, on another port if need be: semel up --listen "
            "127.0.0.1:PORT"
        )
