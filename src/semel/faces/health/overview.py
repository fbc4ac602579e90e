"""What `semel status` shows: from the running gateway, or without one from the ledger and the files beside it."""

from __future__ import annotations

import asyncio
import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from semel.faces.client import AsyncClient, GatewayNotTrusted, NoGateway, RequestRefused
from semel.faces.client.connection import NoAnswer
from semel.faces.config import ConfigError, locate_running, locate_to_read
from semel.faces.config.paths import find_config_file, find_data_dir, read_config_file
from semel.ledger.storage.errors import LedgerUnreachable
from semel.ledger.storage.location import LedgerLocation, may_exist, name_database
from semel.text.json_types import Json
from semel.tools.address import (
    advise_others,
    find_pid,
    find_running_config,
    find_start_command,
    find_url,
    find_wait,
    find_waiting,
    is_process_running,
    was_killed,
)

if TYPE_CHECKING:
    from semel.faces.config.load import GatewayConfig
    from semel.ledger.storage.cluster import ClusterGateway

ANSWER_TIMEOUT_S = 2.0
"""Seconds that a gateway of a cluster may take to answer before the others' rows are looked at."""


async def look_over(config_path: Path | None, data_dir: Path | None) -> Json:
    """Return the answer of /v1/status with "running", "url" and "pid"; without a gateway, what its files tell of it.

    "pid": the process id of the gateway; None if it is not on this machine. "waiting": the name of this gateway of a
    cluster if it waits, and the active one answered; else None. "wait": which gateway of a cluster can take no place,
    and why; None if it only waits for the active one to end. "configuration": what a person should know of a file
    that was changed since the gateway read it, or that came after it started without one; else None. Without a gateway,
    "problem" is why it would not start, if its configuration is wrong, else None; "killed", whether the last one ended
    without a clean stop; "no_answer", why a gateway that was reached did not answer, and what happens next, else None;
    "holder", the pid of who has the ledger locked, else None; and "start", the command that starts the gateway. Raises
    ConfigError, GatewayNotTrusted, LedgerError or NoGateway (there is no ledger either, but another gateway runs; or
    this one waits for its database).
    """
    try:
        data = locate_running(config_path, data_dir)
    except ConfigError:
        locate_to_read(config_path, data_dir)  # says what else could be read
        raise
    try:
        async with AsyncClient(data) as client:
            status = await ask_while_gateways_answer(client, "/v1/status", config_path, data_dir)
            waiting = find_waiting(data)
            change = None
            if waiting is None:
                change = await asyncio.to_thread(_examine_changed_config, config_path, data, status.get("started"))
            state = {"running": True, "url": find_url(data), "pid": find_living_pid(data), "waiting": waiting}
            return {**state, "wait": find_wait(data), "configuration": change, **status}
    except GatewayNotTrusted:
        raise
    except (RequestRefused, NoGateway) as error:
        if isinstance(error, RequestRefused) and find_waiting(data) is None:
            raise
        ledger = locate_to_read(config_path, data_dir)[1]
        try:
            return _look_over_files(config_path, data_dir, data, ledger, is_silent=isinstance(error, NoAnswer))
        except LedgerUnreachable:
            if find_wait(data) is None:
                raise
            raise NoGateway(data) from None  # this says why the gateway waits


async def ask_while_gateways_answer(
    client: AsyncClient, path: str, config_path: Path | None, data_dir: Path | None
) -> Json:
    """Return the answer of a gateway. Raises NoAnswer early if its cluster shows that nobody will answer."""
    request = asyncio.ensure_future(client.get(path))
    began = asyncio.get_running_loop().time()
    try:
        while not (await asyncio.wait({request}, timeout=ANSWER_TIMEOUT_S))[0]:
            if await asyncio.to_thread(_is_cluster_silent, config_path, data_dir):
                raise NoAnswer(round(asyncio.get_running_loop().time() - began))
        return request.result()
    finally:
        request.cancel()


