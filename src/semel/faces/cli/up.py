"""`semel up`: run the gateway with its page and API until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from semel.faces.cli.app import Config, DataDir, Json, app, ask_gateway
from semel.faces.cli.printing import format_time, print_error, print_json, print_remark
from semel.faces.standard_streams import flush_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from semel.faces.config.load import GatewayConfig as Settings
    from semel.faces.run import RunningGateway
    from semel.ledger.people import PersonAccount


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
    give_way: Annotated[
        bool,
        typer.Option("--give-way", help="End for the next semel up on the same data. Editors start a gateway so."),
    ] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Start the gateway with its page and API.

    Without a configuration, it serves the demo agent and the page on http://127.0.0.1:8420, with the ledger in
    ~/.local/share/semel. Ctrl-C or SIGTERM stops it: running turns get a grace period to finish. A second Ctrl-C stops
    it at once; the next start resumes what was running. A gateway that an editor has started (semel acp) is taken over:
    it ends in the same way, and this one starts in its place.
    """
    gc.disable()  # until it has started (`keep_started_objects`)
    try:
        _run(config, data_dir, listen, log, verbose, give_way)
    finally:
        gc.enable()


def _run(
    config: Path | None, data_dir: Path | None, listen: str | None, log: str | None, verbose: bool, gives_way: bool
) -> None:
    from semel.faces.cli.take_over import take_over
    from semel.faces.cluster import StoppedWaiting
    from semel.faces.config.load import load_config
    from semel.faces.http import CannotListen
    from semel.faces.log import configure_logging
    from semel.faces.process_memory import keep_private, limit_fragmentation
    from semel.faces.run import CannotStart

    keep_private()
    limit_fragmentation()
    settings = replace(load_config(config, data_dir, listen, log), gives_way=gives_way)
    configure_logging(settings.log, verbose)
    with contextlib.ExitStack() as start:
        if not gives_way:
            start.enter_context(take_over(settings.gateway.data_dir))
        if settings.cluster.name:  # it may wait for days; editors are answered meanwhile
            start.close()
        try:
            asyncio.run(_serve(settings, start.close))
        except StoppedWaiting:
            return
        except (CannotListen, CannotStart) as error:
            print_error(str(error))
            raise typer.Exit(1) from None


async def _serve(config: Settings, note_start: Callable[[], None]) -> None:
    """Serve until a signal comes. `note_start`: called when the gateway answers."""
    import structlog

    from semel.faces.cli.start_screen import print_greeting
    from semel.faces.cluster import ClusterCaller
    from semel.faces.process_memory import keep_started_objects
    from semel.faces.run import open_gateway
    from semel.faces.service.notify import ServiceManager
    from semel.gateway.activity import ACTIVITY_LOGGER
    from semel.ledger.people import list_accounts

    manager = ServiceManager.from_environment()
    stop, at_once = asyncio.Event(), asyncio.Event()

    def on_interrupt() -> None:
        (at_once if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    loop.add_signal_handler(signal.SIGTERM, stop.set)  # `semel drain` may come while the gateway is stopping
    caller = ClusterCaller(stop, manager.report_waiting, manager.environment)
    is_watched = sys.stdout.isatty() and config.log != "json"
    log = structlog.get_logger(ACTIVITY_LOGGER if is_watched else "semel.up")
    async with open_gateway(config, caller) as running:
        note_start()
        if is_watched:
            print_greeting(running)
        log.info("ready", url=running.url, pages=running.page_urls, agents=list(config.gateway.agents))
        keep_started_objects()
        _log_warnings(config, await running.gateway.record.read(list_accounts))
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
        log.info("stopping", turns=running.turns)
        await running.stop(at_once)
        log.info("stopped")
    await end_remaining_tasks()


def _log_warnings(config: Settings, accounts: Collection[PersonAccount]) -> None:
    """Log a warning for each setting that is allowed, but certainly a mistake. `accounts`: those in the ledger."""
    import structlog

    from semel.faces.config import ConfigError
    from semel.faces.config.paths import read_config_file
    from semel.faces.health.configuration import list_warnings

    with contextlib.suppress(ConfigError):  # the file is gone or changed since it was loaded
        for warning in list_warnings(config, read_config_file(config.path)[0] if config.path else "", accounts):
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
        flush_streams()
        os._exit(0)


@app.command()
def link(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Print a link, and its QR code, that logs one browser in: once, within ten minutes.

    For a phone or another machine, if the gateway listens beyond loopback or is behind a proxy.
    """
    from semel.faces.cli.start_screen import print_qr_code

    made = ask_gateway(config, data_dir, lambda client: client.post("/v1/login/codes"))
    if json:
        print_json(made)
        return
    for address in made["links"]:
        print(address)
    if sys.stdout.isatty():
        print_qr_code(made["links"][0])
    print_remark(f"It logs one browser in, until {format_time(made['expires'])}.")
