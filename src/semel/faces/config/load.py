"""Build the settings from the file, the environment and the command line: each overrides those named before it."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from semel.faces.config.channel_options import check_options
from semel.faces.config.editor_agents import read_editor_agents
from semel.faces.config.file import ClusterSection, ConfigFile, ConfigSource, HttpOptions, NodeSettings
from semel.faces.config.leave_out import KeyPath, find_paths, leave_out
from semel.faces.config.paths import find_config_file, find_data_dir, find_ledger, read_config_file
from semel.faces.config.problems import ConfigError, ProblemList, explain_validation_error, find_nearest
from semel.faces.config.references import (
    check_agent_secrets,
    check_references,
    find_hidden_variables,
    has_people,
    map_secrets,
)
from semel.gateway.settings import (
    AgentSettings,
    ChannelSettings,
    FileSettings,
    GatewayOptions,
    GatewaySettings,
    LimitSettings,
    Sections,
)
from semel.gateway.settings.tables import CONFLICT, DERIVED, pick_fields, read_table
from semel.ledger.storage.location import DatabaseUrl
from semel.text.write_errors import advise_on_write_error

NEEDS_DATABASE = "only gateways on one PostgreSQL database can be a cluster: set [ledger] url, or remove [cluster]"
FILES_NEED_DATABASE = (
    "only the files of a ledger in PostgreSQL can be in object storage: set [ledger] url, or remove [files]"
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_HOST_CHARS = 253  # limit of the DNS
MAX_PORT = 65535
DEMO_COMMAND = (sys.executable, "-m", "semel.agents.demo")


@dataclass(frozen=True)
class GatewayConfig:
    """Everything `semel up` needs. `path` is the configuration file, or `None` without one."""

    gateway: GatewaySettings
    host: str
    port: int  # 0: any free one
    log: str
    path: Path | None
    http: HttpOptions
    secrets: frozenset[str] = frozenset()  # names of variables with secrets of channels and nodes, withheld from agents
    nodes: tuple[NodeSettings, ...] = ()
    check_agents: bool = True
    cluster: ClusterSection = field(
        default_factory=ClusterSection
    )  # without a name: the gateway is the only one of its ledger
    gives_way: bool = False  # the gateway ends for the next `semel up` on the same data


def load_config(
    path: Path | None = None,
    data_dir: Path | None = None,
    listen: str | None = None,
    log: str | None = None,
    env: Mapping[str, str] = os.environ,
) -> GatewayConfig:
    """Read and check the configuration. Raises ConfigError, which names every mistake, written for the user."""
    config, problems = examine_config_file(path, data_dir, listen, log, env)
    if problems:
        raise ConfigError(*problems)
    return config


def load_limits(path: Path | None = None, env: Mapping[str, str] = os.environ) -> LimitSettings:
    """Read only `[limits]`, so that the secrets of other tables need not be there. Raises ConfigError."""
    return _load_part(path, env, lambda raw: {name: raw[name] for name in ("limits",) if name in raw}).limits


def load_retention(path: Path | None = None, env: Mapping[str, str] = os.environ) -> ConfigFile:
    """Read only how long content is kept: `[sessions]`, and `retain` of channels. Needs no secrets, either.

    Raises ConfigError.
    """
    return _load_part(path, env, _pick_retention)


def load_files(path: Path | None = None, env: Mapping[str, str] = os.environ) -> FileSettings:
    """Read only `[files]`, with its secrets. Raises ConfigError."""
    return _load_part(path, env, lambda raw: {name: raw[name] for name in ("files",) if name in raw}).files


def _pick_retention(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the file's content that says how long content is kept."""
    part = {name: raw[name] for name in ("sessions", "channels") if name in raw}
    if isinstance(channels := part.get("channels"), dict):
        part["channels"] = {
            name: {key: channel[key] for key in ("kind", "retain") if key in channel}
            for name, channel in channels.items()
            if isinstance(channel, dict)
        }
    return part


