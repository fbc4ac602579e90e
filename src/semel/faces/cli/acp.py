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
from semel.faces.cli.printing import print_error

EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 126, 127  # as a shell's


@app.command("acp", context_settings={"allow_interspersed_args": False})
def acp(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[--] CMD...", help="The command of an agent. One that is not configured is kept as a new agent."
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The agent of new sessions. Default: the gateway's default agent."),
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="KEY", help="Open this session instead of a new one.")] = None,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="If no gateway runs, say so instead of starting one.")
    ] = False,
    show_setup: Annotated[
        EditorName | None, typer.Option("--print", help="Print the lines for this editor's settings, and end.")
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
    sessions go on without the editor (`semel agents list` shows it). --agent comes first.

    With --alone, an agent is run for the editor without a gateway, and nothing is recorded. The editor sees its
    messages, thoughts and tool calls once; everything else passes as it came. The exit code is the agent's: 128 + n
    after signal n, 126 or 127 if it cannot be started.

    On a terminal, the agent's command is run directly, because editors log agents in that way.
    """
    if show_setup is not None:
        print(write_setup(show_setup, shutil.which("semel") or str(Path(sys.argv[0]).absolute()), agent))
        return
    if agent and command and not alone:
        raise typer.BadParameter("--agent NAME and -- CMD... both say which agent new sessions have: give one of them")
    if not alone and not os.isatty(0):
        from semel.faces.start import EditorOptions, serve

        raise typer.Exit(serve(EditorOptions(command or [], agent, session, no_start, config, data_dir)))
    if not alone and not (command and os.isatty(1)):
        raise typer.BadParameter("an editor starts this command. What to tell it: semel acp --print zed")
    if alone and (agent or session or no_start or config or data_dir):
        raise typer.BadParameter("--alone runs without a gateway, so it takes only the agent's command")
    if not command:
        raise typer.BadParameter("name the agent's command: semel acp --alone -- CMD...")
    raise typer.Exit(_run(command))


def _run(command: list[str]) -> int:
    from semel.faces.acp.relay import Relay
    from semel.faces.acp.stream import EditorStream

    sys.stdout.flush()
    try:
        if os.isatty(0) and os.isatty(1):
            os.execvp(command[0], command)
        return Relay(command, EditorStream(f"semel-{secrets.token_hex(4)}")).run()
    except OSError as error:
        print_error(f"{command[0]} cannot be started: {error.strerror or error}")
        return EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE
