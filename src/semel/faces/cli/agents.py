"""`semel agents`: the agents that are configured or installed here; add one, try it, log it in."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.config_lines import append_config, read_config
from semel.faces.cli.printing import count_of, name_command, print_error, print_json, print_remark, print_table
from semel.text.visible import visible

if TYPE_CHECKING:
    from semel.agents.acp import AcpAgent
    from semel.agents.known import KnownAgent
    from semel.agents.model import ModelAgent
    from semel.faces.agent_check import AgentCheck
    from semel.faces.config.load import GatewayConfig
    from semel.faces.health.gateway_agents import GatewayAgents
    from semel.gateway.settings import GatewaySettings

agents_app = typer.Typer(help="The agents: list them, add one, try it, log it in.", no_args_is_help=True)
app.add_typer(agents_app, name="agents")

AgentName = Annotated[str, typer.Argument(metavar="NAME", help="An agent's name.")]
KEYLESS_PROFILES = ("semel-demo",)
"""The profiles of agents that need no login."""
MAX_LISTED = 12
"""The most modes and models of an agent that a check lists for people."""


@agents_app.command("list")
def list_agents(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """List the agents: configured ones, commands of editors, those found on PATH, and programs without an adapter."""
    from semel.agents.known import find_agents_on_path, find_agents_without_adapter

    commands = {name: _read_command(table) for name, table in _read_config(config)[2].items()}
    gateway = _ask_gateway(config, data_dir)
    unknown = _find_unknown_agents(config, data_dir, gateway)
    rows = [
        {
            "name": name,
            "state": "configured",
            "command": command,
            "todo": "; ".join(filter(None, (_find_todo(name, command), unknown.get(name)))),
        }
        for name, command in commands.items()
    ]
    rows += _list_editor_agents(config, data_dir, commands)
    used = {row["command"][0] for row in rows if row["command"]}
    for agent in find_agents_on_path():
        if agent["command"][0] not in used:
            todo = f"semel agents add {agent['name']}"
            rows.append({"name": agent["name"], "state": "installed", "command": agent["command"], "todo": todo})
    for known in find_agents_without_adapter():
        todo = f"needs an adapter: {shlex.join(known.install_command)}"
        rows.append({"name": known.name, "state": "no adapter", "command": [known.cli], "todo": todo})
    if gateway is not None and not commands:
        _remark_on_gateway(gateway, config, data_dir)
    if json:
        print_json(rows)
        return
    print_table(
        ("NAME", "STATE", "COMMAND", "TO DO"),
        ((row["name"], row["state"], shlex.join(row["command"]), name_command(str(row["todo"]))) for row in rows),
        "no agent is configured or installed; semel agents add NAME says how to install one (semel docs use-an-agent)",
    )


@agents_app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A known agent, such as claude, codex or opencode.")],
    install: Annotated[bool, typer.Option("--install", help="Install its packages, if it is not installed.")] = False,
    config: Config = None,
) -> None:
    """Add a known agent to semel.toml. If it is not installed, say how to install it, or do it with --install."""
    from semel.agents.known import KNOWN_AGENTS, find_known
    from semel.faces.config import ConfigError
    from semel.faces.config.load import load_config
    from semel.faces.config.problems import suggest_nearest
    from semel.faces.health.session_agents import describe_missing_agents

    known = find_known(name)
    if known is None:
        names = list(dict.fromkeys(agent.name for agent in KNOWN_AGENTS))
        print_error(
            f"no known agent is named {name!r}{suggest_nearest(name, names)}",
            "Any other program that speaks ACP works, too: write its section by hand (semel docs agents/other).",
        )
        raise typer.Exit(2)
    if shutil.which(known.command[0]) is None:
        install_agent(known, install)
    path, text, agents = _read_config(config)
    if name in agents:
        print_error(f"{path} has [agents.{name}] already, and was left as it is")
        raise typer.Exit(1)
    added = f"{'' if not text or text.endswith(chr(10)) else chr(10)}{chr(10) if text else ''}{known.config_lines}\n"
    append_config(path, text, added)
    try:
        loaded = load_config(path)
    except ConfigError as error:
        print_error(f"[agents.{name}] was added to {path}, which has another mistake:", *error.problems)
        raise typer.Exit(1) from None
    print_remark(
        f"added [agents.{name}] to {path}; a running gateway needs a restart. Try it: semel agents check {name}"
    )
    print_remark(describe_default_agent(name, loaded.gateway))
    for text in describe_missing_agents(loaded):
        print_remark(text)


def describe_default_agent(added: str, settings: GatewaySettings) -> str:
    """Say who answers in new conversations, now that the agent `added` is there, and how to change that."""
    default = settings.default_agent
    if default == added:
        text = f"{added} answers in new conversations, because it is the default agent"
    else:
        change = f'default_agent = "{added}" in [gateway]'
        text = f"{default} still answers in new conversations. To let {added} answer there, set {change}"
    if settings.channels:
        text += (
            f". In each chat of a channel, {added} begins a new session then, without what was said there before "
            "(semel docs use-an-agent)"
        )
    return text


@agents_app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all of them.")] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="TEXT", help="Send this prompt, too, and show the answer.")
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Start each agent and open a session, to see if it is installed and logged in and takes Semel's tools.

    Needs no running gateway. An agent that demands a login is logged in with its key, if the key is in its environment.
    A model behind an API is sent a request only with --prompt; its MCP servers are started or called. Exits with 1 if
    an agent cannot be used from this shell; if the running gateway can use it, a note says so.
    """
    from semel.faces.health.gateway_agents import add_failing_agents

    agents = load_agents(names, config, data_dir)
    gateway = add_failing_agents(_ask_gateway(config, data_dir), config, data_dir)
    unknown = _find_unknown_agents(config, data_dir, gateway)
    checks = asyncio.run(_check_agents(agents, prompt, gateway, unknown, prints=not json))
    if json:
        print_json([asdict(result) for result in checks])
    if any(result.problem for result in checks):
        raise typer.Exit(1)


