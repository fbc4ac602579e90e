"""Check `[people]` against the channels and agents, and keep the channels' secrets from the agents."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import semel.channels
from semel.faces.config.kinds import ConfigSource
from semel.faces.config.model import Agent, Channel, File
from semel.faces.config.problems import ConfigError, line_of, nearest, section
from semel.gateway.settings import AgentSettings, ChannelSettings, GroupSettings, PersonSettings
from semel.law.access import ROLES

ACCOUNT_SETTINGS = ("strangers", "groups", "group")
"""Settings only for channels where people have accounts; other channels have `role` instead."""


def people(file: File, place: ConfigSource) -> dict[str, PersonSettings]:
    """The people listed in the file, by name. Raises ConfigError."""
    found: dict[str, PersonSettings] = {}
    whose: dict[str, str] = {}
    for name, told in file.people.items():
        where = ("people", name)
        if name in ROLES:
            raise _error(place, where, f"[people.{name}]: {name} is the name of a role; choose another")
        for account in told.accounts:
            _check_account(account, file, place, where)
            if account in whose:
                raise _error(
                    place, (*where, "accounts"), f'[people.{name}] "accounts": {account} is that of {whose[account]}'
                )
            whose[account] = name
        found[name] = PersonSettings(name, told.role, tuple(told.accounts))
    return found


def _check_account(account: str, file: File, place: ConfigSource, where: tuple[str, ...]) -> None:
    channel, colon, id = account.partition(":")
    what = f'{section(where)} "accounts": {account!r}'
    at = (*where, "accounts")
    if not colon or not id:
        raise _error(place, at, f'{what} should be CHANNEL:ID, like "matrix:@ada:example.org"')
    if channel not in file.channels:
        known = nearest(channel, file.channels) or "; there is no [channels.NAME] section"
        raise _error(place, at, f"{what} names no channel of this file{known}")
    name = file.channels[channel].kind
    if not _has_people(file.channels[channel]):
        raise _error(place, at, f"{what}: people have no accounts on a {name}")
    kind = semel.channels.kinds().get(name)
    if kind is not None and kind.person is not None and not re.fullmatch(kind.person[0], id, re.ASCII):
        like = f"like {channel}:{kind.person[1]}; `semel people strangers` shows those of people who wrote"
        raise _error(place, at, f"{what} is none that {name} has: they are {like}")


def check_channel(name: str, told: Channel, place: ConfigSource) -> dict[str, Any]:
    """The fields of `ChannelSettings` about people, from a channel's section. Raises ConfigError."""
    has = _has_people(told)
    odd = [key for key in (("role",) if has else ACCOUNT_SETTINGS) if key in told.model_fields_set]
    if odd:
        why = "is for channels where people have no accounts" if has else "is for channels where people have accounts"
        raise _error(place, ("channels", name, odd[0]), f'[channels.{name}] "{odd[0]}" {why}, and not for {told.kind}')
    group = {
        address: GroupSettings(one.policy or told.groups, one.strangers) for address, one in told.group.items()
    }  # fmt: skip
    return {"people": has, "role": told.role, "strangers": told.strangers, "groups": told.groups, "group": group}


def check_approvals(name: str, agent: Agent, file: File, place: ConfigSource) -> tuple[str, ...]:
    """The roles and people that may answer an agent's requests. Raises ConfigError for an unknown one."""
    known = ["owner", "member", *file.people]
    for who in agent.approvals:
        if who not in known:
            what = f'[agents.{name}] "approvals": {who!r} is neither a role that may nor a [people.NAME]'
            raise _error(place, ("agents", name, "approvals"), f"{what}{nearest(who, known)}")
    return tuple(agent.approvals)


def _has_people(told: Channel) -> bool:
    kind = semel.channels.kinds().get(told.kind)
    return kind is None or kind.people


def _error(place: ConfigSource, loc: tuple[str, ...], what: str) -> ConfigError:
    line = line_of(place.text, loc)
    return ConfigError(f"{place.name}:{line}: {what}" if line else f"{place.name}: {what}")


# ---------------------------------------------------------------- secrets


def secret_values(channels: Mapping[str, ChannelSettings]) -> dict[str, str]:
    """Map each channel secret to the name of its setting. Secrets are the fields that a kind excludes from its repr."""
    found: dict[str, str] = {}
    for name, channel in channels.items():
        for field in dataclasses.fields(semel.channels.kinds()[channel.kind].settings):
            value = channel.options.get(field.name)
            if not field.repr and isinstance(value, str) and value:
                found[value] = f"[channels.{name}] {field.name}"
    return found


def find_hidden_variables(file: File, secrets: Mapping[str, str], env: Mapping[str, str]) -> frozenset[str]:
    """Environment variables withheld from agents: those that channels and nodes refer to, or that equal a secret."""
    told = [value for channel in file.channels.values() for value in channel.options.values()]
    told += [node.token for node in file.nodes.values()]
    named = {v.removeprefix("env:") for v in told if isinstance(v, str) and v.startswith("env:")}
    return frozenset(named | {name for name, value in env.items() if value.strip("\r\n") in secrets})


def check_agents(agents: Mapping[str, AgentSettings], secrets: Mapping[str, str]) -> None:
    """Raise ConfigError if an agent's own section passes it a channel's secret."""
    for name, agent in agents.items():
        given = {f"env {key}": value for key, value in agent.env.items()}
        for server, mcp in (agent.model.mcp if agent.model is not None else {}).items():
            given |= {f"mcp.{server} {key}": value for key, value in {**mcp.env, **mcp.headers}.items()}
        for what, value in given.items():
            if value in secrets:
                raise ConfigError(
                    f"[agents.{name}] {what} is the secret of {secrets[value]}: an agent must not have it"
                )
