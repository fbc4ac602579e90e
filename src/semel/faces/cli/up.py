"""`semel up`: run the gateway with its page and API until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from semel import __version__
from semel.faces.cli.app import Config, DataDir, app
from semel.faces.cli.out import complain, console, remark
from semel.faces.config import locate

if TYPE_CHECKING:
    from semel.faces.config.load import GatewayConfig as Settings
    from semel.gateway.settings import AgentSettings


class Log(StrEnum):
    auto = "auto"
    human = "human"
    json = "json"


@app.command()
def up(
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Default: listen in the configuration, 127.0.0.1:8420."),
    ] = None,
    log: Annotated[Log | None, typer.Option(help="How the log looks. Default: log in the configuration.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more: agents' stderr, too.")] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Start the gateway with its page and API.

    With no configuration: the demo agent, the page on http://127.0.0.1:8420, and the ledger in
    ~/.local/share/semel. Ctrl-C ends it: running turns get a grace period to finish; a second one ends it at
    once, and what was running is resumed at the next start.
    """
    from semel.faces.config.load import load
    from semel.faces.http import CannotListen
    from semel.faces.log import configure
    from semel.faces.memory import keep_private, limit_fragmentation
    from semel.faces.run import CannotStart

    keep_private()
    limit_fragmentation()
    settings = load(config, data_dir, listen, log.value if log else None)
    configure(settings.log, verbose)
    try:
        asyncio.run(_up(settings))
    except (CannotListen, CannotStart) as error:
        complain(str(error))
        raise typer.Exit(1) from None


async def _up(config: Settings) -> None:
    import structlog

    from semel.faces.run import open_gateway

    stop, at_once = asyncio.Event(), asyncio.Event()

    def ended() -> None:
        (at_once if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended)
    async with open_gateway(config) as house:
        if sys.stdout.isatty() and config.log != "json":
            greet(config, house.url)
        else:
            structlog.get_logger("semel.up").info("ready", url=house.url, agents=list(config.gateway.agents))
        await stop.wait()
        if house.turns:
            word = "turn has" if house.turns == 1 else "turns have"
            remark(f"\nstopping: {house.turns} running {word} {grace(config)}; Ctrl-C again ends it at once")
        await house.stop(at_once)
    await end_remaining_tasks()


async def end_remaining_tasks(patience: float = 1.0) -> None:
    """Cancel the remaining tasks, and exit the process if any is still running after `patience` seconds.

    A task that swallows its cancellation, for instance in a third-party channel, would keep the process alive.
    Exiting is safe here, because everything has been closed.
    """
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=patience)
    if left:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def grace(config: Settings) -> str:
    return f"{config.gateway.grace_s:g} s to finish"


def greet(config: Settings, url: str) -> None:
    """Print the addresses, agents and paths that a person needs first."""
    out = console()
    facts = [
        ("page", url),
        ("terminal", f"{command()} chat{_where(config)}"),
        ("agents", ", ".join(_agent(agent) for agent in config.gateway.agents.values())),
        ("data", short(config.gateway.data_dir)),
        ("settings", short(config.path) if config.path else f"none; {command()} init writes a semel.toml"),
    ]
    out.print(Text(f"\nSemel {__version__}\n", "bold"))
    for name, what in facts:
        out.print(Text(f"  {name:<10}", "dim"), Text(what), sep="")
    _name_found(config)
    out.print(Text("\n  Ctrl-C ends it.\n", "dim"))


def _name_found(config: Settings) -> None:
    """Print the configuration lines for unused agents found on PATH. None is started without being configured."""
    from semel.agents.found import find_agents_on_path

    used = {agent.command[0] for agent in config.gateway.agents.values()}
    found = [one for one in find_agents_on_path() if one["command"][0] not in used]
    if not found:
        return
    out = console()
    where = short(config.path) if config.path else "semel.toml"
    out.print(Text(f"\n  Found on this machine. To use one, add its lines to {where}:", "dim"))
    for one in found:
        out.print()
        for line in one["line"].splitlines():
            out.print(Text(f"    {line}"))


def _agent(agent: AgentSettings) -> str:
    return f"{agent.name} (the bundled demo agent)" if agent.kind == "demo" else agent.name


def _where(config: Settings) -> str:
    """The option by which other commands find this gateway; "" if they find it without."""
    data = config.gateway.data_dir
    return "" if locate()[0] == data else f" --data-dir {shlex.quote(short(data))}"


def command() -> str:
    """The command that starts this program from the same shell."""
    if shutil.which("semel"):
        return "semel"
    script = Path(sys.executable).with_name("semel")
    return short(script) if script.exists() else f"{short(Path(sys.executable))} -m semel"


def short(path: Path) -> str:
    """A path relative to the current directory or to `~`, if it is below one of them."""
    for base, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return prefix + str(path.relative_to(base))
    return str(path)
