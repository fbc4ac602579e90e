"""`semel up`: run the gateway with its page and API until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from semel import __version__
from semel.faces.cli.app import Config, DataDir, app
from semel.faces.cli.printing import print_error, print_remark, stdout_console
from semel.faces.config import locate
from semel.installation import find_command, shorten_path

if TYPE_CHECKING:
    from semel.faces.config.load import GatewayConfig as Settings
    from semel.faces.run import RunningGateway


@app.command()
def up(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="The address; port 0 takes a free one. Default: listen in the configuration."
        ),
    ] = None,
    log: Annotated[
        Literal["auto", "human", "json"] | None,
        typer.Option(help="The form of the log on stderr: auto, human or json. Default: log in the configuration."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log more, including what agents write to stderr.")
    ] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Start the gateway with its page and API.

    Without a configuration, it serves the demo agent and the page on http://127.0.0.1:8420, with the ledger in
    ~/.local/share/semel. Ctrl-C or SIGTERM stops it: running turns get a grace period to finish. A second Ctrl-C stops
    it at once; the next start resumes what was running.
    """
    from semel.faces.config.load import load_config
    from semel.faces.http import CannotListen
    from semel.faces.log import configure_logging
    from semel.faces.process_memory import keep_private, limit_fragmentation
    from semel.faces.run import CannotStart

    keep_private()
    limit_fragmentation()
    settings = load_config(config, data_dir, listen, log)
    configure_logging(settings.log, verbose)
    try:
        asyncio.run(_serve(settings))
    except (CannotListen, CannotStart) as error:
        print_error(str(error))
        raise typer.Exit(1) from None


async def _serve(config: Settings) -> None:
    import structlog

    from semel.faces.run import open_gateway
    from semel.faces.service.notify import ServiceManager

    manager = ServiceManager.from_environment()
    stop, at_once = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (at_once if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, on_signal)
    async with open_gateway(config) as running:
        if sys.stdout.isatty() and config.log != "json":
            print_greeting(config, running.url)
        else:
            structlog.get_logger("semel.up").info("ready", url=running.url, agents=list(config.gateway.agents))
        _log_warnings(config)
        check = asyncio.create_task(_check_agents(running)) if config.check_agents else None
        async with manager.supervise(running.gateway.store, running.describe, config.gateway.grace_s):
            await stop.wait()
            if check is not None:
                check.cancel()
                await asyncio.wait({check})
        if running.turns:
            word = "turn has" if running.turns == 1 else "turns have"
            grace = f"{config.gateway.grace_s:g} s"
            print_remark(f"\nstopping: {running.turns} running {word} {grace} to finish; Ctrl-C again ends it at once")
        await running.stop(at_once)
    await end_remaining_tasks()


def _log_warnings(config: Settings) -> None:
    """Log what the configuration allows, but cannot mean."""
    import structlog

    from semel.faces.config import ConfigError
    from semel.faces.config.paths import read_config_file
    from semel.faces.health.configuration import list_warnings

    with contextlib.suppress(ConfigError):  # the file is gone or changed since it was loaded
        for warning in list_warnings(config, read_config_file(config.path)[0] if config.path else ""):
            structlog.get_logger("semel.up").warning("check the configuration", what=warning)


async def _check_agents(running: RunningGateway) -> None:
    import structlog

    from semel.faces.health.agents import check_agents_in_background

    try:
        await check_agents_in_background(running)
    except Exception:
        structlog.get_logger("semel.up").exception("the agents could not be checked; semel doctor checks them, too")


async def end_remaining_tasks() -> None:
    """Cancel the remaining tasks, and exit the process if any is still running after a second.

    A task that swallows its cancellation, for instance in a third-party channel, would keep the process alive.
    Exiting is safe here, because everything has been closed.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=1.0)
    if tasks:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def print_greeting(config: Settings, url: str) -> None:
    """Print the addresses, agents and paths that a person needs first."""
    out = stdout_console()
    settings = config.gateway.agents.values()
    agents = [f"{agent.name} (the bundled demo agent)" if agent.kind == "demo" else agent.name for agent in settings]
    lines = [
        ("page", url),
        ("terminal", f"{find_command()} chat{_data_dir_option(config)}"),
        ("agents", ", ".join(agents)),
        ("data", shorten_path(config.gateway.data_dir)),
        ("settings", shorten_path(config.path) if config.path else f"none; {find_command()} init writes a semel.toml"),
    ]
    out.print(Text(f"\nSemel {__version__}\n", "bold"))
    for name, text in lines:
        out.print(Text(f"  {name:<10}", "dim"), Text(text), sep="")
    _print_installed_agents(config)
    out.print(Text("\n  Ctrl-C ends it.\n", "dim"))


def _print_installed_agents(config: Settings) -> None:
    """Print how to add the unused agents on PATH. None is started without being configured."""
    from semel.agents.known import find_agents_on_path, find_agents_without_adapter

    used = {agent.command[0] for agent in config.gateway.agents.values()}
    agents = [program["name"] for program in find_agents_on_path() if program["command"][0] not in used]
    without_adapter = find_agents_without_adapter()
    if not agents and not without_adapter:
        return
    out = stdout_console()
    out.print(Text("\n  Found on this machine. To use one:\n", "dim"))
    for name in agents:
        out.print(Text(f"    {find_command()} agents add {name}"))
    for agent in without_adapter:
        out.print(Text(f"    {find_command()} agents add {agent.name} --install"), Text("(needs an adapter)", "dim"))


def _data_dir_option(config: Settings) -> str:
    """Return the option by which other commands find this gateway; "" if they find it without an option."""
    data = config.gateway.data_dir
    return "" if locate()[0] == data else f" --data-dir {shlex.quote(shorten_path(data))}"
