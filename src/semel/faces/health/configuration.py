"""Check semel.toml as `semel up` does, without starting anything: the mistakes, and what is questionable."""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import semel.channels
from semel.faces.build_agents import find_program_problem
from semel.faces.config import ConfigError
from semel.faces.config.load import GatewayConfig, examine_config_file
from semel.faces.config.paths import find_config_file, find_data_dir, is_data_dir_named, read_config_file
from semel.faces.config.problems import find_line, find_nearest, suggest_nearest
from semel.faces.health.finding import Finding
from semel.faces.health.session_agents import read_ledger
from semel.faces.run import describe_model_keys, find_build_problems
from semel.gateway.settings import ChannelSettings
from semel.law.access import ROLES
from semel.law.identity import CUSTOMARY_NAME
from semel.ledger import people
from semel.tools.address import NoGateway, find_last_config, find_running_config

_MISSING_VARIABLE = re.compile(
    r"the environment variable (?P<named>\S+) is not set$|Set the `(?P<usual>\w+)` environment variable "
)
"""A problem of an `env:NAME`, or of a model for which no key is configured, as its library puts it."""


@dataclass(frozen=True)
class CheckedConfig:
    """The result of checking a configuration.

    - `path`: its file; None if there is none. `raw`: the file's content as parsed TOML.
    - `config`: its settings; None if `semel up` would refuse it. `problems`: the mistakes in it.
    - `warnings`: settings that are allowed, but certainly mistakes. `agent_warnings`: agents whose program is missing.
    - `notes`: which API key the server of each model gets, or why none.
    """

    path: Path | None
    raw: Mapping[str, Any]
    config: GatewayConfig | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    agent_warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.path or "the default configuration")

    @property
    def mistakes(self) -> str:
        """How many mistakes are in the file, and what to run to see them; "" if there is none."""
        number = sum(_MISSING_VARIABLE.search(problem) is None for problem in self.problems)
        return (
            f"{self.name} has {number} mistake{'' if number == 1 else 's'}; see: semel config check" if number else ""
        )

    def count_mistakes(self) -> str:
        """Return, as the end of a sentence, what `semel up` would refuse here and what to run; "" if nothing.

        A variable that this shell lacks is no mistake of the file: the gateway's own shell or service may have it.
        """
        missing = list_missing_variables(self.problems)
        if not missing:
            return self.mistakes
        lacks = f"this shell lacks {', '.join(missing)}, which {self.name} needs"
        return f"{lacks}; besides, {self.mistakes}" if self.mistakes else f"{lacks}; set it as the gateway has it"


def check_config(path: Path | None, data_dir: Path | None = None, env: Mapping[str, str] = os.environ) -> CheckedConfig:
    """Check the configuration that `semel up` would use. Raises ConfigError only if the named file does not exist."""
    file = find_config_file(path, env)
    try:
        text, raw = read_config_file(file) if file is not None else ("", {})
    except ConfigError as error:
        return CheckedConfig(file, {}, problems=error.problems)
    try:
        config, problems = examine_config_file(path, data_dir, env=env)
    except ConfigError as error:
        return CheckedConfig(file, raw, problems=error.problems)
    problems += [_place_problem(problem, config, text) for problem in find_build_problems(config)]
    accounts = read_ledger(config, people.list_accounts) if _names_approvers(config) else []
    warnings = tuple(list_warnings(config, text, accounts))
    agent_warnings = tuple(_list_agent_warnings(config, text))
    if problems:
        return CheckedConfig(file, raw, None, tuple(problems), warnings, agent_warnings)
    return CheckedConfig(file, raw, config, (), warnings, agent_warnings, tuple(describe_model_keys(config)))


def follow_gateway(
    path: Path | None, data_dir: Path | None, env: Mapping[str, str] = os.environ
) -> tuple[Path | None, Path | None]:
    """Return the configuration file and the data directory to check, of which either may be `None`, as in `locate`.

    They are those of the running gateway, if no file is named, and either the data directory is named or there is no
    file in the usual places. A service may read a file that is elsewhere, such as /etc/semel/semel.toml. If no gateway
    runs, and there is no file in the usual places, the file is the one that the last gateway read.
    """
    is_file_named = path is not None or bool(env.get("SEMEL_CONFIG"))
    is_data_named = is_data_dir_named(data_dir, env)
    is_file_found = is_file_named or find_config_file(path, env) is not None
    if is_file_named or (is_file_found and not is_data_named):
        return path, data_dir
    try:
        data = find_data_dir(data_dir, None, Path.cwd(), env)
    except ConfigError:
        return path, data_dir
    try:
        return find_running_config(data), data
    except NoGateway:
        return (path, data_dir) if is_file_found else (find_last_config(data), data)


def examine_running_config(checked: CheckedConfig, data_dir: Path) -> list[Finding]:
    """Return a warning if the running gateway of a data directory read another file than the one that was checked."""
    try:
        file = find_running_config(data_dir)
    except NoGateway:
        return []
    if file == checked.path or (file and checked.path and file.resolve() == checked.path.resolve()):
        return []
    read = f"{file}, which was not checked" if file else "no configuration file"
    text = f"{checked.name} was checked, but the running gateway has read {read}"
    remedy = f"name it: semel doctor --config {shlex.quote(str(file))}" if file else "restart the gateway to use it"
    return [Finding("configuration", "warning", text, remedy)]


