"""Find the gateway of a data directory: read the address file that it writes there, which names its unix socket.

File and socket are used only if nobody but this user or root can have created them. So whoever answers at the socket is
this user's gateway. Only this user (or root) can connect to it, so it asks for no token. A killed gateway leaves file
and socket behind; then nobody answers at the socket.
"""

from __future__ import annotations

import json
from pathlib import Path

from semel.tools import trusted_files

GATEWAY_FILE = "gateway.json"  # {"url", "socket", "pid"}, in the data directory while the gateway runs
LOCAL_URL = "http://gateway"
"""The base URL of requests on the unix socket; its host name is ignored."""


class NoGateway(Exception):
    """No gateway answers for this data directory. Start one with `semel up`."""

    def __init__(self, data_dir: Path):
        super().__init__(f"no gateway is running on {data_dir}. Start one with: semel up")


class GatewayNotTrusted(NoGateway):
    """The data directory, the address file or the socket may be another user's. Nothing was sent."""

    def __init__(self, reason: str):
        Exception.__init__(self, reason)


def find_socket(data_dir: Path) -> Path:
    """Return the path of the unix socket of a data directory's gateway.

    Raises NoGateway if there is none, or GatewayNotTrusted if other users could have made it. The gateway may be gone:
    a killed one leaves its socket behind.
    """
    path = Path(_read_address(data_dir, "socket"))
    try:
        trusted_files.check_directory(path.parent)
    except trusted_files.UntrustedFile as error:
        raise GatewayNotTrusted(str(error)) from None
    except OSError:
        raise NoGateway(data_dir) from None
    return path


def find_url(data_dir: Path) -> str:
    """Return the URL of a data directory's gateway. Raises NoGateway or GatewayNotTrusted, as `find_socket` does."""
    return _read_address(data_dir, "url")


def _read_address(data_dir: Path, name: str) -> str:
    try:
        trusted_files.check_directory(data_dir, link=True)
        return str(json.loads(trusted_files.read_file(data_dir / GATEWAY_FILE))[name])
    except trusted_files.UntrustedFile as error:
        raise GatewayNotTrusted(str(error)) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise NoGateway(data_dir) from None
