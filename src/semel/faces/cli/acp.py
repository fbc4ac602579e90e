"""`semel acp`: be the agent that an editor starts."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from semel.faces.acp.setup_lines import EditorName, write_setup
from semel.faces.cli.app import Config, DataDir, app
from semel.faces.cli.printing import print_error, print_remark
from semel.gateway.start_errors import correct_start_error

EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 126, 127  # as a shell's
EXIT_USAGE = 2


@app.command("acp", context_settings={"allow_interspersed_args": False})
def acp(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- CMD...]", help="The command of an agent. One that is not configured is kept as a new agent."
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The agent of new sessions. Default: the gateway's default agent."),
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="Open the session with this key; make it if its agent is known.")
    ] = None,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Never start a gateway. If none runs, opening a session fails.")
    ] = False,
    show_setup: Annotated[
        EditorName | None,
        typer.Option(
            "--print",
            metavar="EDITOR",
            help="Print the lines for an editor's settings, with the other options, and end: zed, emacs, codecompanion "
            "or neovim.",
        ),
    ] = None,
    alone: Annotated[
        bool,
        typer.Option("--alone", help="Without a gateway: show each of the agent's messages once; record nothing."),
    ] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Be an agent for an editor that speaks ACP over stdin and stdout.

    The editor's sessions are the gateway's. They are recorded, go on when the editor ends, and are seen on the page and
    in chats, too; what is said there is shown in the editor. If no gateway runs, one is started. `semel acp --` may
    stand before the command of any agent that speaks ACP: the gateway keeps one that is not configured, so that its
    sessions go on without the editor (`semel agents list` shows it). Options come before `--`; --agent and a command
    exclude each other.

    With --alone, an agent is run for the editor without a gateway, and nothing is recorded. The editor sees its
    messages, thoughts and tool calls once; everything else passes as it came. The exit code is the agent's: 128 + n
    after signal n, 126 or 127 if it cannot be started.

    If stdin and stdout are a terminal, Semel only executes the agent's command and takes no part: some editors open a
    terminal so that you can log in to the agent.
    """
    for option, value in (("--agent", agent), ("--session", session)):
        if value == "":
            raise typer.BadParameter(f"{option}: this name is empty; give one, or omit the option")
    if show_setup == "emacs" and (agent or command):
        raise typer.BadParameter("in Emacs, agent-shell adds the command of the agent that you choose: name none here")
    if agent and command and not alone:
        raise typer.BadParameter("--agent NAME and -- CMD... both say which agent new sessions have: give one of them")
    if alone and (agent or session or no_start or config or data_dir):
        raise typer.BadParameter("--alone runs without a gateway, so it takes only the agent's command")
    if alone and not command and show_setup != "emacs":
        raise typer.BadParameter("name the agent's command: semel acp --alone -- CMD...")
    if show_setup is not None:
        if agent:
            _check_agent(agent, config, data_dir)
        options = _repeat_options(agent, session, no_start, alone, config, data_dir)
        program = shutil.which("semel") or str(Path(sys.argv[0]).absolute())
        print(write_setup(show_setup, program, [*options, *(["--", *command] if command else [])]))
        return
    if command and alone:
        raise typer.Exit(_run_agent_command(command))
    if not os.isatty(0):
        from semel.faces.start import EditorOptions, serve_from_options

        raise typer.Exit(serve_from_options(EditorOptions(command or [], agent, session, no_start, config, data_dir)))
    if not command or not os.isatty(1):
        raise typer.BadParameter("an editor starts this command. What to tell it: semel acp --print zed")
    raise typer.Exit(_run_agent_command(command))


def _check_agent(agent: str, config: Path | None, data_dir: Path | None) -> None:
    """Refuse an agent that is not configured, by exit code 2. Without a configuration, only warn."""
    from semel.faces.config.load import examine_config_file
    from semel.faces.config.paths import find_config_file, locate_running
    from semel.tools.address import NoGateway, find_last_config, find_running_config

    data = locate_running(config, data_dir)
    try:
        file = find_running_config(data)
    except NoGateway:
        file = find_config_file(config, os.environ) or find_last_config(data)
    if file is None:
        print_remark(f"there is no configuration file yet: new sessions fail until [agents.{agent}] is in one")
        return
    configured = examine_config_file(file, data)[0].gateway.agents  # an agent with mistakes is one of them
    if agent not in configured:
        print_error(f"no agent {agent!r} is configured in {file}; it has: {', '.join(configured)}")
        raise typer.Exit(EXIT_USAGE)


def _repeat_options(
    agent: str | None, session: str | None, no_start: bool, alone: bool, config: Path | None, data_dir: Path | None
) -> list[str]:
    """Return the options that were given as words for an editor, which may start Semel in another folder."""
    values = {"--agent": agent, "--session": session, "--config": config, "--data-dir": data_dir}
    words: list[str] = []
    for name, value in values.items():
        if value is not None:
            words += [name, str(value.absolute()) if isinstance(value, Path) else value]
    return [*words, *(["--no-start"] if no_start else []), *(["--alone"] if alone else [])]


def _run_agent_command(command: list[str]) -> int:
    from semel.faces.acp.alone.relay import Relay
    from semel.faces.acp.alone.stream import EditorStream

    sys.stdout.flush()
    try:
        if os.isatty(0) and os.isatty(1):
            os.execvp(command[0], command)
        return Relay(command, EditorStream(f"semel-{secrets.token_hex(4)}")).run()
    except OSError as error:
        reason = correct_start_error(command[0], error)
        print_error(f"{command[0]} cannot be started: {reason.strerror or reason}")
        return EXIT_NOT_FOUND if isinstance(reason, FileNotFoundError) else EXIT_NOT_EXECUTABLE
