"""`semel acp`: be the agent that an editor starts."""

from __future__ import annotations

import os
import secrets
import sys
from typing import Annotated

import typer

from semel.faces.cli.app import app
from semel.faces.cli.printing import print_error

EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 126, 127  # as a shell's


@app.command("acp", context_settings={"allow_interspersed_args": False})
def acp(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[--] CMD...", help="The agent's command and its arguments.")
    ] = None,
    alone: Annotated[
        bool,
        typer.Option("--alone", help="Without a gateway: show each of the agent's messages once; record nothing."),
    ] = False,
) -> None:
    """Run an agent for an editor that speaks ACP over stdin and stdout.

    The editor sees the agent's messages, thoughts and tool calls once, and a tool's output while it runs; everything
    else passes as it came. No gateway is needed, and nothing is recorded. On a terminal, the agent's
    command is run directly, because editors log agents in that way. The exit code is the agent's: 128 + n after signal
    n, 126 or 127 if it cannot be started.
    """
    if not alone:
        raise typer.BadParameter("so far, an editor's agent can only run without a gateway: add --alone")
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
