"""The MCP servers that a client gives to a session's agent, besides those that the agent has of its own.

They may hold keys. So they are not in the ledger, its copies and exports, but in a file for the owner alone beside it
(docs/editors.md). They belong to the session: its agent gets them at every start, whoever caused it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from semel.gateway.errors import BadRequest
from semel.ledger.storage.atomic_files import write_atomically
from semel.text.json_types import Json, objects_in

MAX_SERVERS = 100
TRANSPORTS = ("stdio", "http", "sse")
OWN_NAME = "semel"  # the name of Semel's own server, which every agent gets


class McpServerStore:
    """Keeps the servers of each session in a file in `folder`. `session`: the session's id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __repr__(self) -> str:
        return f"<McpServerStore {self._folder}>"

    def read(self, session: int) -> list[Json]:
        """Return the session's servers, as ACP's McpServer; [] if it has none."""
        try:
            return objects_in(json.loads(self._find_path(session).read_bytes()))
        except (FileNotFoundError, ValueError):
            return []

    def write(self, session: int, servers: Sequence[Json]) -> None:
        """Replace the session's servers."""
        if not servers:
            self.remove(session)
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        write_atomically(self._find_path(session), json.dumps(list(servers)))

    def remove(self, session: int) -> None:
        """Forget the session's servers."""
        self._find_path(session).unlink(missing_ok=True)

    def _find_path(self, session: int) -> Path:
        return self._folder / f"{session}.json"


def check_servers(servers: Sequence[Json]) -> list[Json]:
    """Return the servers without one that has the name of Semel's own. Raises BadRequest if one is no McpServer."""
    if len(servers) > MAX_SERVERS:
        raise BadRequest(f"servers: at most {MAX_SERVERS}, these are {len(servers)}")
    for server in servers:
        name, url, transport = server.get("name"), server.get("url"), server.get("type") or "stdio"
        if not isinstance(name, str) or not name:
            raise BadRequest("servers: each needs a name")
        if transport not in TRANSPORTS:
            raise BadRequest(f"servers: {name!r} has the type {transport!r}; the types are {', '.join(TRANSPORTS)}")
        if transport != "stdio":
            if not isinstance(url, str) or not url.startswith(("http://", "https://")):
                raise BadRequest(f"servers: {name!r} needs an http url")
        elif not isinstance(server.get("command"), str) or not _is_text_list(server.get("args", [])):
            raise BadRequest(f"servers: {name!r} needs a command, and a list of args")
    names = [server["name"] for server in servers]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadRequest(f"servers: two are named {twice[0]!r}; each needs a name of its own")
    return [server for server in servers if server["name"] != OWN_NAME]


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
