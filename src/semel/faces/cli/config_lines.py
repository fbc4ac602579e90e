"""Add lines to the end of semel.toml, which keeps what is there, comments included."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import typer

from semel.faces.cli.printing import print_error


def read_config(config: Path | None) -> tuple[Path, str, dict[str, Any]]:
    """Return the configuration file, its text and its tables, unchecked. Raises ConfigError.

    If there is no file yet: ./semel.toml, "" and no tables.
    """
    from semel.faces.config.paths import find_config_file, read_config_file

    path = find_config_file(config, os.environ)
    if path is None:
        return Path.cwd() / "semel.toml", "", {}
    return path, *read_config_file(path)


def append_config(path: Path, text: str, added: str) -> None:
    """Append `added` to the file, whose text is `text`. Exits with 1, and changes nothing, if that is impossible."""
    try:
        tomllib.loads(text + added)
    except tomllib.TOMLDecodeError as error:
        print_error(
            f"{path} was left as it is, because these lines cannot be added to its end ({error}):", added.strip()
        )
        raise typer.Exit(1) from None
    try:
        with path.open("a", encoding="utf-8") as file:  # in place: the file may be a link, or another user's
            file.write(added)
    except OSError as error:
        print_error(f"{path} cannot be written: {error.strerror}")
        raise typer.Exit(1) from None
