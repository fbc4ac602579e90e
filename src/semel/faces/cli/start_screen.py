"""What `semel up` shows on a terminal once it runs: the addresses, agents, channels and paths that one needs first.

Beyond loopback, that includes a link, also as a QR code, which logs one browser in: a phone, for instance. Its code
works once and for ten minutes. It goes to the terminal only, never into the log.
"""

from __future__ import annotations

import io
import shlex
import shutil
from collections.abc import Collection
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from semel import __version__
from semel.agents.known import explain_plain_program
from semel.faces.cli.printing import format_time, name_command, stdout_console
from semel.faces.config import locate
from semel.installation import find_command, shorten_path

if TYPE_CHECKING:
    from semel.faces.config.load import GatewayConfig
    from semel.faces.run import RunningGateway
    from semel.gateway.settings import AgentSettings

LABEL_WIDTH = 10
QR_MARGIN = 2
"""Columns and rows of the light border around a QR code. The standard asks for 4; readers need no more than 2."""
NO_TLS = "none: others on the network can read along. A proxy such as Caddy adds it (semel docs behind-a-proxy)"


def print_greeting(running: RunningGateway) -> None:
    """Print the start screen."""
    config, out = running.config, stdout_console()
    is_open = not running.is_local
    link = running.make_login_link() if is_open else None
    out.print(Text(f"\nSemel {__version__}\n", "bold"))
    _print_rows(out, "page", running.page_urls)
    if link is not None:
        until = f"for one browser, until {format_time(link.expires)}; another link: semel link"
        _print_rows(out, "login", [link.links[0], name_command(until)])
        if link.links[0].startswith("http:"):
            _print_rows(out, "tls", [NO_TLS])
    elif is_open:
        _print_rows(out, "login", [name_command("semel link")])
    _print_rows(out, "terminal", [f"{find_command()} chat{_data_dir_option(config)}"])
    _print_rows(out, "agents", [_describe_agent(agent) for agent in config.gateway.agents.values()])
    _print_rows(out, "channels", _describe_channels(running))
    _print_rows(out, "data", [shorten_path(config.gateway.data_dir)])
    _print_rows(out, "settings", [_describe_settings(running)])
    _print_installed_agents(config)
    if link is not None:
        print_qr_code(link.links[0])
    out.print(Text("\n  Ctrl-C ends it.\n", "dim"))


def _describe_settings(running: RunningGateway) -> str:
    """Name the configuration file; if there is none, the one that the gateway before has read."""
    if running.config.path is not None:
        return shorten_path(running.config.path)
    if running.unread_config is not None:
        file = shorten_path(running.unread_config)
        again = name_command(f"semel up --config {shlex.quote(str(running.unread_config))}")
        return f"none! The gateway before this one read {file}. Stop this one, then: {again}"
    return f"none; {find_command()} init asks for them"


def _print_rows(out: Console, label: str, lines: list[str]) -> None:
    """Print a label with its lines below each other; nothing if there are none."""
    for line in lines:
        out.print(Text(f"  {label:<{LABEL_WIDTH}}", "dim"), Text(line), sep="")
        label = ""


def _describe_agent(agent: AgentSettings) -> str:
    """Return an agent's name, with what keeps it from working if that can be seen without starting it."""
    if agent.kind == "demo":
        return f"{agent.name} (the bundled demo agent)"
    check = name_command(f"semel agents check {agent.name}")
    if explain_plain_program(agent.command):
        return f"{agent.name} ({agent.command[0]} itself does not speak ACP: {check})"
    if agent.kind == "model" or "/" in agent.command[0] or shutil.which(agent.command[0]):
        return agent.name
    return f"{agent.name} ({agent.command[0]} is not installed: {check})"


def _describe_channels(running: RunningGateway) -> list[str]:
    settings = running.config.gateway
    waiting = next((person.name for person in settings.people.values() if not person.accounts), None)
    name = f" --name {waiting}" if waiting else " --name NAME --role owner"
    return [
        f"{channel.name} (nobody may talk there yet: {name_command(f'semel pair {channel.name}{name}')})"
        if running.gateway.people.is_closed(channel.name)
        else channel.name
        for channel in settings.channels.values()
    ]


def _print_installed_agents(config: GatewayConfig) -> None:
    """Print how to add the unused agents on PATH. None is started without being configured."""
    used = {agent.command[0] for agent in config.gateway.agents.values() if agent.command}
    if lines := list_add_commands(used):
        out = stdout_console()
        out.print(Text("\n  Found on this machine. To use one:\n", "dim"))
        for command, remark in lines:
            out.print(Text.assemble(f"    {command}", (f" {remark}" if remark else "", "dim")))


def list_add_commands(used: Collection[str], option: str = "") -> list[tuple[str, str]]:
    """Return for each agent found on PATH whose program is not `used` the command that adds it, and a remark or "".

    `option`: what the command needs besides, such as " --config FILE".
    """
    from semel.agents.known import find_agents_on_path, find_agents_without_adapter

    names = [agent["name"] for agent in find_agents_on_path() if agent["command"][0] not in used]
    lines = [(name_command(f"semel agents add {name}{option}"), "") for name in names]
    return lines + [
        (name_command(f"semel agents add {agent.name} --install{option}"), "(needs an adapter)")
        for agent in find_agents_without_adapter()
    ]


def _data_dir_option(config: GatewayConfig) -> str:
    """Return the option by which commands in other folders find this gateway; "" if they find it without an option."""
    data = config.gateway.data_dir
    return "" if locate()[0] == data else f" --data-dir {shlex.quote(str(data))}"


def print_qr_code(link: str) -> None:
    """Print a link as a QR code, if the terminal is large enough and can show its characters."""
    import segno  # only now: few starts draw one

    out = stdout_console()
    drawn = io.StringIO()
    segno.make_qr(link, error="l").terminal(drawn, compact=True, border=QR_MARGIN)
    rows = drawn.getvalue().splitlines()
    if out.width < len(rows[0]) + 2 or out.height < len(rows) or not out.encoding.lower().startswith("utf"):
        return
    out.print()
    for row in rows:
        out.print("  ", Text(row, "white on black"), sep="")  # the rows draw the light modules