def count_parts(config: GatewayConfig) -> str:
    """Return in words what is configured, such as "2 agents, 1 channel, 0 schedules, 0 nodes"."""
    gateway = config.gateway
    counts = (
        ("agent", len(gateway.agents)),
        ("channel", len(gateway.channels)),
        ("schedule", len(gateway.schedules)),
        ("node", len(config.nodes)),
    )
    return ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for noun, number in counts)


def list_missing_variables(problems: Iterable[str]) -> list[str]:
    """Return the names of the environment variables that the file needs and this shell lacks."""
    matches = filter(None, map(_MISSING_VARIABLE.search, problems))
    return list(dict.fromkeys(match["named"] or match["usual"] for match in matches))


def advise_on_variables(problems: Collection[str]) -> str:
    """Say that the file may be right where it names environment variables that are missing here; "" if none is."""
    names = list_missing_variables(problems)
    if not names:
        return ""
    lacked = ", ".join(names)
    remark = f"The file may be right: this shell lacks {lacked}"
    if not all(_MISSING_VARIABLE.search(problem) for problem in problems):
        remark = f"About {lacked}, the file may be right: this shell lacks {'it' if len(names) == 1 else 'them'}"
    return (
        f"{remark}. Set what the gateway will have, then check again; a service has the variables of its environment "
        "file (semel docs operate)"
    )


def _place(config: GatewayConfig, text: str, *location: str) -> str:
    """Return the file and the line of a setting, as the beginning of a message. `text`: the file's content."""
    line = find_line(text, location)
    return f"{config.path or 'semel.toml'}:{f'{line}:' if line else ''} "


def _place_problem(problem: str, config: GatewayConfig, text: str) -> str:
    """Put file and line before a problem that begins with the header of its section."""
    section = re.match(r"\[(\w+)\.([\w-]+)\]", problem)
    return f"{_place(config, text, *section.groups())}{problem}" if section else problem


def list_warnings(config: GatewayConfig, text: str, accounts: Collection[people.PersonAccount] = ()) -> Iterator[str]:
    """Yield a warning for each setting that is allowed, but certainly a mistake.

    `text`: the file's content, in which the warnings' line numbers are looked up. `accounts`: those that the ledger
    knows.
    """
    for name, channel in config.gateway.channels.items():
        settings = semel.channels.kinds()[channel.kind].settings(**channel.options)
        if warning := getattr(settings, "warning", "") or _explain_lost_replies(channel):
            yield f"{_place(config, text, 'channels', name)}[channels.{name}] {warning}"
    yield from _list_approval_warnings(config, text, accounts)
    for node in config.nodes:
        if not node.sessions:
            place = _place(config, text, "nodes", node.name)
            yield f'{place}[nodes.{node.name}] may report to no session: set sessions, like ["main:ci:*"]'
    heartbeat = config.gateway.heartbeat
    if heartbeat.model_fields_set and not heartbeat.sessions:
        yield f'{_place(config, text, "heartbeat")}[heartbeat] reaches no session: set sessions, like ["main:*"]'
    yield from _list_schedule_warnings(config, text)


def _names_approvers(config: GatewayConfig) -> bool:
    """Return whether `approvals` of an agent names people, and not only roles."""
    return any(set(agent.approvals) - ROLES.keys() for agent in config.gateway.agents.values())


def _list_approval_warnings(
    config: GatewayConfig, text: str, accounts: Collection[people.PersonAccount]
) -> Iterator[str]:
    """Yield a warning for each name in `approvals` that nobody has, or a guest, who may never answer a request."""
    roles = {account.name: account.role for account in accounts}
    roles |= {name: person.role for name, person in config.gateway.people.items()}
    in_file = tomllib.loads(text).get("people") or ()  # a section that is wrong itself counts, too
    for name, agent in config.gateway.agents.items():
        place = f"{_place(config, text, 'agents', name, 'approvals')}[agents.{name}] approvals:"
        for approver in sorted(set(agent.approvals) - ROLES.keys()):
            if roles.get(approver) == "guest":
                yield f'{place} "{approver}" is a guest, and guests may answer no permission request'
            elif approver not in roles and approver not in in_file:
                yield (
                    f'{place} "{approver}" counts for whoever is paired under this name, and nobody is yet: '
                    f"semel pair CHANNEL --name {approver}"
                )


