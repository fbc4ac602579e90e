"""Write the tables of docs/configuration.md from the declarations of the settings: `make settings`.

The first table under a heading such as "## `[agents.NAME]`" lists the settings of that section of semel.toml, that
under "### `kind = "xmpp"`" those of a kind of channel.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

import semel.channels
from semel.faces.config.file import ConfigFile
from semel.faces.config.template import read_descriptions, write_default, write_value
from semel.gateway.settings.tables import find_table, list_keys

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
TABLE = re.compile(r'^(#+ `(?:\[([\w.]+)\]|kind = "(\w+)")`\n(?:(?!#).*\n)*?)\| setting \|.*\n(?:\|.*\n)+', re.M)


def write_tables(page: str) -> str:
    """The page with its tables written anew. Raises KeyError for a heading that names no section or kind."""
    return TABLE.sub(lambda match: match[1] + (_write_section(match[2]) if match[2] else _write_kind(match[3])), page)


def _write_section(section: str) -> str:
    table = find_table(ConfigFile, section.split("."))
    if table is None:
        raise KeyError(section)
    descriptions, lines = read_descriptions(table), []
    for key, name in list_keys(table).items():
        field = table.model_fields[name]
        shown = "*required*" if field.is_required() else _show(write_default(field))
        lines.append((key, shown, descriptions[name]))
    return _write_table(lines)


def _write_kind(kind: str) -> str:
    settings = semel.channels.kinds()[kind].settings
    descriptions, lines = read_descriptions(settings), []
    for field in dataclasses.fields(settings):
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        shown = "*required*" if default is dataclasses.MISSING else _show(write_value(default))
        lines.append((field.name, shown, descriptions[field.name]))
    return _write_table(lines)


def _show(default: str) -> str:
    return f"`{default}`" if default else "none"


def _link(description: str) -> str:
    """The description with links instead of the command that prints a page."""
    return re.sub(r"`semel docs ([\w/-]+)`", r"[\1](\1.md)", description)


def _write_table(settings: Iterable[tuple[str, str, str]]) -> str:
    lines = ["| setting | default | what it does |", "|---|---|---|"]
    lines += [f"| `{key}` | {default} | {_link(description)} |" for key, default, description in settings]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(write_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