async def _check_agents(
    agents: Sequence[AcpAgent | ModelAgent],
    prompt: str | None,
    gateway: GatewayAgents | None,
    unknown: Mapping[str, str],
    *,
    prints: bool,
) -> list[AgentCheck]:
    """Try these agents, several at a time. Return what is found, in their order.

    `gateway`: what the running gateway says of them. `unknown`: notes about those that it does not know. `prints`:
    print each check as soon as it and those before it are done; of one that is done earlier, a remark tells at once.
    """
    from semel.faces.agent_check import MAX_CHECKS_AT_ONCE, SAID, check_agent
    from semel.faces.health.gateway_agents import explain_difference

    done: dict[str, AgentCheck] = {}
    places, printed = asyncio.Semaphore(MAX_CHECKS_AT_ONCE), 0

    async def check_in_turn(agent: AcpAgent | ModelAgent) -> None:
        nonlocal printed
        notices: list[str] = []
        tell, warn = partial(_print_notice, agent.name, notices), partial(_print_delay, agent.name, notices)
        async with places:
            result = await check_agent(agent, prompt, on_notice=tell, on_delay=warn)
        result.notes += filter(None, [unknown.get(agent.name)])
        if result.problem:
            result.notes += filter(None, [explain_difference(result, gateway)])
        done[agent.name] = result
        if not prints:
            return
        told = {SAID + notice for notice in notices}  # as it said it
        result.notes = [note for note in result.notes if note not in told]
        if agents[printed].name not in done:
            print_remark(f"{_describe_outcome(result)}{f' ({result.problem})' if result.problem else ''}")
        while printed < len(agents) and agents[printed].name in done:
            print_check(done[agents[printed].name])
            printed += 1

    await asyncio.gather(*map(check_in_turn, agents))
    return [done[agent.name] for agent in agents]


