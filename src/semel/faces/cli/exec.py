"""`semel exec`: run a command and report its start and end to a session."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semel.faces.cli.app import Config, DataDir, app
from semel.faces.cli.out import complain, remark
from semel.faces.config import locate
from semel.timing.durations import parse_duration

if TYPE_CHECKING:
    from semel.tools.exec.reporter import Target

EXIT_NOT_RUN = (
    125  # exit code if the spool cannot be written, so the command was not run; `env` and `timeout` use the same
)
NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@app.command("exec", context_settings={"allow_interspersed_args": False})
def exec_(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD...]", help="The command and its arguments.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="KEY", help="The session that is told.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="ID", help="This node's name. Default: the host's name.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="The gateway. Default: the one of the data directory."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Holds this node's token. Default: the owner's token."),
    ] = None,
    attach: Annotated[bool, typer.Option("--attach", help="Report the whole output, not only its end.")] = False,
    wait: Annotated[
        str,
        typer.Option("--wait", metavar="DURATION", help="How long to wait for the report to be taken, after the end."),
    ] = "10m",
    flush: Annotated[bool, typer.Option("--flush", help="Run nothing: report what earlier runs have left.")] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Run a command; report its start, and how it ended with the end of its output.

    The exit code is the command's (128 + n after signal n). The report is on disk before it is sent, and is sent
    until the gateway has it: the gateway may be away, and this program may be killed.
    """
    from semel.tools.exec.reporter import Target

    if flush == bool(command):
        raise typer.BadParameter("name a command after --, or use --flush alone")
    data = locate(config, data_dir)[0]
    to = Target(data, _url(url), _token(token_file))
    patience = _seconds(wait)
    if flush:
        raise typer.Exit(_flush(data, name, to, patience))
    assert command is not None
    raise typer.Exit(_run(data, _node(name), to, _session(session), command, attach, patience))


def _run(data: Path, node: str, to: Target, session: str, command: list[str], attach: bool, patience: float) -> int:
    from semel.tools.exec.spool import Spool
    from semel.tools.exec.watch import EXEC_FOLDER, ExecRunner, flush_stdout

    flush_stdout()
    spool = Spool(data, EXEC_FOLDER, node)
    try:
        return ExecRunner(spool, to, complain).run(session, node, command, attach, patience)
    except OSError as error:
        complain(f"the spool {spool.place} cannot be written: {error.strerror or error}. The command was not started")
        return EXIT_NOT_RUN


def _flush(data: Path, name: str | None, to: Target, patience: float) -> int:
    from semel.tools.exec.spool import Spool, list_spools
    from semel.tools.exec.watch import EXEC_FOLDER, flush

    named = [Spool(data, EXEC_FOLDER, _node(name))] if name else None
    override = to.url is not None or to.token_file is not None
    try:
        taken, left = flush(named or list_spools(data, EXEC_FOLDER), to, override, patience, complain)
    except OSError as error:
        complain(f"the spool {data / EXEC_FOLDER} cannot be read: {error.strerror or error}")
        return 1
    for line in taken:
        print(line)
    if not taken and not left:
        remark("nothing is left to report")
    return 1 if left else 0


def _node(name: str | None) -> str:
    if name is None:
        return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")[:64] or "node"
    if not NODE.fullmatch(name):
        raise typer.BadParameter(f"--name is {name!r}: use 1 to 64 letters, digits and . _ -, a letter or digit first")
    return name


def _session(key: str | None) -> str:
    from semel.law.identity import BadKey, check_session_key

    if key is None:
        raise typer.BadParameter("name the session that is told: --session KEY")
    try:
        return check_session_key(key)
    except BadKey as error:
        raise typer.BadParameter(f"--session: {error}") from None


def _url(url: str | None) -> str | None:
    if url is not None and not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", url):
        raise typer.BadParameter(f"--url is {url!r}, and should be like http://127.0.0.1:8420")
    return url


def _token(path: Path | None) -> Path | None:
    from semel.tools.exec.reporter import read_token

    if path is None:
        return None
    path = path.expanduser().absolute()
    try:
        read_token(path)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"--token-file: {error}") from None
    return path


def _seconds(told: str) -> float:
    if (duration := parse_duration(told)) is None:
        raise typer.BadParameter(f'--wait: {told!r} is not a duration: write seconds, or like "90s", "10m", "2h"')
    return duration
