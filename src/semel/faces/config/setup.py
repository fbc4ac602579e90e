"""The short semel.toml that `semel init` writes: an agent, and perhaps a channel with its owner.

A secret is never written into semel.toml. It goes into a file beside it that only its owner may read, and semel.toml
refers to that file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEADER = "# Semel's configuration. `semel init --print` shows every setting.\n"
REFERENCES = ("env:", "file:")


@dataclass
class Setup:
    """What is to be written into `folder`. `secrets`: the content of each secret's file, by its name.

    `pairing`: the arguments of `semel pair` for an owner whose account is not known yet; "" if there is none.
    """

    folder: Path
    sections: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    pairing: str = ""

    def add_section(self, header: str, settings: Mapping[str, Any]) -> None:
        """Add a section with these settings. Empty ones are left out."""
        lines = [f"{key} = {format_value(value)}" for key, value in settings.items() if value not in (None, "", {})]
        self.sections.append("\n".join([f"[{header}]", *lines]))

    def keep_secret(self, name: str, value: str) -> str:
        """Return how semel.toml refers to a secret: as it is, if it is a reference, else as the file `name`."""
        if value.startswith("file:"):
            return f"file:{Path(value.removeprefix('file:')).expanduser().absolute()}"
        if value.startswith("env:"):
            return value
        self.secrets[name] = value
        return f"file:{name}"

    def reveal(self, reference: str) -> str:
        """Return the secret itself if `reference` is to one of `secrets`, else `reference`."""
        return (
            self.secrets.get(reference.removeprefix("file:"), reference) if reference.startswith("file:") else reference
        )

    def discard(self, names: Iterable[str]) -> None:
        """Remove these secrets again."""
        for name in list(names):
            del self.secrets[name]

    @property
    def text(self) -> str:
        return "\n\n".join([HEADER.rstrip(), *self.sections]) + "\n"

    def list_existing(self, path: Path) -> list[Path]:
        """Return the files that writing would replace: `path`, and files of secrets with another content."""
        files = {path: self.text, **{self.folder / name: f"{value}\n" for name, value in self.secrets.items()}}
        return [file for file, content in files.items() if file.exists() and not _has_content(file, content)]

    def write(self, path: Path) -> None:
        """Write the files of the secrets, then semel.toml as `path`. Raises OSError."""
        self.write_secrets()
        write_file(path, self.text, 0o644)

    def write_secrets(self) -> None:
        """Write the files of the secrets, which only their owner can read. Raises OSError."""
        for name, value in self.secrets.items():
            write_file(self.folder / name, f"{value}\n", 0o600)


def format_value(value: Any) -> str:
    """Format a string, a list of strings or a table of strings as in TOML."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {format_value(item)}' for key, item in value.items())} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML forbids DEL, JSON does not


def write_file(path: Path, text: str, mode: int) -> None:
    """Write a file as a whole or not at all, in place of one that exists. Raises OSError."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _has_content(path: Path, content: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == content
    except (OSError, UnicodeDecodeError):
        return False