@agents_app.command()
def login(
    name: AgentName,
    method: Annotated[
        str | None, typer.Option("--method", metavar="ID", help="The login method, if it offers several. Default: ask.")
    ] = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Log an agent in: run the login that the agent offers, in this terminal."""
    from semel.agents.acp import AcpAgent
    from semel.agents.codex_account import describe_codex_account
    from semel.faces.cli.agent_login import log_in

    [agent] = load_agents([name], config, data_dir)
    if not isinstance(agent, AcpAgent):
        print_error(f"agent {name!r} is a model behind an API: its key is the setting `key` (semel docs models)")
        raise typer.Exit(2)
    if not log_in(agent, method):
        raise typer.Exit(1)
    if account := describe_codex_account(agent):
        print_remark(f"{name}: {account}")
    print_remark(f"logged in. To see whether all is well: semel agents check {name} --prompt 'Say hello.'")


# ---------------------------------------------------------------- configuration


def _read_config(config: Path | None) -> tuple[Path, str, dict[str, Any]]:
    """Return the configuration file, its text and its tables [agents.NAME], unchecked.

    If there is no file yet: ./semel.toml, "" and no tables.
    """
    path, text, raw = read_config(config)
    tables = raw.get("agents")
    agents = (
        {name: table for name, table in tables.items() if isinstance(table, dict)} if isinstance(tables, dict) else {}
    )
    return path, text, agents


def _list_editor_agents(
    config: Path | None, data_dir: Path | None, configured: Collection[str]
) -> list[dict[str, Any]]:
    """Return a row for each agent whose command came from an editor. Raises ConfigError."""
    from semel.faces.config.editor_agents import read_editor_agents
    from semel.faces.config.paths import locate
    from semel.faces.config.problems import ConfigError, ProblemList

    found = ProblemList()
    agents = read_editor_agents(locate(config, data_dir)[0], found)
    if found.problems:
        raise ConfigError(*found.problems)
    return [
        {"name": name, "state": "of an editor", "command": list(agent.command), "todo": f"semel agents check {name}"}
        for name, agent in agents.items()
        if name not in configured
    ]


def _ask_gateway(config: Path | None, data_dir: Path | None) -> GatewayAgents | None:
    """Return what the running gateway says of its agents; None if none can be asked."""
    from semel.faces.health.gateway_agents import ask_gateway_agents

    return asyncio.run(ask_gateway_agents(config, data_dir))


def _remark_on_gateway(gateway: GatewayAgents, config: Path | None, data_dir: Path | None) -> None:
    """Say which agents the running gateway has, because no configuration file that was found here has any."""
    from semel.faces.config import locate_running
    from semel.tools.address import NoGateway, find_running_config

    try:
        file = find_running_config(locate_running(config, data_dir))
    except NoGateway:  # it has just ended
        return
    listing = "" if file is None else f"; --config {shlex.quote(str(file))} lists them"
    print_remark(f"the running gateway has the agents {', '.join(gateway.names)}{listing}")


def _find_unknown_agents(config: Path | None, data_dir: Path | None, gateway: GatewayAgents | None) -> dict[str, str]:
    """Return, for each agent of the file that the running gateway does not know, why that is and what to do."""
    from semel.faces.health.gateway_agents import explain_unknown_agents

    file, _, tables = _read_config(config)
    return explain_unknown_agents(config, data_dir, file, tables, gateway)


def _read_command(table: dict[str, Any]) -> list[str]:
    command = table.get("command")
    return [str(word) for word in command] if isinstance(command, list) else []


def _find_todo(name: str, command: list[str]) -> str:
    from semel.agents.acp.environment import find_missing_interpreter
    from semel.agents.known import explain_plain_program, find_known

    if (reason := explain_plain_program(command)) is not None:
        return f"{reason} as `command`"
    program = shutil.which(command[0]) if command else None
    if program is not None and (interpreter := find_missing_interpreter(program, os.environ.get("PATH", os.defpath))):
        return f"{interpreter} is not on PATH, and {command[0]} needs it: install it"
    if command and program is None:
        known = find_known(name)
        if known is None or known.command[0] != command[0]:
            return f"{command[0]} is not installed, or not on PATH"
        how = shlex.join(known.install_command) or "see its documentation"
        return f"{command[0]} is not installed: {how}"
    return f"semel agents check {name}" if command else ""


def load_agents(names: list[str] | None, config: Path | None, data_dir: Path | None) -> list[AcpAgent | ModelAgent]:
    """Return the configured agents with these names, or all. Makes their workspaces. Exits with 2 on a wrong name."""
    from semel.agents.known import find_known
    from semel.faces.build_agents import build_agent
    from semel.faces.config.load import load_config
    from semel.faces.config.problems import suggest_nearest

    settings: GatewayConfig = load_config(config, data_dir)
    configured = settings.gateway.agents
    for name in names or ():
        if name not in configured:
            if find_known(name) is not None:
                print_error(f"no agent {name!r} is configured yet. Add it with: semel agents add {name}")
            else:
                nearest = suggest_nearest(name, list(configured))
                print_error(f"no agent {name!r} is configured{nearest}; see semel agents list")
            raise typer.Exit(2)
    chosen = [agent for name, agent in configured.items() if not names or name in names]
    settings.gateway.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # as the gateway makes it
    for agent in chosen:
        agent.cwd.mkdir(parents=True, exist_ok=True)
    return [build_agent(agent, settings) for agent in chosen]


# ---------------------------------------------------------------- installing


def install_agent(known: KnownAgent, wanted: bool) -> None:
    """Install an agent's packages. If `wanted` is false, print how to install them, and exit with 1."""
    name, program, command = known.name, known.command[0], known.install_command
    if not command:
        print_error(f"{program} is not on PATH. Install {name} as its own documentation says, then try again")
        raise typer.Exit(1)
    if not wanted:
        print_error(
            f"{program} is not installed. Install it with: {shlex.join(command)}",
            f"or let Semel do that: semel agents add {name} --install",
            *filter(None, [find_node_problem(known)]),
        )
        raise typer.Exit(1)
    if shutil.which(command[0]) is None:
        needs = "Node.js 22 or newer, which has npm" if command[0] == "npm" else "pipx (https://pipx.pypa.io)"
        print_error(f"{command[0]} is not installed: install {needs}, then try again")
        raise typer.Exit(1)
    if problem := find_node_problem(known):
        print_error(problem)
        raise typer.Exit(1)
    print_remark(f"running {shlex.join(command)}")
    if subprocess.run(command, check=False).returncode:
        print_error(f"{command[0]} could not install {name}; its error is shown above", *_explain_npm(command[0]))
        raise typer.Exit(1)
    if shutil.which(program) is None:
        print_error(
            f"{command[0]} installed {name}, but {program} is not on PATH: add its directory of programs to PATH"
        )
        raise typer.Exit(1)


def find_node_problem(known: KnownAgent) -> str:
    """Return why the Node.js here is too old for an agent, and what to do; "" if it is new enough or not found.

    npm itself warns only after the download.
    """
    if not known.node or shutil.which("node") is None:
        return ""
    asked = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    version = re.match(r"v(\d+)\.", asked)
    if version is None or int(version[1]) >= known.node:
        return ""
    return (
        f"{known.name} needs Node.js {known.node} or newer, and this is {asked}. Nothing was installed: "
        "get a newer one (https://nodejs.org), then try again"
    )


def _explain_npm(program: str) -> list[str]:
    """Say what to do if npm may not write to its global directory, as with the Node.js of many systems (EACCES)."""
    if program != "npm":
        return []
    asked = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True, check=False)
    folder = Path(asked.stdout.strip() or "/")
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if asked.returncode or os.access(existing, os.W_OK):
        return []
    return [
        f"npm may not write to {folder} as this user. Have it install into your home instead, then try again: "
        "npm config set prefix ~/.local (and have ~/.local/bin on PATH)"
    ]


