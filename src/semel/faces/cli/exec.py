"""`semel exec`: run a command and report its start and end to a session."""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.printing import format_time, print_error, print_json, print_remark, print_table
from semel.faces.config import locate_running
from semel.text.wellformed import shorten_to_line
from semel.timing.durations import parse_duration

if TYPE_CHECKING:
    from semel.tools.exec.reporter import Target
    from semel.tools.exec.spool import Spool

EXIT_NOT_RUN = (
    125  # exit code if the spool cannot be written, so the command was not run; `env` and `timeout` use the same
)
MAX_COMMAND_CHARS = 60  # of a command in the listing
LEFT_HELP = (
    "Those in the state waiting or lost are sent by the next `semel exec`, or now:\n"
    "  semel exec --flush                        all, each to its own address\n"
    "  semel exec --flush --run RUN --url URL    one, to another address\n"
    "  semel exec --drop --run RUN               not at all"
)
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@app.command("exec", context_settings={"allow_interspersed_args": False})
def exec_(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- CMD...]", help="The command and its arguments."),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="KEY", help="The session that gets the reports.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="ID", help="This node's name, in the reports and in the spool. Default: the host's name."
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="The gateway's address. Default: from the data directory."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="The file with this node's token. Default: none, as the owner on this machine.",
        ),
    ] = None,
    attach: Annotated[bool, typer.Option("--attach", help="Report the whole output instead of its end.")] = False,
    wait: Annotated[
        str,
        typer.Option(
            "--wait",
            metavar="DURATION",
            help="How long to wait for the gateway to take the report, after the command's end.",
        ),
    ] = "10m",
    flush: Annotated[
        bool,
        typer.Option(
            "--flush",
            help="Run nothing; send the reports that earlier runs left, with --url to that address. Exit code 1 if "
            "some remain.",
        ),
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="Run nothing; list the runs whose reports no gateway has taken yet.")
    ] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="Run nothing; remove the reports of the runs in --run. They are never sent.")
    ] = False,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="RUN", help="With --flush or --drop: a run, as --list names it. Repeatable."),
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Run a command and report to a session when it started and how it ended, with the end of its output.

    The exit code is the command's: 128 + n after signal n, 126 or 127 if it cannot be started, 125 if the spool cannot
    be written and nothing was run. The report is on disk before it is sent, and is sent until the gateway has it, even
    if the gateway is unreachable or this program is killed.
    """
    from semel.tools.exec.reporter import Target

    if bool(command) + flush + list_ + drop != 1:
        raise typer.BadParameter("give a command after --, or one of --flush, --list and --drop")
    if (drop and not run) or (run and not (drop or flush)):
        raise typer.BadParameter("--drop needs --run RUN, as --list names it, and --run needs --drop or --flush")
    data = locate_running(config, data_dir)
    if list_:
        raise typer.Exit(_list_runs(data, name, json))
    if drop:
        raise typer.Exit(_drop_runs(data, name, run or []))
    target = Target(data, _check_url(url), _check_token_file(token_file))
    timeout = _parse_wait(wait)
    if flush:
        raise typer.Exit(_flush_reports(data, name, run or [], target, timeout))
    assert command is not None
    raise typer.Exit(
        _run_command(data, _check_node_name(name), target, _check_session(session), command, attach, timeout)
    )


def _run_command(
    data: Path, node: str, target: Target, session: str, command: list[str], attach: bool, timeout: float
) -> int:
    from semel.tools.exec.runner import ExecRunner, flush_stdout
    from semel.tools.exec.spool import EXEC_FOLDER, Spool

    flush_stdout()
    spool = Spool(data, EXEC_FOLDER, node)
    try:
        return ExecRunner(spool, target, print_error).run(session, node, command, attach, timeout)
    except OSError as error:
        print_error(
            f"the spool {spool.folder} cannot be written: {error.strerror or error}. The command was not started"
        )
        return EXIT_NOT_RUN


def _find_spools(data: Path, name: str | None) -> list[Spool]:
    """Return the spool of the named node, or those of all nodes. Exits with 1 if they cannot be read."""
    from semel.tools.exec.spool import EXEC_FOLDER, Spool, list_spools

    if name:
        return [Spool(data, EXEC_FOLDER, _check_node_name(name))]
    with _explain_unreadable_spool(data):
        return list_spools(data, EXEC_FOLDER)


@contextlib.contextmanager
def _explain_unreadable_spool(data: Path) -> Iterator[None]:
    from semel.tools.exec.spool import EXEC_FOLDER

    try:
        yield
    except OSError as error:
        print_error(f"the spool {data / EXEC_FOLDER} cannot be read: {error.strerror or error}")
        raise typer.Exit(1) from None


def _list_runs(data: Path, name: str | None, json: bool) -> int:
    from semel.tools.exec.inventory import list_runs

    spools = _find_spools(data, name)
    with _explain_unreadable_spool(data):
        runs = list_runs(spools)
    print_error(*(problem for spool in spools for problem in spool.damaged))
    if json:
        print_json([asdict(run) for run in runs])
        return 0
    print_table(
        ("RUN", "STATE", "BEGAN", "ENDED", "SESSION", "TO", "COMMAND"),
        (
            (
                run.run,
                run.state,
                format_time(run.at),
                format_time(run.ended),
                run.session,
                run.to,
                shorten_to_line(shlex.join(run.command), MAX_COMMAND_CHARS),
            )
            for run in runs
        ),
        "no report waits: gateways have taken all",
        wrapped_columns=("RUN", "TO"),
    )
    if any(run.is_left for run in runs):
        print_remark(LEFT_HELP)
    return 0


def _drop_runs(data: Path, name: str | None, ids: list[str]) -> int:
    from semel.tools.exec.inventory import drop_runs, list_runs

    spools = _find_spools(data, name)
    with _explain_unreadable_spool(data):
        remaining = drop_runs(spools, ids)
        held = {run.run for run in list_runs(spools)}
    for id in ids:
        if id in held:
            print_error(f"run {id} was not dropped: its `semel exec` still lives. End that first, with Ctrl-C or kill")
        elif id in remaining:
            print_error(_describe_unknown(data, id))
        else:
            print_remark(f"run {id} is dropped: its reports are never sent")
    return 1 if remaining else 0


def _describe_unknown(data: Path, id: str) -> str:
    from semel.tools.exec.spool import EXEC_FOLDER

    return f"there is no run {id} in {data / EXEC_FOLDER}; see: semel exec --list"


def _flush_reports(data: Path, name: str | None, ids: list[str], target: Target, timeout: float) -> int:
    from semel.tools.exec.inventory import list_runs
    from semel.tools.exec.runner import flush_reports as flush

    spools = _find_spools(data, name)
    override = target.url is not None or target.token_file is not None
    with _explain_unreadable_spool(data):
        known = {run.run for run in list_runs(spools)} if ids else set()
        if unknown := [id for id in ids if id not in known]:
            print_error(*(_describe_unknown(data, id) for id in unknown))
            return 1
        acknowledged, remaining = flush(spools, ids, target, override, timeout, print_error)
    for line in acknowledged:
        print(line)
    if not acknowledged and not remaining:
        print_remark("nothing is left to report")
    return 1 if remaining else 0


def _check_node_name(name: str | None) -> str:
    if name is None:
        return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")[:64] or "node"
    if not NODE_NAME.fullmatch(name):
        raise typer.BadParameter(f"--name is {name!r}: use 1 to 64 letters, digits and . _ -, a letter or digit first")
    return name


def _check_session(key: str | None) -> str:
    from semel.law.identity import BadKey, check_session_key

    if key is None:
        raise typer.BadParameter("name the session that gets the reports: --session KEY")
    try:
        return check_session_key(key)
    except BadKey as error:
        raise typer.BadParameter(f"--session: {error}") from None


def _check_url(url: str | None) -> str | None:
    if url is not None and not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", url):
        raise typer.BadParameter(f"--url is {url!r}, and should be like http://127.0.0.1:8420")
    return url


def _check_token_file(path: Path | None) -> Path | None:
    from semel.tools.exec.reporter import read_token

    if path is None:
        return None
    path = path.expanduser().absolute()
    try:
        read_token(path)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"--token-file: {error}") from None
    return path


def _parse_wait(wait: str) -> float:
    if (duration := parse_duration(wait)) is None:
        raise typer.BadParameter(f'--wait: {wait!r} is not a duration: write seconds, or like "90s", "10m", "2h"')
    return duration
