"""Check that agents can be used: started, initialized, logged in, with a session. Nothing is sent to a model.

Several are tried at the same time, so that an agent that does not answer keeps no other one waiting: by `semel doctor`
MAX_CHECKS_AT_ONCE, by `semel up`, in the background, MAX_BACKGROUND_CHECKS, since its turns need the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace

import structlog

from semel.faces.agent_check import MAX_CHECKS_AT_ONCE, AgentCheck, check_agent, check_quickly
from semel.faces.build_agents import build_acp_agent, build_agent, find_program_problem
from semel.faces.config.editor_agents import FOLDER
from semel.faces.config.load import GatewayConfig
from semel.faces.health.finding import LOGGED_OUT, Finding, Level
from semel.faces.health.gateway_agents import GatewayAgents
from semel.faces.run import RunningGateway
from semel.faces.transcript import format_timestamp
from semel.gateway.settings import AgentSettings
from semel.text.sentences import join_sentences

log = structlog.get_logger("semel.up")

START_DELAY_S = 1.0
"""How long the background check leaves the machine to the gateway's start and to the turns that it resumes."""

MAX_BACKGROUND_CHECKS = 2

RETRY_DELAY_S = 10.0
"""How long a check is put off if a session needed the room."""


async def examine_agents(config: GatewayConfig, gateway: GatewayAgents | None = None) -> list[Finding]:
    """Try all configured agents, several at a time, and return a finding for each, with further ones for their notes.

    `gateway`: what the running gateway says of them; None without a gateway.
    """
    agents = config.gateway.agents.values()
    places = asyncio.Semaphore(MAX_CHECKS_AT_ONCE)

    async def examine_in_turn(agent: AgentSettings) -> list[Finding]:
        async with places:
            return await examine_agent(agent, config)

    results = await asyncio.gather(*map(examine_in_turn, agents))
    return [
        finding if gateway is None else _weigh_difference(finding, agent.name, gateway)
        for agent, findings in zip(agents, results, strict=True)
        for finding in findings
    ]


def report_gateway_checks(gateway: GatewayAgents) -> list[Finding]:
    """Return what the running gateway has found of each of its agents, if they cannot be tried from this shell."""
    findings = []
    for name in gateway.names:
        level: Level = "ok"
        text, remedy = "it was not tried", ""
        if name in gateway.checks:
            check = gateway.checks[name]
            level, remedy = check["level"], check["remedy"]
            text = f"the running gateway found at {format_timestamp(check['at'])}: {check['text']}"
        elif name in gateway.live:
            text = "a session of the running gateway uses it"
        findings.append(Finding(f"agent {name}", level, text, remedy))
    return findings


def _weigh_difference(finding: Finding, name: str, gateway: GatewayAgents) -> Finding:
    """Return the finding with the difference, if the running gateway may be able to use an agent and this shell cannot.

    The gateway has variables of its own. If only a login or an API key is missing here, that is a warning.
    """
    check = gateway.checks.get(name)
    if finding.level != "broken" or name not in gateway.names or (check is not None and check["level"] == "broken"):
        return finding
    used = gateway.describe_use(name)
    if LOGGED_OUT not in finding.text:
        text = f"{finding.text}; but {used}, perhaps with another PATH or other variables than this shell has"
        return replace(finding, text=text) if used else finding
    text = f"it is not logged in with the variables of this shell; {used or 'the running gateway has not tried it'}"
    remedy = "set the variables here as the gateway has them, such as its API key, so that it can be checked, too"
    return Finding(finding.subject, "warning", text, remedy)


async def examine_agent(settings: AgentSettings, config: GatewayConfig) -> list[Finding]:
    """Try one configured agent. Of a model behind an API, its settings and its MCP servers are tried."""
    subject = f"agent {settings.name}"
    if settings.kind == "model":
        check = await check_agent(build_agent(settings, config))
        if check.problem:
            return list(_list_findings(subject, check))
        servers = "".join(f"; MCP server {server}" for server in check.describe_servers())
        return [Finding(subject, "ok", f"{settings.model}: nothing was sent to it; {check.key}{servers}")]
    findings = list(_list_findings(subject, await check_quickly(build_acp_agent(settings, config))))
    return _weigh_origin(findings, settings)


