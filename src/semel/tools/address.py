"""Where the gateway of a data directory answers, and the token that opens it: files that only the owner can read.

A gateway that was killed leaves its address behind, and any user of the machine can listen there next. So nothing is
sent over a connection on this machine before it is known that it does not lead to a process of another user, as far as
the system tells (`sockets.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.tools import owned, sockets

GATEWAY_FILE = "gateway.json"  # {"url", "pid"}, in the data directory while the gateway runs
CONNECTED = "connection.connect_tcp.complete"  # what httpx's `trace` calls the moment before the first byte is sent


class NoGateway(Exception):
    """No gateway answers for this data directory. Start one with `semel up`."""

    def __init__(self, data_dir: Path):
        super().__init__(f"no gateway is running on {data_dir}. Start one with: semel up")


class AnotherUsers(NoGateway):
    """What answers, or what tells where a gateway answers, may be another user's. Nothing was sent to it."""

    def __init__(self, why: str):
        Exception.__init__(self, why)


@dataclass(frozen=True)
class Address:
    url: str
    token: str

    @classmethod
    def of(cls, data_dir: Path) -> Address:
        """Where the gateway of a data directory listens. Raises NoGateway where none is, or none any more;
        AnotherUsers where others could have written what is there."""
        try:
            owned.folder(data_dir, link=True)
            told = json.loads(owned.read(data_dir / GATEWAY_FILE))
            token = owned.read(data_dir / "owner.token", link=True).decode().strip()
            return cls(str(told["url"]).rstrip("/"), token)
        except owned.NotOurs as error:
            raise AnotherUsers(str(error)) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise NoGateway(data_dir) from None


# ---------------------------------------------------------------- who is there


def look(event: str, info: dict[str, Any]) -> None:
    """A `trace` of httpx's: where a connection leads to another user's process, it is closed unused. Raises
    AnotherUsers."""
    if event == CONNECTED:
        try:
            check(info["return_value"].get_extra_info("socket"))
        except AnotherUsers:
            info["return_value"].close()
            raise


async def look_async(event: str, info: dict[str, Any]) -> None:
    """The same for a client of asyncio's."""
    if event == CONNECTED:
        try:
            check(info["return_value"].get_extra_info("socket"))
        except AnotherUsers:
            await info["return_value"].aclose()
            raise


def check(sock: Any) -> None:
    """Whether a connection of ours may lead to our gateway. Raises AnotherUsers."""
    user = sockets.answering(sock)
    if user is not None and user not in owned.trusted():
        host, port = sock.getpeername()[:2]
        raise AnotherUsers(
            f"another user of this machine ({owned.named(user)}) listens at port {port} of {host}, where your gateway "
            "should be. Nothing was sent there. Start yours, on another port if need be: semel up --listen "
            "127.0.0.1:PORT"
        )
