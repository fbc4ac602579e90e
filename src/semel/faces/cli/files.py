"""Commands that need no gateway: `semel init`, `semel fold`, `semel version`."""

from __future__ import annotations

import json as jsonlib
import platform
import sys
from pathlib import Path
from typing import Annotated

import typer

from semel import __version__
from semel.faces.cli.app import Json, app
from semel.faces.cli.out import as_json, complain, remark
from semel.text.visible import escaped


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("semel.toml"),
) -> None:
    """Write a commented semel.toml to start from. What is there already is never overwritten."""
    from semel.faces.config.template import template

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        complain(f"{path} is there already, and was left as it is")
        raise typer.Exit(1) from None
    except OSError as error:
        complain(f"{path} cannot be written: {error.strerror}")
        raise typer.Exit(1) from None
    remark(f"wrote {path}; every setting in it is explained, and `semel up` reads it here")


@app.command()
def version(json: Json = False) -> None:
    """Print the versions of Semel and of what it stands on."""
    import apsw

    facts = {"semel": __version__, "python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    if json:
        as_json(facts)
    else:
        print(f"semel {facts['semel']} (Python {facts['python']}, SQLite {facts['sqlite']})")


@app.command()
def fold(
    trace: Annotated[
        Path, typer.Argument(metavar="TRACE", help="A recorded trace (.jsonl or .jsonl.xz), or ACP lines.")
    ],
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="NAME", help="The agent's profile. Default: what the trace says."),
    ] = None,
) -> None:
    """Fold a recorded ACP trace as if it were live, and print what a person would have seen.

    One JSON object a line, in the order of the view.
    """
    from semel.faces.fold import TraceError, fold_file

    try:
        for item in fold_file(trace, agent):
            sys.stdout.write(escaped(jsonlib.dumps(item, ensure_ascii=False)) + "\n")
    except BrokenPipeError:
        raise  # the reader of the pipe has stopped reading
    except OSError as error:
        complain(f"{trace} cannot be read: {error.strerror}")
        raise typer.Exit(1) from None
    except TraceError as error:
        complain(str(error))
        raise typer.Exit(1) from None