def _weigh_origin(findings: list[Finding], settings: AgentSettings) -> list[Finding]:
    """Return warnings instead, if the agent's command came from an editor: perhaps somebody only tried it once."""
    if not settings.is_of_editor:
        return findings
    remedy = f"correct the command in the editor, and remove {FOLDER}/{settings.name}.json in the data directory"
    return [
        Finding(finding.subject, "warning", finding.text, remedy) if finding.level == "broken" else finding
        for finding in findings
    ]


def _list_findings(subject: str, check: AgentCheck) -> Iterable[Finding]:
    if check.problem:
        yield Finding(subject, "broken", check.problem, _find_remedy(check))
        return
    mode = f", mode {check.mode}" if check.mode else ""
    login = check.key or (f"its login: {check.login}" if check.login else "")
    key = f"; {login}" if login else ""
    opened = f"{check.program or check.command[0]}: a session after {check.session_s:g} s"
    yield Finding(subject, "ok", f"{opened}{mode}{key}")
    for note in check.notes:
        yield Finding(subject, "warning", note)


def _find_remedy(check: AgentCheck) -> str:
    if check.problem.startswith("command not found"):
        return ""  # the problem says how to install it
    return f"correct it, then try it alone: semel agents check {check.name}"


async def check_agents_in_background(running: RunningGateway) -> None:
    """Try the agents of a running gateway; log what is found at once, and note it for its status.

    An agent that a session uses already needs no check, and the bundled demo agent needs none either. A check counts
    towards `max_live_agents`: it waits for room, and is put off if a session needs the room.
    """
    await asyncio.sleep(START_DELAY_S)
    places = asyncio.Semaphore(MAX_BACKGROUND_CHECKS)

    async def check_in_turn(settings: AgentSettings) -> None:
        async with places:
            if findings := await _check_beside_sessions(settings, running):
                _note_findings(settings.name, findings, running)

    async with asyncio.TaskGroup() as checks:
        for settings in running.config.gateway.agents.values():
            if settings.kind != "demo":
                checks.create_task(check_in_turn(settings))


def _note_findings(agent: str, findings: list[Finding], running: RunningGateway) -> None:
    """Log the findings about an agent, and note them for the gateway's status."""
    running.agent_checks[agent] = {
        "level": max((finding.level for finding in findings), key=("ok", "warning", "broken").index),
        "text": "; ".join(finding.text for finding in findings),
        "remedy": "; ".join(finding.remedy for finding in findings if finding.remedy),
        "at": round(time.time() * 1000),
    }
    for finding in findings:
        _log_finding(agent, finding)


async def _check_beside_sessions(settings: AgentSettings, running: RunningGateway) -> list[Finding]:
    """Try an agent when there is room for its process. Return no findings if a session uses it meanwhile."""
    if missing := _examine_program(settings, running.config):
        return missing  # no process is needed to see that
    pool = running.gateway.spawns
    while not any(live["agent"] == settings.name for live in pool.status()):
        findings = await pool.lend_room(lambda: examine_agent(settings, running.config))
        if findings is not None:
            return findings
        await asyncio.sleep(RETRY_DELAY_S)
    return []


def _examine_program(settings: AgentSettings, config: GatewayConfig) -> list[Finding]:
    """Return a finding if the agent's program is missing or cannot be executed."""
    problem = find_program_problem(settings, config)
    check = AgentCheck(settings.name, list(settings.command), problem or "")
    findings = list(_list_findings(f"agent {settings.name}", check)) if problem is not None else []
    return _weigh_origin(findings, settings)


def _log_finding(agent: str, finding: Finding) -> None:
    if finding.level == "broken":
        log.warning("agent cannot be used", agent=agent, why=join_sentences(finding.text, finding.remedy))
    elif finding.level == "warning":
        log.warning("agent can be used", agent=agent, but=finding.text)
    else:
        log.info("agent can be used", agent=agent, what=finding.text)
