"""`semel channel new`: write a package with a channel for another platform."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semel.faces.cli.app import app
from semel.faces.cli.printing import print_error, print_remark

channel = typer.Typer(help="Write a channel for a platform that Semel does not know.", no_args_is_help=True)
app.add_typer(channel, name="channel")


@channel.callback()
def group() -> None:
    """Write a channel for a platform that Semel does not know."""


@channel.command()
def new(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="The new kind, as in `kind = KIND`: lower-case letters, digits and hyphens."
        ),
    ],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Where to write it. Default: ./semel-KIND.")
    ] = None,
) -> None:
    """Write a Python package with a channel of a new kind, which works and passes the conformance suite.

    It talks to a message board over HTTP; put your platform in its place. `semel docs write-a-channel` says how.
    """
    from semel.channels.new_package import CannotWrite, write_package

    target = folder or Path(f"semel-{kind}")
    try:
        written = write_package(kind, target)
    except CannotWrite as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    for path in written:
        print(path)
    print_remark(f"next: cd {target}, pip install -e '.[test]' where Semel is installed, pytest")
