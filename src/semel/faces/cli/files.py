"""Commands that need no gateway: `semel fold`, `semel version`."""

from __future__ import annotations

import json as jsonlib
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from semel import __version__
from semel.faces.cli.app import Json, app
from semel.faces.cli.printing import print_error, print_json, print_remark
from semel.text.visible import escape_json


@app.command()
def version(json: Json = False) -> None:
    """Print the versions of Semel, Python and SQLite."""
    import apsw

    facts = {"semel": __version__, "python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    if json:
        print_json(facts)
    else:
        print(f"semel {facts['semel']} (Python {facts['python']}, SQLite {facts['sqlite']})")


@app.command()
def fold(
    trace: Annotated[
        Path, typer.Argument(metavar="TRACE", help="A recorded trace (.jsonl or .jsonl.xz), or ACP lines.")
    ],
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="NAME", help="The agent's profile. Default: the one that the trace names."),
    ] = None,
) -> None:
    """Fold a recorded ACP trace as if it were live, and print what a person would have seen.

    One JSON object per line, in the order of the view. Lines that are not JSON are left out and counted on stderr.
    """
    for item in _fold(trace, agent):
        sys.stdout.write(escape_json(jsonlib.dumps(item, ensure_ascii=False)) + "\n")


def _fold(trace: Path, agent: str | None) -> Iterator[dict[str, Any]]:
    """Yield the items of a trace's view. Exits with 1 if it cannot be read."""
    from semel.faces.fold import TraceError, fold_file

    try:
        yield from fold_file(trace, agent, print_remark)
    except OSError as error:
        print_error(f"{trace} cannot be read: {error.strerror}")
        raise typer.Exit(1) from None
    except TraceError as error:
        print_error(str(error))
        raise typer.Exit(1) from None
