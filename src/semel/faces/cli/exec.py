"""`semel exec`: run a command and report its start and end to a session."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semel.faces.cli.app import Config, DataDir, app
from semel.faces.cli.printing import print_error, print_remark
from semel.faces.config import locate
from semel.timing.durations import parse_duration

if TYPE_CHECKING:
    from semel.tools.exec.reporter import Target

EXIT_NOT_RUN = (
    125  # exit code if the spool cannot be written, so the command was not run; `env` and `timeout` use the same
)
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@app.command("exec", context_settings={"allow_interspersed_args": False})
def exec_(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD...]", help="The command and its arguments.")
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
            "--flush", help="Run nothing; send the reports that earlier runs left. Exit code 1 if some remain."
        ),
    ] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Run a command and report to a session when it started and how it ended, with the end of its output.

    The exit code is the command's: 128 + n after signal n, 126 or 127 if it cannot be started, 125 if the spool cannot
    be written and nothing was run. The report is on disk before it is sent, and is sent until the gateway has it, even
    if the gateway is unreachable or this program is killed.
    """
    from semel.tools.exec.reporter import Target

    if flush == bool(command):
        raise typer.BadParameter("give a command after --, or --flush alone")
    data = locate(config, data_dir)[0]
    target = Target(data, _check_url(url), _check_token_file(token_file))
    timeout = _parse_wait(wait)
    if flush:
        raise typer.Exit(_flush_reports(data, name, target, timeout))
    assert command is not None
    raise typer.Exit(
        _run_command(data, _check_node_name(name), target, _check_session(session), command, attach, timeout)
    )


def _run_command(
    data: Path, node: str, target: Target, session: str, command: list[str], attach: bool, timeout: float
) -> int:
    from semel.tools.exec.runner import EXEC_FOLDER, ExecRunner, flush_stdout
    from semel.tools.exec.spool import Spool

    flush_stdout()
    spool = Spool(data, EXEC_FOLDER, node)
    try:
        return ExecRunner(spool, target, print_error).run(session, node, command, attach, timeout)
    except OSError as error:
        print_error(
            f"the spool {spool.folder} cannot be written: {error.strerror or error}. The command was not started"
        )
        return EXIT_NOT_RUN


def _flush_reports(data: Path, name: str | None, target: Target, timeout: float) -> int:
    from semel.tools.exec.runner import EXEC_FOLDER
    from semel.tools.exec.runner import flush_reports as flush
    from semel.tools.exec.spool import Spool, list_spools

    spools = [Spool(data, EXEC_FOLDER, _check_node_name(name))] if name else None
    override = target.url is not None or target.token_file is not None
    try:
        acknowledged, remaining = flush(
            spools or list_spools(data, EXEC_FOLDER), target, override, timeout, print_error
        )
    except OSError as error:
        print_error(f"the spool {data / EXEC_FOLDER} cannot be read: {error.strerror or error}")
        return 1
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