def _load_part(
    path: Path | None, env: Mapping[str, str], pick: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> ConfigFile:
    """Read only the part of the file's content that `pick` returns. Raises ConfigError."""
    source = _open_source(find_config_file(path, env), env)
    try:
        return read_table(ConfigFile, pick(source.content), source.resolvers)
    except ValidationError as error:
        raise ConfigError(
            *explain_validation_error(error.errors(), ConfigFile, source.text, source.name).problems
        ) from None


def _open_source(path: Path | None, env: Mapping[str, str]) -> ConfigSource:
    """Read the configuration file. `path`: None if there is none. Raises ConfigError."""
    text, content = read_config_file(path) if path else ("", {})
    return ConfigSource(path.parent if path else Path.cwd(), text, str(path or "semel.toml"), env, content)


def examine_config_file(
    path: Path | None = None,
    data_dir: Path | None = None,
    listen: str | None = None,
    log: str | None = None,
    env: Mapping[str, str] = os.environ,
) -> tuple[GatewayConfig, list[str]]:
    """Return the configuration without its mistakes, so that the rest of it can be checked, and all the mistakes.

    Raises ConfigError if there is nothing to check: a file that cannot be read, or that is not TOML.
    """
    path = find_config_file(path, env)
    source = _open_source(path, env)
    found, host, port = ProblemList(), "", 0
    file, raw = _parse(source.content, source, found)
    check_references(file, source, found)
    data = find_data_dir(data_dir, file.gateway.data_dir, source.base, env)
    with found.collect():
        host, port = _read_address(listen, file.gateway.listen, source)
    with found.collect():
        _check_data_dir(data, data_dir, source)
    fields: dict[str, Any] = {"data_dir": data, "ledger": find_ledger(file.ledger.url, data)}
    fields |= pick_fields(file.gateway, GatewayOptions) | pick_fields(file, Sections)
    agents = _complete_agents(file, source, found)
    fields["agents"] = agents | {
        name: agent for name, agent in read_editor_agents(data, found).items() if name not in agents
    }
    fields["continues_sessions"] = bool(file.agents)  # the demo, which nobody configured, continues no session
    fields["channels"] = _complete_channels(file.channels, source, found)
    if fields["default_agent"] not in fields["agents"]:
        fields["default_agent"] = ""
    settings = GatewaySettings(**fields)
    if file.cluster.name and not isinstance(settings.ledger, DatabaseUrl):
        found.add(source.error(("cluster", "name"), NEEDS_DATABASE))
    if file.files.url and not isinstance(settings.ledger, DatabaseUrl):
        found.add(source.error(("files", "url"), FILES_NEED_DATABASE))
    secrets = map_secrets(settings.channels)
    with found.collect():
        check_agent_secrets(settings.agents, secrets, source)
    config = GatewayConfig(
        settings,
        host,
        port,
        log or file.gateway.log,
        path,
        HttpOptions(**pick_fields(file.gateway, HttpOptions)),
        find_hidden_variables(raw, secrets, env),
        tuple(file.nodes.values()),
        file.gateway.check_agents,
        file.cluster,
    )
    return config, source.sort_by_line(found.problems)


def _parse(raw: Mapping[str, Any], source: ConfigSource, found: ProblemList) -> tuple[ConfigFile, Mapping[str, Any]]:
    """Validate the file. Return it without the settings that are wrong, and its TOML without them.

    The mistakes are added to `found`. Errors that appear only after wrong settings were left out are consequences of
    those, and are not added. Conflicts between settings that are all still there are added even then: pydantic looks
    for conflicts only in a table whose settings are right.
    """
    left_out: set[KeyPath] = set()
    while True:
        try:
            return read_table(ConfigFile, raw, source.resolvers), raw
        except ValidationError as error:
            details = error.errors(include_url=False)
            own = [problem for problem in details if not left_out or _is_conflict_of_others(problem, left_out)]
            found.problems += explain_validation_error(own, ConfigFile, source.text, source.name).problems
        paths = find_paths(raw, [problem["loc"] for problem in details])
        remaining = leave_out(raw, paths)
        if remaining == raw:
            raise ConfigError(*found.problems)
        raw, left_out = remaining, left_out | paths


def _is_conflict_of_others(problem: ErrorDetails, left_out: set[KeyPath]) -> bool:
    """Whether the problem is a conflict between settings that are all still there.

    A setting that was left out may also be one of them by a misspelt key: `comand` for `command`.
    """
    if problem["type"] != CONFLICT:
        return False
    section = tuple(str(key) for key in problem["loc"])
    left_out_keys = [path[-1] for path in left_out if path[:-1] == section]
    return not any(find_nearest(key, problem["ctx"]["keys"]) for key in left_out_keys)


def _read_address(option: str | None, setting: str, source: ConfigSource) -> tuple[str, int]:
    """Return host and port of `--listen`, else of the setting. Raises ConfigError, which names the wrong one."""
    try:
        return _parse_address(option or setting)
    except ValueError as error:
        if option:
            raise ConfigError(f"--listen is {error}") from None
        raise source.error(("gateway", "listen"), f'[gateway] "listen" is {error}') from None


def _parse_address(listen: str) -> tuple[str, int]:
    """Parse HOST:PORT. Raises ValueError, whose message begins with the value and says what it should be."""
    host, colon, port = listen.rpartition(":")
    if colon and not host:
        raise ValueError(
            f'{listen[:100]!r}, without a host: write "127.0.0.1{listen[:100]}" for this machine alone, '
            f'or "0.0.0.0{listen[:100]}" for everyone who reaches it'
        )
    is_port = re.fullmatch("[0-9]{1,5}", port) is not None and int(port) <= MAX_PORT
    if not colon or len(host) > MAX_HOST_CHARS or not (is_port or port.isdecimal()):
        example = port if is_port and not colon else "8420"
        raise ValueError(f'{listen[:100]!r}, and should be host:port, like "127.0.0.1:{example}"')
    if not is_port:
        raise ValueError(f'{listen[:100]!r}, and the port should be 0 to {MAX_PORT}, like "127.0.0.1:8420"')
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check_data_dir(data: Path, option: Path | None, source: ConfigSource) -> None:
    """Raise ConfigError if the data directory neither exists nor can be made."""
    existing = _find_existing(data)
    if not os.path.lexists(existing):
        return
    if not existing.is_dir():
        obstacle = f"{existing} is not a directory: move it away, or name another directory"
    elif existing != data and (error := _find_creation_error(existing)):
        remedy = advise_on_write_error(error) or "Name another directory."
        obstacle = f"no directory can be made in {existing}: {error.strerror}. {remedy}"
    else:
        return
    problem = f"is {data}, but {obstacle}"
    if option is not None or source.env.get("SEMEL_DATA"):
        raise ConfigError(f"{'--data-dir' if option is not None else '$SEMEL_DATA'} {problem}")
    raise source.error(("gateway", "data_dir"), f'[gateway] "data_dir" {problem}')


def _find_existing(path: Path) -> Path:
    """Return the path, or the nearest directory above it that exists."""
    return next((place for place in (path, *path.parents) if os.path.lexists(place)), path)


def _find_creation_error(place: Path) -> OSError | None:
    """Try to make a directory in `place`. Return the error that any user would get; None if it may be possible.

    A missing permission does not count, because the gateway may run as another user.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".semel-", dir=place):
            return None
    except PermissionError:
        return None
    except OSError as error:
        return error


def _complete_agents(file: ConfigFile, source: ConfigSource, found: ProblemList) -> dict[str, AgentSettings]:
    """Return the agents of the file; if it has none, the bundled demo agent, which needs no network."""
    agents = dict(file.agents) or {"demo": AgentSettings(name="demo", kind="demo")}
    for name, agent in agents.items():
        with found.collect():
            if agent.cwd != DERIVED and not agent.cwd.is_dir():
                problem = f"[agents.{name}] cwd is {agent.cwd}, which is not a directory"
                raise source.error(("agents", name, "cwd"), problem)
        with found.collect():
            if agent.trace is not None and not _find_existing(agent.trace).is_dir():
                problem = f"[agents.{name}] trace is {agent.trace}, but {_find_existing(agent.trace)} is a file"
                raise source.error(("agents", name, "trace"), f"{problem}: name a directory")
        if agent.kind == "demo":
            agents[name] = agent.model_copy(update={"command": DEMO_COMMAND})
    return agents


def _complete_channels(
    channels: Mapping[str, ChannelSettings], source: ConfigSource, found: ProblemList
) -> dict[str, ChannelSettings]:
    completed = {}
    for name, channel in channels.items():
        with found.collect():
            update = {"options": check_options(channel, source), "people": has_people(channel.kind)}
            completed[name] = channel.model_copy(update=update)
    return completed
