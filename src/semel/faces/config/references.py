"""Check the settings of semel.toml that refer to other sections, and keep the channels' secrets from the agents."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Any

import semel.channels
from semel.faces.config.file import ConfigFile, ConfigSource
from semel.faces.config.problems import ProblemList, find_nearest, format_section, suggest_nearest
from semel.gateway.outbound.destinations import HOME
from semel.gateway.settings import AgentSettings, ChannelSettings, DestinationSettings
from semel.law.access import ROLES
from semel.ledger.storage.location import is_database_uri

ACCOUNT_SETTINGS = ("strangers", "groups", "group")
"""Settings only for channels where people have accounts; other channels have `role` instead."""


def check_references(file: ConfigFile, source: ConfigSource, found: ProblemList) -> None:
    """Check that every name that a section mentions exists, and that accounts and node tokens are unique.

    The problems are added to `found`. A section that is wrong itself may be mentioned: its own mistake is told already.
    """
    agents = source.find_names("agents")
    agents = ["demo"] if agents == [] else agents
    with found.collect():
        _check_name(file.gateway.default_agent or None, agents, ("gateway", "default_agent"), source)
    for name, agent in file.agents.items():
        with found.collect():
            _check_approvals(name, agent, source)
    for name, channel in file.channels.items():
        with found.collect():
            _check_name(channel.agent, agents, ("channels", name, "agent"), source)
        with found.collect():
            _check_people_settings(name, channel, source)
    for name, destination in file.destinations.items():
        with found.collect():
            _check_destination(name, destination, file, source)
    _check_people(file, source, found)
    with found.collect():
        _check_node_tokens(file, source)


def _check_destination(name: str, destination: DestinationSettings, file: ConfigFile, source: ConfigSource) -> None:
    if name.lower() == HOME:
        problem = f'[destinations.{name}]: "{HOME}" is the name of every session\'s own home; choose another name'
        raise source.error(("destinations", name), problem)
    _check_name(destination.channel, source.find_names("channels"), ("destinations", name, "channel"), source)


def _check_name(
    name: str | None, known_names: Collection[str] | None, location: tuple[str, ...], source: ConfigSource
) -> None:
    if name is not None and known_names is not None and name not in known_names:
        hint = suggest_nearest(name, known_names) or "; there is no [channels.NAME] section"
        raise source.error(location, f'{format_section(location[:-1])} {location[-1]} is "{name}"{hint}')


def _check_approvals(name: str, agent: AgentSettings, source: ConfigSource) -> None:
    people = source.find_names("people")
    if people is None:
        return
    approvers = ["owner", "member", *people]
    for approver in agent.approvals:
        # Any other name may be that of somebody whom `semel pair --name` let in.
        if approver not in approvers and (approver in ROLES or find_nearest(approver, approvers) is not None):
            problem = f'[agents.{name}] "approvals": {approver!r} is neither "owner" nor "member" nor a [people.NAME]'
            raise source.error(("agents", name, "approvals"), f"{problem}{suggest_nearest(approver, approvers)}")


def _check_people_settings(name: str, channel: ChannelSettings, source: ConfigSource) -> None:
    kind_has_people = has_people(channel.kind)
    for key in ("role",) if kind_has_people else ACCOUNT_SETTINGS:
        if key in channel.model_fields_set:
            accounts = "have no accounts" if kind_has_people else "have accounts"
            problem = f'[channels.{name}] "{key}" is for channels where people {accounts}, and not for {channel.kind}'
            raise source.error(("channels", name, key), problem)


def _check_people(file: ConfigFile, source: ConfigSource, found: ProblemList) -> None:
    owners: dict[str, str] = {}
    for name, person in file.people.items():
        with found.collect():
            if name in ROLES:
                raise source.error(("people", name), f"[people.{name}]: {name} is the name of a role; choose another")
        for account in person.accounts:
            with found.collect():
                _check_account(account, name, owners, file, source)


def _check_account(account: str, person: str, owners: dict[str, str], file: ConfigFile, source: ConfigSource) -> None:
    """Check one account of a person, and note in `owners` whose it is."""
    location = ("people", person, "accounts")
    if problem := _find_account_problem(account, file, source):
        raise source.error(location, f'{format_section(location[:-1])} "accounts": {account!r} {problem}')
    if account in owners:
        raise source.error(location, f'[people.{person}] "accounts": {account} belongs to {owners[account]} already')
    owners[account] = person


def _find_account_problem(account: str, file: ConfigFile, source: ConfigSource) -> str:
    channel, _, id = account.partition(":")
    if not channel or not id:
        return 'should be CHANNEL:ID, like "matrix:@ada:example.org"'
    channels = source.find_names("channels")
    if channel not in file.channels:
        if channels is None or channel in channels:
            return ""
        hint = suggest_nearest(channel, channels) or "; there is no [channels.NAME] section"
        return f"names no channel of this file{hint}"
    name = file.channels[channel].kind
    kind = semel.channels.kinds().get(name)
    if kind is not None and not kind.people:
        return f"cannot exist: people have no accounts on a {name}"
    if kind is not None and kind.person is not None and not re.fullmatch(kind.person[0], id, re.ASCII):
        example = f"{channel}:{kind.person[1]}"
        return f"is not an account of {name}, like {example}; `semel people strangers` lists the people who wrote"
    return ""


def _check_node_tokens(file: ConfigFile, source: ConfigSource) -> None:
    owners: dict[str, str] = {}
    for name, node in file.nodes.items():
        if node.token in owners:
            problem = f"[nodes.{name}] has the token of [nodes.{owners[node.token]}]: each node needs its own"
            raise source.error(("nodes", name, "token"), problem)
        owners[node.token] = name


def has_people(kind: str) -> bool:
    """Whether people have accounts on channels of a kind. True for a kind that is not known (yet)."""
    channel_kind = semel.channels.kinds().get(kind)
    return channel_kind is None or channel_kind.people


def map_secrets(channels: Mapping[str, ChannelSettings]) -> dict[str, str]:
    """Map each channel secret to the name of its setting. Secrets are the fields that a kind excludes from its repr."""
    secrets: dict[str, str] = {}
    for name, channel in channels.items():
        for field in dataclasses.fields(semel.channels.kinds()[channel.kind].settings):
            value = channel.options.get(field.name)
            if not field.repr and isinstance(value, str) and value:
                secrets[value] = f"[channels.{name}] {field.name}"
    return secrets


def find_hidden_variables(raw: Mapping[str, Any], secrets: Mapping[str, str], env: Mapping[str, str]) -> frozenset[str]:
    """Return the names of environment variables that are withheld from agents.

    These are the variables that channels, nodes, files or transcription refer to (in `raw`, the parsed file), those
    that hold a secret, and the password of the ledger's database.
    """
    tables = (raw.get("files", {}), raw.get("transcription", {}))
    entries = [*raw.get("channels", {}).values(), *raw.get("nodes", {}).values(), *tables]
    values = [value for entry in entries for value in entry.values()]
    referenced = {value.removeprefix("env:") for value in values if isinstance(value, str) and value.startswith("env:")}
    if is_database_uri(str(raw.get("ledger", {}).get("url"))):
        referenced.add("PGPASSWORD")
    return frozenset(referenced | {name for name, value in env.items() if value.strip("\r\n") in secrets})


def check_agent_secrets(agents: Mapping[str, AgentSettings], secrets: Mapping[str, str], source: ConfigSource) -> None:
    """Raise ConfigError if an agent's own section passes it a channel's secret."""
    for name, agent in agents.items():
        values_by_setting = {f"env {key}": value for key, value in agent.env.items()}
        for server, mcp in agent.mcp.items():
            values_by_setting |= {f"mcp.{server} {key}": value for key, value in {**mcp.env, **mcp.headers}.items()}
        for setting, value in values_by_setting.items():
            if value in secrets:
                problem = f"[agents.{name}] {setting} is the secret of {secrets[value]}: an agent must not have it"
                raise source.error(("agents", name), problem)
