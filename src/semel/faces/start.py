"""The entry point `semel`. An editor's `semel acp` starts without the command line.

An editor starts it for each window, and waits for it. The command line's libraries take longer to import than all that
is needed to answer the editor, and use 15 MB. So the options of a plain `semel acp` are read here. For any other words,
as for wrong ones, the command line decides; it declares the options (`faces/cli/acp.py`).
"""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from semel.faces.standard_streams import flush_streams, open_closed_streams


class EditorOptions(NamedTuple):
    """The options of `semel acp` through a gateway, named as the parameters of the command."""

    command: list[str]
    agent: str | None = None
    session: str | None = None
    no_start: bool = False
    config: Path | None = None
    data_dir: Path | None = None


def main() -> None:
    """Run `semel` with the words of the command line, and exit."""
    open_closed_streams()
    atexit.register(flush_streams)  # after a traceback, too
    words = sys.argv[1:]
    options = read_editor_options(words[1:]) if words[:1] == ["acp"] and not sys.stdin.isatty() else None
    if options is not None:
        # Until the editor is served, nothing is read, and Ctrl+C ends the process without a traceback.
        previous_handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
        from semel.faces.config.problems import ConfigError

        try:
            sys.exit(serve_from_options(options))
        except ConfigError:
            signal.signal(signal.SIGINT, previous_handler)  # the command line says what is wrong
    from semel.faces.cli import main as run_command_line

    run_command_line()


def read_editor_options(words: Sequence[str]) -> EditorOptions | None:
    """Return what the words after `semel acp` say; None if the command line has to read them."""
    named: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0] != "--":
        word = rest.pop(0)
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--") or name not in EditorOptions._fields or name == "command":
            return None
        if name == "no_start":
            named[name] = ""
        elif rest and rest[0] and not rest[0].startswith("-"):
            named[name] = rest.pop(0)
        else:
            return None
    config, data_dir = (Path(named[name]) if name in named else None for name in ("config", "data_dir"))
    agent, session = named.get("agent"), named.get("session")
    if agent and rest[1:]:
        return None
    return EditorOptions(rest[1:], agent, session, "no_start" in named, config, data_dir)


def serve_from_options(options: EditorOptions) -> int:
    """Serve the editor at stdin and stdout, and return the exit code. Raises ConfigError."""
    import os

    from semel.faces.acp.connection.gateway_link import GatewayLink
    from semel.faces.acp.connection.opening import Opening
    from semel.faces.acp.connection.serve_editor import serve_editor
    from semel.faces.config.paths import find_config_file, locate

    data_dir = locate(options.config, options.data_dir)[0].absolute()
    config = find_config_file(options.config, os.environ)
    for name in ("SEMEL_CONFIG", "SEMEL_DATA"):  # our advice names both: whoever types it may have neither
        os.environ.pop(name, None)
    command = list(options.command)
    if command and "/" in command[0]:
        command[0] = str(Path(command[0]).absolute())  # the agent works in the folders of its sessions
    opening = Opening(options.agent, options.session, command)
    return serve_editor(GatewayLink(data_dir, config, not options.no_start), opening)