def _list_schedule_warnings(config: GatewayConfig, text: str) -> Iterator[str]:
    """Yield a warning for each schedule whose time is past, or whose session names what is not configured.

    A section that is wrong itself counts: `config` lacks it, and its own mistake is told already.
    """
    content = tomllib.loads(text)
    agents, channels = (list(content.get(kind) or ()) for kind in ("agents", "channels"))
    for name, schedule in config.gateway.schedules.items():
        if schedule.at is not None and schedule.find_next(round(time.time())) is None:
            place = f"{_place(config, text, 'schedules', name, 'at')}[schedules.{name}] at is {schedule.at}"
            yield f"{place} ({schedule.tz}), which is past: correct it, or remove the section if it has fired"
        agent, colon, tail = (schedule.session or "").partition(":")
        channel, _, address = tail.partition(":")
        place = f"{_place(config, text, 'schedules', name, 'session')}[schedules.{name}] session is {schedule.session}"
        if (
            agent in channels
            and agent not in agents
            and (chat := suggest_chat(schedule.session or "", _chat_agents(config)))
        ):
            yield f'{place}, whose answers are shown on the page alone; did you mean the chat "{chat}"?'
        elif colon and agent not in (*agents, *config.gateway.agents, CUSTOMARY_NAME):
            answers = config.gateway.default_agent or "the default agent"
            yield f"{place}, but no agent is named {agent}: {answers} answers there{suggest_nearest(agent, agents)}"
        if address and channel not in channels and channel in semel.channels.kinds():
            yield f"{place}, but there is no [channels.{channel}]: the answers are shown on the page alone"
        elif address and channel not in (*channels, "web") and (nearest := find_nearest(channel, channels)):
            yield f'{place}, but there is no [channels.{channel}]; did you mean "{nearest}"?'


def suggest_chat(key: str, agents: Mapping[str, str]) -> str:
    """Return the key of the chat that somebody probably meant by `key`, which is the key of no chat; "" if of none.

    `agents`: the agent of each channel's chats, by the channel's name.
    """
    first, _, rest = key.partition(":")
    if first in agents and rest:
        return f"{agents[first]}:{key}"
    channel, _, address = rest.partition(":")
    nearest = find_nearest(channel, agents) if address and channel not in (*agents, "web") else None
    return f"{first}:{nearest}:{address}" if nearest else ""


def _chat_agents(config: GatewayConfig) -> dict[str, str]:
    gateway = config.gateway
    return {name: channel.agent or gateway.default_agent for name, channel in gateway.channels.items()}


def _explain_lost_replies(channel: ChannelSettings) -> str:
    """Return why nobody gets the answers in the sessions of a webhook, and what to set; "" if somebody does."""
    if channel.kind != "webhook" or channel.options.get("url"):
        return ""
    keys = [str(key) for key in (channel.options.get("session"), *channel.options.get("sessions", ())) if key]
    at_webhook = [key for key in keys if key.split(":")[1:2] == [channel.name]]
    if not at_webhook:
        return ""
    agent = at_webhook[0].partition(":")[0]
    return (
        f"has no url, so replies in {at_webhook[0]} go nowhere: set url, "
        f'or name a session of the page, such as "{agent}:web:{channel.name}"'
    )


def _list_agent_warnings(config: GatewayConfig, text: str) -> Iterator[str]:
    for name, settings in config.gateway.agents.items():
        if (problem := find_program_problem(settings, config)) is not None:
            yield f"{_place(config, text, 'agents', name, 'command')}{problem}"


# ---------------------------------------------------------------- findings


def examine_config(checked: CheckedConfig, *, is_running: bool) -> list[Finding]:
    """Return the findings about the configuration itself. Missing agents are left to the check of agents.

    `is_running`: a gateway runs. Then a variable that is missing here is no fault of the installation: a service has
    variables that the shell of its operator lacks.
    """
    warnings = [Finding("configuration", "warning", warning) for warning in checked.warnings]
    if checked.config is None:
        return [*(_explain_problem(problem, is_running) for problem in checked.problems), *warnings]
    return [Finding("configuration", "ok", f"{checked.name}: {count_parts(checked.config)}"), *warnings]


def _explain_problem(problem: str, is_running: bool) -> Finding:
    if is_running and _MISSING_VARIABLE.search(problem):
        remedy = "set it in this shell as the gateway has it, so that the agents can be checked from here, too"
        text = f"{problem} (in this shell; the running gateway may have it)"
        return Finding("configuration", "warning", text, remedy)
    return Finding("configuration", "broken", problem, advise_on_variables([problem]))


def examine_credentials(checked: CheckedConfig) -> list[Finding]:
    """Return the findings about `env:` and `file:` references; those that do not resolve are problems of the file."""
    references = list(_list_references(checked.raw))
    if not references or checked.config is None:
        return []
    base = checked.path.parent if checked.path is not None else Path.cwd()
    files = dict.fromkeys(
        (base / Path(value.removeprefix("file:")).expanduser()) for value in references if value.startswith("file:")
    )
    findings = [Finding("credentials", "warning", *_explain_open_file(path)) for path in files if _is_open(path)]
    if findings:
        return findings
    noun = "reference" if len(references) == 1 else "references"
    return [Finding("credentials", "ok", f"{len(references)} {noun} resolved; no file is readable by others")]


def _list_references(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if value.startswith(("env:", "file:")):
            yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _list_references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_references(inner)


def _is_open(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    except OSError:  # a plain text that begins with "file:", or one that load_config has refused
        return False


def _explain_open_file(path: Path) -> tuple[str, str]:
    return f"{path} can be read by other users of this machine", f"chmod 600 {path}"
