"""A configuration full of secrets, and the plain sockets that attacks are made of."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Any

from system_house import DEMO, SECRET, House

ENVIRONMENT = {
    "HOOK_SECRET": SECRET,
    "HOOK_TOKEN": "hook-token-0123456789",
    "CI_TOKEN": "ci-token-0123456789abcdef",
    "BOX_TOKEN": "box-token-0123456789abcdef",
}

CONFIG = (
    "[gateway]\nmax_live_agents = 4\n"
    + DEMO
    + """
[channels.door]
kind = "webhook"
secret = "env:HOOK_SECRET"
url = "URL"
allow_private = true
session = "demo:door:1"
sessions = ["demo:door:*"]
role = "guest"

[channels.bell]
kind = "webhook"
token = "env:HOOK_TOKEN"
session = "demo:bell:1"

[nodes.ci]
token = "env:CI_TOKEN"
sessions = ["ci:*"]

[nodes.box]
token = "env:BOX_TOKEN"
sessions = ["box:*"]
"""
)


def owner_token(house: House) -> str:
    return (house.data / "owner.token").read_text().strip()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def connect(url: str, patience: float = 20.0) -> socket.socket:
    host, _, port = re.sub("^http://", "", url).partition(":")
    return socket.create_connection((host, int(port)), timeout=patience)


def rest(sock: socket.socket) -> bytes:
    """What comes until the other side closes."""
    got = b""
    try:
        while chunk := sock.recv(65536):
            got += chunk
    except (ConnectionError, TimeoutError):
        pass
    return got


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def every(value: Any, found: Callable[[str], None]) -> None:
    """Each text in a JSON value."""
    if isinstance(value, str):
        found(value)
    elif isinstance(value, dict):
        for name, one in value.items():
            found(name)
            every(one, found)
    elif isinstance(value, list):
        for one in value:
            every(one, found)
