"""What `semel status` shows: from the running gateway, or without one from the ledger and the files beside it."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from semel.faces.client import AsyncClient, GatewayNotTrusted, NoGateway, RequestRefused
from semel.faces.config import ConfigError, locate_running, locate_to_read
from semel.faces.config.paths import find_config_file, find_data_dir, read_config_file
from semel.ledger.storage.location import LedgerLocation, may_exist, name_database
from semel.text.json_types import Json
from semel.tools.address import (
    advise_others,
    find_running_config,
    find_start_command,
    find_url,
    find_waiting,
    was_killed,
)

if TYPE_CHECKING:
    from semel.ledger.turns.session_agent import ConfiguredAgents


async def look_over(config_path: Path | None, data_dir: Path | None) -> Json:
    """Return the answer of /v1/status with "running" and "url"; without a gateway, what its files tell of it.

    "waiting": the name of this gateway of a cluster if it waits, and the active one answered; else None.
    "configuration": what a person should know of a file that was changed since the gateway read it, or that came after
    it started without one; else None. Without a gateway, "problem" is why it would not start, if its configuration is
    wrong, else None; "killed", whether the last one ended without a clean stop; "holder", the pid of who has the ledger
    locked, else None; and "start", the command that starts the gateway. Raises ConfigError, GatewayNotTrusted,
    NoGateway (there is no ledger either, but another gateway runs) or LedgerError.
    """
    try:
        data = locate_running(config_path, data_dir)
    except ConfigError:
        locate_to_read(config_path, data_dir)  # says what else could be read
        raise
    try:
        async with AsyncClient(data) as client:
            status = await client.get("/v1/status")
            waiting = find_waiting(data)
            change = None
            if waiting is None:
                change = await asyncio.to_thread(_examine_changed_config, config_path, data, status.get("started"))
            return {"running": True, "url": find_url(data), "waiting": waiting, "configuration": change, **status}
    except GatewayNotTrusted:
        raise
    except RequestRefused:
        if find_waiting(data) is None:
            raise
        return _look_over_files(config_path, data_dir, *locate_to_read(config_path, data_dir)[:2])
    except NoGateway:
        return _look_over_files(config_path, data_dir, *locate_to_read(config_path, data_dir)[:2])


def _examine_changed_config(config_path: Path | None, data: Path, started: int | None) -> str | None:
    """Return what became of the file that the running gateway read; None if it is as it was at the start.

    `config_path`: the file that the person named. `started`: when the gateway started, in ms since the epoch; None if
    it is an older Semel, which does not tell.
    """
    try:
        file = find_running_config(data)
        if file is None:
            return _examine_unread_config(config_path, data)
        if started is None or file.stat().st_mtime * 1000 <= started:
            return None
    except FileNotFoundError:
        return f"{file} is gone: the gateway would not start again"
    except (NoGateway, OSError):
        return None
    from semel.faces.health.configuration import check_config  # only now: see below

    mistakes = check_config(file, data).mistakes
    return mistakes or f"{file} was changed since the gateway started: restart it to use the change"


def _examine_unread_config(config_path: Path | None, data: Path) -> str | None:
    """Return a hint if there is a file here, and the gateway of this data directory runs without any; else None."""
    try:
        file = find_config_file(config_path, os.environ)
        gateway = {} if file is None else read_config_file(file)[1].get("gateway")
    except ConfigError as error:
        return str(error)
    data_dir = gateway.get("data_dir") if isinstance(gateway, dict) else None
    if file is None or (data_dir and find_data_dir(None, data_dir, file.parent, {}) != data):
        return None
    return (
        f"{file} is not used: the gateway was started without a configuration file. Restart it with: "
        f"semel up --config {shlex.quote(str(file))}"
    )


def _look_over_files(config_path: Path | None, data_dir: Path | None, data: Path, ledger: LedgerLocation) -> Json:
    # Only now: what a gateway consists of takes longer to load than a gateway to answer.
    from semel.faces.health.configuration import check_config, follow_gateway, list_missing_variables
    from semel.ledger.engines import find_holder
    from semel.ledger.turns.session_agent import ANY_AGENT

    checked = check_config(*follow_gateway(config_path, data_dir))
    mistakes = checked.count_mistakes()
    if mistakes and not may_exist(ledger):  # perhaps because of the mistakes, so report these
        is_wrong = not list_missing_variables(checked.problems)
        raise ConfigError(f"the configuration is wrong: {mistakes}" if is_wrong else mistakes)
    if not may_exist(ledger) and advise_others(data):
        raise NoGateway(data)
    agents = ANY_AGENT if checked.config is None else checked.config.gateway.configured_agents
    name = "" if checked.config is None else checked.config.cluster.name
    holder = find_holder(ledger)
    problem = mistakes or _find_problem(ledger)
    killed, start = was_killed(data), find_start_command(data)
    state = {"running": False, "killed": killed, "problem": problem, "holder": holder, "start": start}
    channels = None if checked.config is None else checked.config.gateway.channels
    return {**state, "name": name, **_read_files(data, ledger, agents, channels)}


def _find_problem(ledger: LedgerLocation) -> str | None:
    """Return why no gateway would start on the ledger; None if one would."""
    from semel.ledger.engines import find_copy

    copy = find_copy(ledger)
    return None if copy is None else f"the ledger was copied to {copy}, which takes its place"


def _read_files(data: Path, ledger: LedgerLocation, agents: ConfiguredAgents, channels: Collection[str] | None) -> Json:
    from semel.gateway.api.reads import list_cluster, read_storage
    from semel.gateway.disk_use import measure_store
    from semel.ledger.admin.overview import read_overview
    from semel.ledger.engines import open_readonly
    from semel.ledger.storage.store import now_ms

    store = open_readonly(ledger)
    try:
        overview = store.read_sync(read_overview, agents, channels)
        disk = measure_store(store, data)
    finally:
        store.close()
    gateways = list_cluster(ledger)
    return {**overview, "database": name_database(ledger), "gateways": gateways, **read_storage(disk, data, now_ms())}
