"""Find the agents of a configuration file that the running gateway does not know, as it reads it at its start only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from semel.faces.client import AsyncClient, NoGateway, RequestRefused
from semel.faces.config import ConfigError, locate_running
from semel.tools.address import find_running_config, find_waiting

UNKNOWN = "the running gateway does not know it yet"


async def ask_for_unknown_agents(
    config_path: Path | None, data_dir: Path | None, file: Path, agents: Iterable[str]
) -> dict[str, str]:
    """Return, for each of these agents that the running gateway does not know, why that is and what to do.

    `file`: the configuration file that names them. The result is empty if no gateway runs, or if none can be asked.
    """
    try:
        data = locate_running(config_path, data_dir)
        async with AsyncClient(data) as client:
            known = (await client.get("/v1/status"))["configured"]
            read = find_running_config(data)
    except (ConfigError, NoGateway, RequestRefused):
        return {}
    if is_other_file(read, file):
        reason = f"{UNKNOWN}: it has read {read}, and not {file}"
    else:
        from semel.faces.service.installation import advise_restart  # only now: it imports all settings

        reason = f"{UNKNOWN}: {advise_restart()}"
    return dict.fromkeys(list_unknown_agents(agents, known, data), reason)


def list_unknown_agents(agents: Iterable[str], known: Collection[str], data_dir: Path) -> list[str]:
    """Return those of these agents that are not in `known`, the agents of the gateway that answered.

    The result is empty if the gateway of this data directory waits, and another one of its cluster has answered for it.
    """
    return [] if find_waiting(data_dir) is not None else [name for name in agents if name not in known]


def is_other_file(read: Path | None, file: Path) -> bool:
    """Whether the gateway has read another configuration file than this one. False if it has read none."""
    return read is not None and read.resolve() != file.resolve()