# ---------------------------------------------------------------- printing


def _print_notice(agent: str, notices: list[str], text: str) -> None:
    """Print what the agent says about itself, and add it to `notices`."""
    notices.append(text)
    print_remark(f"{agent} says: {text}")


def _print_delay(agent: str, notices: Sequence[str], seconds: float, key_variable: str | None) -> None:
    """Print that there is no answer yet, and the likely reason. `notices`: what the agent has said about itself."""
    remark = "It may be repeating a request: is its key right, and is this machine connected to the network?"
    if notices:
        remark = f"It last said: {notices[-1]}"
    elif key_variable is not None:
        remark = (
            f"It may be repeating a request. {key_variable} is set: its value may have been refused. "
            "Or is this machine not connected to the network?"
        )
    print_remark(f"{agent}: no answer after {seconds:g} s. {remark}")


def _list_others(offered: Sequence[str]) -> str:
    """Return " (of a, b)" for the modes or models that an agent offers, at most MAX_LISTED; "" if there are none.

    Variants of a model, such as Codex's `gpt-5.5[low]` and `gpt-5.5[high]`, are listed as one.
    """
    from semel.acp_stream.choices import group_variants

    groups = group_variants(offered)
    names = list(groups)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    variant = next((variant for variants in groups.values() for variant in variants if variant), "")
    variants = f", with variants such as {variant}" if len(names) < len(offered) else ""
    complete = "; --json lists all" if more or variants else ""
    return f" (of {', '.join(names[:MAX_LISTED])}{more}{variants}{complete})" if names else ""


