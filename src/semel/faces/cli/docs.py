"""`semel docs`: the documentation of the version that is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import semel
from semel.faces.cli.app import app
from semel.faces.cli.printing import print_error, stdout_console
from semel.faces.config.problems import suggest_nearest

DOCS = Path(semel.__file__).parent / "docs"  # in a clone a link to docs/
INDEX = "README"


@app.command("docs")
def show_docs(
    page: Annotated[
        str,
        typer.Argument(metavar="[PAGE]", help="A page, such as people or agents/claude. Default: the list of pages."),
    ] = "",
) -> None:
    """Print a page of this version's documentation; in a pipe, as Markdown."""
    pages = {path.relative_to(DOCS).with_suffix("").as_posix(): path for path in DOCS.rglob("*.md")}
    path = pages.get(page.removeprefix("docs/").removesuffix(".md") or INDEX)
    if path is None:
        print_error(f"there is no page {page!r}{suggest_nearest(page, list(pages))}", "`semel docs` lists the pages")
        raise typer.Exit(2)
    text = path.read_text(encoding="utf-8")
    if sys.stdout.isatty():
        from rich.markdown import Markdown

        stdout_console().print(Markdown(text, hyperlinks=False))
    else:
        print(text, end="")