def _is_cluster_silent(config_path: Path | None, data_dir: Path | None) -> bool:
    """Whether the gateway of a cluster that is asked, or the active one, which it asks, does not show that it lives."""
    from semel.faces.health.cluster import find_active, is_silent
    from semel.faces.health.configuration import check_config, follow_gateway
    from semel.ledger.engines import list_gateways
    from semel.ledger.storage.errors import LedgerError

    config = check_config(*follow_gateway(config_path, data_dir)).config
    if config is None or not config.cluster.name:
        return False
    try:
        gateways = list_gateways(config.gateway.ledger)
    except LedgerError:
        return False
    own = next((gateway for gateway in gateways if gateway.name == config.cluster.name), None)
    active = find_active(gateways)
    return own is None or active is None or is_silent(own) or is_silent(active)


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


def _look_over_files(
    config_path: Path | None, data_dir: Path | None, data: Path, ledger: LedgerLocation, *, is_silent: bool = False
) -> Json:
    # Only now: what a gateway consists of takes longer to load than a gateway to answer.
    from semel.faces.health.cluster import explain_no_answer
    from semel.faces.health.configuration import check_config, follow_gateway, list_missing_variables
    from semel.ledger.engines import find_holder, list_gateways

    checked = check_config(*follow_gateway(config_path, data_dir))
    mistakes = checked.count_mistakes()
    if mistakes and not may_exist(ledger):  # perhaps because of the mistakes, so report these
        is_wrong = not list_missing_variables(checked.problems)
        raise ConfigError(f"the configuration is wrong: {mistakes}" if is_wrong else mistakes)
    if not may_exist(ledger) and advise_others(data):
        raise NoGateway(data)
    holder = find_holder(ledger)
    problem = mistakes or _find_problem(ledger)
    killed, start = was_killed(data), find_start_command(data)
    state = {
        "running": False,
        "wait": find_wait(data),
        "killed": killed,
        "problem": problem,
        "holder": holder,
        "start": start,
    }
    state["name"] = name = "" if checked.config is None else checked.config.cluster.name
    gateways = list_gateways(ledger)
    state["no_answer"] = explain_no_answer(name, find_living_pid(data), gateways) if is_silent else None
    return {**state, **_read_files(data, ledger, checked.config, gateways)}


def find_living_pid(data: Path) -> int | None:
    """Return the pid of a data directory's gateway; None if it is not known, or ended."""
    try:
        pid = find_pid(data)
    except (NoGateway, ValueError):
        return None
    return pid if is_process_running(pid) else None


def _find_problem(ledger: LedgerLocation) -> str | None:
    """Return why no gateway would start on the ledger; None if one would."""
    from semel.ledger.engines import find_copy

    copy = find_copy(ledger)
    return None if copy is None else f"the ledger was copied to {copy}, which takes its place"


def _name_object_storage(config: GatewayConfig | None) -> Json | None:
    """Return where files are, as the running gateway does; it alone knows of a problem."""
    if config is None or not config.gateway.files.url:
        return None
    return {"url": config.gateway.files.url, "problem": None}


def _read_files(
    data: Path, ledger: LedgerLocation, config: GatewayConfig | None, gateways: list[ClusterGateway]
) -> Json:
    from semel.gateway.api.reads import read_storage
    from semel.gateway.disk_use import measure_store
    from semel.ledger.admin.overview import list_missing_gateways, read_overview
    from semel.ledger.backup.settle_restored import is_unsettled_copy
    from semel.ledger.engines import open_readonly
    from semel.ledger.storage.store import now_ms
    from semel.ledger.turns.session_agent import ANY_AGENT

    agents, channels = ANY_AGENT, None
    missing: list[Json] = []
    if config is not None:
        agents, channels = config.gateway.configured_agents, config.gateway.channels
    store = open_readonly(ledger)
    try:
        overview = store.read_sync(read_overview, agents, channels)
        is_unsettled = store.read_sync(is_unsettled_copy)
        if config is not None and gateways:
            living = {gateway.name for gateway in gateways}
            missing = store.read_sync(list_missing_gateways, living, config.gateway.moving_agents)
        disk = measure_store(store, data)
    finally:
        store.close()
    return {
        **overview,
        "unsettled": is_unsettled,
        "database": name_database(ledger),
        "object_storage": _name_object_storage(config),
        "gateways": [asdict(gateway) for gateway in gateways],
        "missing_gateways": missing,
        **read_storage(disk, data, now_ms()),
    }
