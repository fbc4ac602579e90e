"""The semel.toml that `semel init --print` prints: every setting with its default and description from the model."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from itertools import pairwise
from typing import Any

from pydantic.fields import FieldInfo

from semel.faces.config.file import ConfigFile
from semel.gateway.settings.tables import DERIVED, Table, find_table, list_keys

HEADER = """\
# Semel's configuration. Every setting is optional; without an agent, the demo agent runs. A change needs a restart.
# Secrets of channels may be "env:NAME" or "file:PATH". Durations are seconds, or "90s", "10m", "2h", "1d".
# `semel docs configuration` explains more.
"""

UNITS_S = (("d", 86400), ("h", 3600), ("m", 60))

SECTIONS = {
    "[gateway]": "",
    "[ledger]": "",
    "[files]": "For files in object storage, if the ledger is in PostgreSQL (`semel docs postgres`).",
    "[transcription]": "By what voice notes are written down (`semel docs voice-notes`).",
    "[cluster]": "For several gateways on one PostgreSQL database (`semel docs postgres`).",
    "#[agents.main]": "One section for each agent; the first is the default. `semel up` lists those installed here.",
    "#[agents.main.mcp.files]": 'An MCP server for an agent of kind "model": a command or a url.',
    "#[channels.hook]": "One section for each account. A kind's own settings are in `semel docs configuration`.",
    '#[channels.hook.group."ADDRESS"]': "Settings of a single group, by its address on the platform.",
    "#[people.ada]": "Who may talk, besides those whom `semel pair` admits (`semel docs people`).",
    "#[destinations.team]": "Names under which agents may send to other places than home.",
    "#[nodes.ci]": "One section for each machine that reports with a token of its own (`semel exec`).",
    "#[schedules.morning]": "Prompts at set times: exactly one of cron, at and every.",
    '#[sessions."main:telegram:*"]': "How sessions treat events. The first matching pattern applies.",
    "[heartbeat]": "A turn for sessions in which nothing happened for a while.",
    "[background]": "Limits of background jobs (`semel docs jobs`).",
    "[limits]": "How much of the agents' work one day allows (`semel docs limits`).",
}
"""Header of each section -> the comment above it. A section that needs the user's own values is commented out."""


def build_template() -> str:
    return "\n".join([HEADER, *(_write_section(header, comment) for header, comment in SECTIONS.items())])


def _write_section(header: str, comment: str) -> str:
    table = find_table(ConfigFile, re.findall(r'"[^"]+"|\w+', header))
    assert table is not None
    lines = [*_write_comment(comment), header]
    descriptions = read_descriptions(table)
    for key, field in list_keys(table).items():
        if find_table(table, (key, "NAME")) is not None:
            continue  # the key has a section of its own
        lines += [*_write_comment(descriptions[field]), f"#{key} = {_write_example(table.model_fields[field])}"]
    return "\n".join(lines) + "\n"


def _write_comment(text: str) -> list[str]:
    return textwrap.wrap(text, 98, initial_indent="# ", subsequent_indent="# ")


def read_descriptions(settings: type[Any]) -> dict[str, str]:
    """Map the fields of a table, or of a channel kind's dataclass, to their descriptions: the strings after them."""
    descriptions: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        if not base.__module__.startswith("semel."):
            continue
        [declaration] = ast.parse(inspect.getsource(base)).body
        assert isinstance(declaration, ast.ClassDef)
        for field, text in pairwise(declaration.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                descriptions[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return descriptions


def write_default(field: FieldInfo) -> str:
    """Return the default of a setting as written in TOML; "" if it has none."""
    return "" if field.is_required() else write_value(field.get_default(call_default_factory=True))


def write_value(value: Any) -> str:
    """Return a value as written in TOML; "" for one that means "not set". A float is a duration in seconds."""
    if value in (None, "", DERIVED):
        return ""
    if isinstance(value, float):
        unit, length = next((unit for unit in UNITS_S if value and value % unit[1] == 0), ("s", 1))
        return f'"{value / length:g}{unit}"'
    return "{}" if isinstance(value, Table) else json.dumps(value)


def _write_example(field: FieldInfo) -> str:
    """Return a setting's default as written in TOML, or its declared example if the default is empty."""
    default = write_default(field)
    if default not in ("", "[]", "{}") or not field.examples:
        return default
    example = field.examples[0]
    if isinstance(example, dict):
        return f"{{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in example.items())} }}"
    return json.dumps(example)
