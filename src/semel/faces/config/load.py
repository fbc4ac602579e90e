"""Build the settings from the file, the environment and the command line; later ones override earlier ones."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from semel.faces.config import kinds, models, nodes, people
from semel.faces.config.model import Background, File, Heartbeat
from semel.faces.config.places import data_home, expanded, find, ledger_file, read
from semel.faces.config.problems import ConfigError, explain, nearest
from semel.faces.http.settings import Node as NodeSettings
from semel.gateway.outbound.destinations import HOME
from semel.gateway.settings import (
    AgentSettings,
    BackgroundSettings,
    ChannelSettings,
    DestinationSettings,
    GatewaySettings,
    HeartbeatSettings,
    ScheduleSettings,
    SessionSettings,
)
from semel.timing.walltime import read_hours

MAX_HOST_CHARS = 253  # limit of the DNS
DEMO = (sys.executable, "-m", "semel.agents.demo")


@dataclass(frozen=True)
class GatewayConfig:
    """Everything `semel up` needs. `path` is the configuration file, or `None` without one."""

    gateway: GatewaySettings
    host: str
    port: int  # 0: any free one
    log: str
    path: Path | None
    hosts: frozenset[str] = frozenset()
    heartbeat: float = 15.0
    secrets: frozenset[str] = frozenset()  # names of variables with secrets of channels and nodes, withheld from agents
    nodes: tuple[NodeSettings, ...] = ()


def load(
    path: Path | None = None,
    data_dir: Path | None = None,
    listen: str | None = None,
    log: str | None = None,
    env: Mapping[str, str] = os.environ,
) -> GatewayConfig:
    """Read and check the configuration. Raises ConfigError, whose message is written for the user."""
    found = find(path, env)
    text, raw = read(found) if found else ("", {})
    name = str(found or "semel.toml")
    try:
        file = File.model_validate(raw)
    except ValidationError as error:
        raise explain(error, File, text, name) from None
    base = found.parent if found else Path.cwd()
    data = data_home(data_dir, file.gateway.data_dir, base, env)
    host, port = _address(listen or file.gateway.listen)
    place = kinds.ConfigSource(base, text, name, env)
    settings = GatewaySettings(
        data_dir=data,
        ledger=ledger_file(file.ledger.url, data),
        agents={key: _agent(key, file, data, place) for key in file.agents} or {"demo": demo_agent(data)},
        channels=_channels(file, base, text, name, env),
        people=people.people(file, place),
        destinations=_destinations(file, name),
        schedules={
            key: ScheduleSettings(key, s.form, s.spec, s.text, s.session, s.tz, s.downtime)
            for key, s in file.schedules.items()
        },
        heartbeat=_heartbeat(file.heartbeat),
        background=_background(file.background),
        sessions=_sessions(file),
        default_agent=_default_agent(file, name),
        max_live_agents=file.gateway.max_live_agents,
        idle_agent_s=file.gateway.idle_after,
        permission_deadline_s=file.gateway.permission_deadline,
        grace_s=file.gateway.grace,
    )
    told, secrets = file.gateway, people.secret_values(settings.channels)
    people.check_agents(settings.agents, secrets)
    return GatewayConfig(
        settings, host, port, log or told.log, found, frozenset(told.hosts), told.heartbeat,
        people.find_hidden_variables(file, secrets, env), nodes.check(file.nodes, place),
    )  # fmt: skip


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or len(host) > MAX_HOST_CHARS or re.fullmatch("[0-9]{1,5}", port) is None or int(port) > 65535:
        raise ConfigError(f'listen is {listen[:100]!r}, and should be host:port, like "127.0.0.1:8420"')
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def demo_agent(data: Path, name: str = "demo") -> AgentSettings:
    """Settings of the bundled demo agent: a subprocess that speaks ACP and needs no network."""
    return AgentSettings(name, DEMO, data / "workspaces" / name, kind="demo")


def _agent(name: str, file: File, data: Path, place: kinds.ConfigSource) -> AgentSettings:
    agent = file.agents[name]
    base, env = place.base, place.env
    cwd = (base / expanded(agent.cwd)).absolute() if agent.cwd else data / "workspaces" / name
    if agent.cwd and not cwd.is_dir():
        raise ConfigError(f"[agents.{name}] cwd is {cwd}, which is not a directory")
    command = DEMO if agent.kind == "demo" else tuple(agent.command or ())
    places = {key: f'[agents.{name}.env] "{key}"' for key in agent.env}
    return AgentSettings(
        name,
        command,
        cwd,
        kind=agent.kind,
        env={key: kinds.variable(value, places[key], env) for key, value in agent.env.items()},
        permissions=agent.permissions,
        approvals=people.check_approvals(name, agent, file, place),
        idle_after=agent.idle_after,
        attempts=agent.attempts,
        silence=agent.silence,
        trace=(base / expanded(agent.trace)).absolute() if agent.trace else None,
        model=models.settings(name, agent, place),
    )


def _sessions(file: File) -> tuple[SessionSettings, ...]:
    """Session settings in the order of the file, because the first matching pattern applies."""
    return tuple(
        SessionSettings(pattern, s.busy, s.wake.debounce, s.wake.longest, s.automatic == "wake")
        for pattern, s in file.sessions.items()
    )


def _heartbeat(told: Heartbeat) -> HeartbeatSettings | None:
    if not told.sessions:
        return None
    hours = read_hours(told.hours) if told.hours else None
    return HeartbeatSettings(tuple(told.sessions), told.every, told.text, told.quiet, hours, told.tz)


def _background(told: Background) -> BackgroundSettings:
    return BackgroundSettings(told.jobs, told.all, told.time, told.output)


def _default_agent(file: File, name: str) -> str:
    told = file.gateway.default_agent
    known = list(file.agents) or ["demo"]
    if told and told not in known:
        raise ConfigError(f'{name}: [gateway] default_agent is "{told}"{nearest(told, known)}')
    return told or ""


def _channels(file: File, base: Path, text: str, name: str, env: Mapping[str, str]) -> dict[str, ChannelSettings]:
    return {
        key: ChannelSettings(
            key,
            channel.kind,
            kinds.check(key, channel.kind, channel.options, kinds.ConfigSource(base, text, name, env)),
            channel.narration,
            stream=channel.stream,
            resend_unknown=channel.resend_unknown,
            agent=_agent_of(key, channel.agent, file, name),
            **people.check_channel(key, channel, kinds.ConfigSource(base, text, name, env)),
        )
        for key, channel in file.channels.items()
    }


def _agent_of(channel: str, told: str | None, file: File, name: str) -> str | None:
    known = list(file.agents) or ["demo"]
    if told is not None and told not in known:
        raise ConfigError(f'{name}: [channels.{channel}] agent is "{told}"{nearest(told, known)}')
    return told


def _destinations(file: File, name: str) -> dict[str, DestinationSettings]:
    for key, told in file.destinations.items():
        if key.lower() == HOME:
            raise ConfigError(
                f'{name}: [destinations.{key}]: "{HOME}" is every session\'s own home; choose another name'
            )
        if told.channel not in file.channels:
            known = nearest(told.channel, file.channels) or "; there is no [channels.NAME] section"
            raise ConfigError(f'{name}: [destinations.{key}] channel is "{told.channel}"{known}')
    return {
        key: DestinationSettings(key, told.channel, told.address, tuple(told.allow))
        for key, told in file.destinations.items()
    }