def _describe_untried(check: AgentCheck, what: str) -> str:
    """Say that no prompt was sent, and how to send one. `what`: what only a prompt can show, as a clause."""
    command = shlex.join(("semel", "agents", "check", check.name, "--prompt", "Say hello."))
    return f"not tried: only a prompt shows whether {what} ({command})"


def _describe_outcome(check: AgentCheck) -> str:
    return f"{check.name}: {'cannot be used' if check.problem else 'ok'}"


def print_check(check: AgentCheck) -> None:
    print(_describe_outcome(check), flush=True)
    lines = []
    is_untried = check.answer_s is None and not check.problem
    if check.session_s is not None or check.answer_s is not None:
        program = check.program or shlex.join(check.command)
        opened = "" if check.session_s is None else f", a session after {check.session_s:g} s"
        lines.append(("program", program + opened))
        if check.mode is not None:
            lines.append(("mode", check.mode + _list_others(check.modes)))
        if check.model is not None:
            lines.append(("model", check.model + _list_others(check.models)))
        if check.tools is not None:
            lines.append(("tools", "it takes Semel's tools" if check.tools else "it does not take Semel's tools"))
        if check.memory_mb is not None:
            lines.append(
                ("memory", f"{check.memory_mb} MB in {count_of(check.processes or 0, 'process', 'processes')}")
            )
        if check.answer_s is not None and not check.problem:
            lines.append(("answer", f"{check.answer!r} after {check.answer_s:g} s"))
        untried = _describe_untried(check, "it is accepted") if is_untried else ""
        if check.profile not in KEYLESS_PROFILES and (login := "; ".join(filter(None, (check.login, untried)))):
            lines.append(("login", login))
    lines += [("server", server) for server in check.describe_servers()]
    if check.key:
        lines.append(("key", check.key))
        if is_untried and check.session_s is None:
            lines.append(("answer", _describe_untried(check, "model and key are right")))
    lines += [("note", note) for note in check.notes]
    if check.problem:
        lines.append(("problem", check.problem))
    for label, text in lines:
        print(f"  {label:<9}{visible(name_command(text))}")
