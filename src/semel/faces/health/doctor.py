"""Examine an installation as `semel doctor` does: agents, channels, configuration, files, and the books at the end.

A running gateway is asked for the state of its channels. The ledger is read here, with or without a gateway: on a
large one the books take a minute, and this does not keep the gateway busy.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semel.faces.client import AsyncClient, GatewayNotTrusted, NoGateway
from semel.faces.client.connection import NoAnswer
from semel.faces.config import ConfigError, locate, locate_running
from semel.faces.config.paths import find_data_dir, find_ledger
from semel.faces.health import installation
from semel.faces.health.agents import examine_agents, report_gateway_checks
from semel.faces.health.channels import examine_access, examine_channel, examine_nodes
from semel.faces.health.cluster import examine_cluster, explain_no_answer
from semel.faces.health.configuration import (
    CheckedConfig,
    check_config,
    examine_config,
    examine_credentials,
    examine_running_config,
    follow_gateway,
)
from semel.faces.health.database import examine_content, examine_database
from semel.faces.health.finding import Finding, is_sound
from semel.faces.health.gateway_agents import UNKNOWN, GatewayAgents, is_other_file, list_unknown_agents
from semel.faces.health.object_storage import examine_object_storage
from semel.faces.health.overview import ask_while_gateways_answer, find_living_pid
from semel.faces.health.session_agents import examine_session_agents, weigh_last_turns
from semel.faces.health.transcription import examine_transcription
from semel.faces.service.installation import advise_restart
from semel.gateway.api.reads import audit_report, read_storage
from semel.gateway.disk_use import measure_disk
from semel.gateway.settings import ChannelSettings
from semel.ledger.admin.overdue import list_overdue
from semel.ledger.backup.last_backup import advise_restore
from semel.ledger.backup.settle_restored import is_unsettled_copy
from semel.ledger.delivery import parts
from semel.ledger.engines import find_copy, is_older_copy, list_gateways, measure_ledger, open_readonly
from semel.ledger.storage.errors import LedgerError, LedgerMissing
from semel.ledger.storage.location import DatabaseUrl, LedgerLocation
from semel.ledger.storage.rows import LedgerRow
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import LedgerStore, now_ms
from semel.ledger.turns.seats import list_missing_gateways
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line
from semel.tools.address import (
    advise_others,
    find_running_config,
    find_start_command,
    find_url,
    find_wait,
    was_killed,
)

MAX_REASON_CHARS = 200


@dataclass
class Examination:
    """The result of `examine`. `books`, `ledger`: as in /v1/doctor; empty if the ledger could not be read."""

    findings: list[Finding] = field(default_factory=list)
    books: list[Json] = field(default_factory=list)
    ledger: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return is_sound(self.findings)


@dataclass(frozen=True)
class _Gateway:
    """What the running gateway says.

    Its version, why it is not ready, its channels as in /v1/channels, its refused nodes as in /v1/status, and what it
    says of its agents.
    """

    url: str
    version: str
    problem: str | None
    channels: list[Json]
    refused_nodes: list[Json]
    agents: GatewayAgents


async def examine(config_path: Path | None, data_dir: Path | None) -> Examination:
    """Examine everything. Raises ConfigError if the named configuration does not exist, or GatewayNotTrusted."""
    config_path, data_dir = follow_gateway(config_path, data_dir)
    checked = check_config(config_path, data_dir)
    data, ledger, unsure = _locate_data(checked, config_path, data_dir)
    no_answer: list[Finding] = []
    try:
        gateway = await _ask_gateway(data, config_path, data_dir)
    except NoAnswer:
        gateway = None
        no_answer.append(await asyncio.to_thread(_explain_no_answer, checked, data, ledger))
    result = Examination(examine_config(checked, is_running=gateway is not None))
    findings = result.findings
    findings += [*examine_running_config(checked, data), *unsure]
    if checked.config is not None:
        agents = await examine_agents(checked.config, None if gateway is None else gateway.agents)
        findings += await asyncio.to_thread(weigh_last_turns, agents, checked.config, gateway is not None)
        findings += _examine_unknown_agents(checked, gateway, data)
        findings += await asyncio.to_thread(examine_session_agents, checked.config)
        findings += await examine_transcription(checked.config.gateway.transcription)
    elif gateway is not None:
        findings += report_gateway_checks(gateway.agents)
    findings += _examine_channels({} if checked.config is None else checked.config.gateway.channels, gateway)
    findings += examine_nodes([] if gateway is None else gateway.refused_nodes)
    findings += examine_credentials(checked)
    file = ledger if isinstance(ledger, Path) else None
    disk = measure_disk(file, await asyncio.to_thread(measure_ledger, ledger), data)
    storage = await asyncio.to_thread(read_storage, disk, data, now_ms())
    findings += installation.examine_files(data, file)
    if isinstance(ledger, DatabaseUrl):
        findings += await asyncio.to_thread(examine_database, ledger)
        findings += await asyncio.to_thread(_examine_cluster, checked, ledger)
    findings.append(installation.examine_disk(storage["disk"]))
    findings += await asyncio.to_thread(installation.examine_reports, data)
    findings += no_answer or await _examine_gateway(checked, gateway, data)
    channels = _name_channels(checked, gateway)
    is_running = gateway is not None
    await asyncio.to_thread(_examine_ledger, result, checked, channels, data, ledger, storage, is_running)
    return result


def _locate_data(
    checked: CheckedConfig, config_path: Path | None, data_dir: Path | None
) -> tuple[Path, LedgerLocation, list[Finding]]:
    """Return data directory and ledger; the usual ones, and a finding, if a file that may name them is unreadable."""
    try:
        return *locate(config_path, data_dir), []
    except ConfigError:
        data = _find_data_anyway(config_path, data_dir)
        text = f"{checked.name} may name another data directory: {data} was examined"
        finding = Finding(
            "data", "warning", text, "correct the file, or name the directory: semel doctor --data-dir DIR"
        )
        return data, find_ledger(None, data), [finding]


def _find_data_anyway(config_path: Path | None, data_dir: Path | None) -> Path:
    """Return the data directory of the running gateway that read the file, else the usual one."""
    try:
        return locate_running(config_path, data_dir)
    except ConfigError:
        return find_data_dir(data_dir, None, Path.cwd(), os.environ)


async def _ask_gateway(data: Path, config_path: Path | None, data_dir: Path | None) -> _Gateway | None:
    """Ask the gateway of the data directory `data`; None if none runs. Raises NoAnswer."""
    try:
        async with AsyncClient(data) as client:
            status = await ask_while_gateways_answer(client, "/v1/status", config_path, data_dir)
            channels = (await client.get("/v1/channels"))["channels"]
            version, problem, nodes = str(status["version"]), status.get("problem"), status.get("refused_nodes") or []
            return _Gateway(find_url(data), version, problem, channels, nodes, GatewayAgents.read(status))
    except (GatewayNotTrusted, NoAnswer):
        raise
    except NoGateway:
        return None


def _examine_unknown_agents(checked: CheckedConfig, gateway: _Gateway | None, data_dir: Path) -> list[Finding]:
    """Return a warning for each agent of the checked file that the gateway, which read the same file, does not know."""
    if gateway is None or checked.path is None:
        return []
    try:
        if is_other_file(find_running_config(data_dir), checked.path):
            return []
    except NoGateway:  # it has just ended, or is an older Semel
        return []
    unknown = list_unknown_agents(checked.raw.get("agents") or {}, gateway.agents.names, data_dir)
    return [Finding(f"agent {name}", "warning", UNKNOWN, advise_restart()) for name in unknown]


def _explain_no_answer(checked: CheckedConfig, data: Path, ledger: LedgerLocation) -> Finding:
    name = "" if checked.config is None else checked.config.cluster.name
    try:
        gateways = list_gateways(ledger)
    except LedgerError:
        gateways = []
    return Finding("gateway", "broken", explain_no_answer(name, find_living_pid(data), gateways))


def _examine_channels(configured: Mapping[str, ChannelSettings], gateway: _Gateway | None) -> list[Finding]:
    if gateway is None:
        return [
            Finding(f"channel {name}", "ok", f"{channel.kind}; whether it connects is known once the gateway runs")
            for name, channel in configured.items()
        ]
    running = {str(channel["name"]): channel for channel in gateway.channels}
    findings = [examine_channel(channel) for channel in running.values()]
    findings += [examine_access(channel) for channel in running.values() if channel.get("closed")]
    for name in configured.keys() - running.keys():
        text = "it is configured, but the running gateway does not know it yet"
        findings.append(Finding(f"channel {name}", "warning", text, "restart the gateway"))
    return findings


def _name_channels(checked: CheckedConfig, gateway: _Gateway | None) -> Collection[str] | None:
    """Return the names of the channels that the running gateway has, else of the configured ones; None if unknown."""
    if gateway is not None:
        return {str(channel["name"]) for channel in gateway.channels}
    return None if checked.config is None else checked.config.gateway.channels


async def _examine_gateway(checked: CheckedConfig, gateway: _Gateway | None, data_dir: Path) -> list[Finding]:
    findings = [installation.examine_versions(None if gateway is None else gateway.version)]
    wait = find_wait(data_dir)
    if wait is not None:
        findings.append(Finding("gateway", "warning", wait))
    if gateway is not None:
        findings.append(Finding("address", "ok", f"the gateway is running at {gateway.url}"))
        if gateway.problem:
            findings.append(_explain_not_ready(gateway.problem))
        return findings
    if was_killed(data_dir):
        findings.append(_explain_kill(data_dir))
    if checked.config is not None and wait is None:
        findings.append(await installation.examine_address(checked.config.host, checked.config.port))
    return findings


def _explain_kill(data_dir: Path) -> Finding:
    text = "none is running, and the last one did not end cleanly: it was killed, or the machine stopped"
    start = find_start_command(data_dir)
    remedy = f"start it: {start} (it resumes or ends the turns that ran, and settles what it was sending)"
    return Finding("gateway", "warning", text, remedy)


def _explain_not_ready(problem: str) -> Finding:
    """Return the finding about a gateway that is not ready. The last of several sentences is what to do."""
    reason, _, step = problem.rstrip(".").rpartition(". ")
    if not reason:
        return Finding("gateway", "broken", f"it is not ready: {problem}", "see the gateway's log: semel logs")
    return Finding("gateway", "broken", f"it is not ready: {reason}", step[:1].lower() + step[1:])


def _examine_outbox(tx: Tx, channels: Collection[str] | None, is_put_back: bool) -> list[Finding]:
    """Return findings about messages that wait for a person or a platform, and about those that were rejected.

    `channels`: the names of the configured ones; None if they are unknown. `is_put_back`: the ledger is a copy, and the
    next start settles it. Then nothing that it has in line is simply tried again.
    """
    findings = [_explain_missing_channel(missing) for missing in parts.list_missing_channels(tx, channels)]
    backlog = parts.count_backlog(tx)
    if backlog["held"]:
        findings.append(_explain_held(backlog["held"], parts.list_newest(tx, "held", 1)[0]))
    if rejected := parts.count_rejected(tx):
        text = f"{rejected} rejected in the last day: {'it was' if rejected == 1 else 'they were'} not delivered"
        findings.append(
            Finding("outbox", "warning", text, "see why, then resend or drop: semel outbox list --state rejected")
        )
    if not is_put_back:
        return findings + [_explain_delay(part) for part in parts.list_delayed(tx, channels)]
    if in_line := sum(backlog[state] for state in ("queued", "sending", "unknown")):
        were = "was" if in_line == 1 else "were"
        text = f"{in_line} {were} in line when the copy was made, and may have arrived since"
        remedy = "nothing yet: after the start each is looked up, sent under its old key, or held for your decision"
        findings.append(Finding("outbox", "warning", text, remedy))
    return findings


def _explain_held(number: int, newest: Json) -> Finding:
    """Return the finding about the held parts. `newest`: one of them, as in `parts.part_json`."""
    which = f"p{newest['id']} to {newest['dest']}"
    reason = f" ({shorten_to_line(newest['error'], MAX_REASON_CHARS)})" if newest.get("error") else ""
    text = f"{number} held: nobody knows whether they arrived; the newest is {which}{reason}"
    remedy = (
        "list them: semel outbox list --state held. Look there, then decide about each: `semel outbox arrived PART` if "
        "it is there, `semel outbox resend PART` if it is not, or `semel outbox drop PART`"
    )
    return Finding("outbox", "warning", text, remedy)


def _examine_schedules(tx: Tx, is_running: bool) -> list[Finding]:
    """Return a finding for each firing that is overdue. `is_running`: whether a gateway runs."""
    remedy = "see why the gateway does not run it: semel logs" if is_running else "start a gateway: semel up"
    return [Finding("schedules", "warning", firing.text, remedy) for firing in list_overdue(tx)]


def _explain_missing_channel(missing: parts.MissingChannel) -> Finding:
    remedy = f"add [channels.{missing.channel}] to the configuration again, and restart the gateway"
    return Finding("outbox", "warning", missing.describe(), remedy)


def _explain_delay(part: Json) -> Finding:
    """Return the finding about a part whose last attempt failed. `part`: as in `parts.list_delayed`."""
    fate, step = "did not leave", "nothing, once its channel is online: it is tried again by itself"
    if part["state"] == "unknown":
        fate, step = "may have arrived", "nothing: a running gateway settles it, or holds it for your decision"
    elif part["state"] == "sending":
        fate = "is being sent again"
    waiting = f"{part['behind']} later {'one waits' if part['behind'] == 1 else 'ones wait'}"
    behind = f", and {waiting} behind it" if part["behind"] else ""
    text = f"p{part['part']} to {part['to']} {fate}{behind}: {part['error']}"
    return Finding("outbox", "warning", text, f"{step}. More: semel why p{part['part']}")


def _examine_ledger(
    result: Examination,
    checked: CheckedConfig,
    channels: Collection[str] | None,
    data_dir: Path,
    ledger: LedgerLocation,
    storage: Json,
    is_running: bool,
) -> None:
    """Add the findings about outbox, schedules, clock, backup and books, for which the ledger is read.

    `channels`: as in `_examine_outbox`. `storage`: of `read_storage`. `is_running`: whether a gateway runs.
    """
    try:
        store = open_readonly(ledger)
    except LedgerMissing as missing:
        mistakes = checked.count_mistakes()
        text = f"no ledger was examined: {mistakes}" if mistakes else str(missing)
        others = advise_others(data_dir)
        result.findings.append(Finding("books", "warning" if mistakes or others else "ok", text, others))
        return
    except LedgerError as error:
        result.findings.append(Finding("ledger", "broken", str(error), advise_restore(error)))
        return
    try:
        copy, is_settled = find_copy(ledger), not store.read_sync(is_unsettled_copy)
        is_put_back = not is_settled or (not is_running and is_older_copy(ledger))
        newest, began = store.read_sync(_read_times)
        outbox = store.read_sync(_examine_outbox, channels, is_put_back)
        overdue = store.read_sync(_examine_schedules, is_running)
        report = store.read_sync(audit_report)
        content = _examine_files(store, checked, data_dir) if store.holds_files else []
    except LedgerError as error:
        result.findings.append(Finding("ledger", "broken", str(error), advise_restore(error)))
        return
    finally:
        store.close()
    now = now_ms()
    result.findings += [*content, *outbox, *overdue]
    result.findings.append(installation.examine_clock(newest, now))
    if isinstance(ledger, Path):
        result.findings.append(installation.examine_backup(storage["backup"], storage["restore"], began, now))
    if copy is not None:
        result.findings.append(_examine_copy(copy))
    elif is_put_back:
        result.findings.append(_explain_older_copy(is_settled, data_dir))
    result.books, result.ledger = report["books"], report["ledger"]
    result.findings.append(_examine_books(report))


def _examine_files(store: LedgerStore, checked: CheckedConfig, data_dir: Path) -> list[Finding]:
    """Return the findings about the content of files. Raises LedgerError."""
    content = examine_content(store, data_dir / "blobs")
    return content if checked.config is None else content + examine_object_storage(store, checked.config.gateway.files)


def _examine_copy(copy: str) -> Finding:
    text = f"it was copied to {copy}, which takes its place: no gateway starts on it"
    remedy = (
        "let [ledger] url name the copy; if that will never be used again, take this one back: semel restore --here"
    )
    return Finding("ledger", "broken", text, remedy)


def _explain_older_copy(is_surprise: bool, data_dir: Path) -> Finding:
    """Return the finding about a ledger that was put back. `is_surprise`: without `semel restore`, which marks it."""
    fate = "the next start treats it as restored, and sends nothing on a guess"
    step = f"start the gateway: {find_start_command(data_dir)}; then see what it holds: semel outbox list --state held"
    if not is_surprise:
        return Finding("ledger", "warning", f"it was put back from a copy: {fate}", step)
    remedy = f"if that is meant, {step}. Else put the newer one back before a gateway starts: semel docs backup"
    return Finding("ledger", "warning", f"it is an older copy, or was put here without its mark: {fate}", remedy)


def _examine_cluster(checked: CheckedConfig, ledger: DatabaseUrl) -> list[Finding]:
    moving = frozenset[str]() if checked.config is None else checked.config.gateway.moving_agents
    try:
        gateways = list_gateways(ledger)
        if not gateways:
            return []
        store = open_readonly(ledger)
    except LedgerError:  # the findings about the database say so
        return []
    try:
        missing = store.read_sync(list_missing_gateways, {gateway.name for gateway in gateways}, moving)
    except LedgerError:
        missing = []
    finally:
        store.close()
    return examine_cluster(gateways, missing)


def _read_times(tx: Tx) -> tuple[int, int]:
    """Return when something was last recorded, and when the ledger began, in ms."""
    return tx.number("ledger_newest"), tx.get(LedgerRow, "ledger_get").at


def _examine_books(report: Json) -> Finding:
    broken = [book["name"] for book in report["books"] if not book["ok"]]
    if broken:
        text = f"broken laws ({len(broken)} of {len(report['books'])}): {', '.join(broken)}"
        remedy = "see the rows with: semel doctor --laws; keep a copy of the data directory and report this"
        return Finding("books", "broken", text, remedy)
    return Finding("books", "ok", f"{len(report['books'])} laws hold over {report['ledger']['entries']:,} entries")
