"""The docs say what there is: every command, option, setting, error and metric is found in them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic.fields import FieldInfo

import semel.channels
from semel.acp_stream.profiles import PROFILES
from semel.faces.cli import commands
from semel.faces.config import model
from semel.faces.config.template import template
from semel.faces.http.app import operations
from semel.faces.http.problems import CODES
from semel.law import busy

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EVERYWHERE = {"--config", "--data-dir", "--help", "-h"}  # told once, for all commands


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, inside in getattr(command, "commands", {}).items():
        yield from walk(inside, f"{path} {name}")
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS = dict(walk(typer.main.get_command(commands()), "semel"))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_its_options_are_described(path: str) -> None:
    told = text("cli.md")
    assert f"`{path}" in told, f"docs/cli.md does not tell of `{path}`"
    start = told.index(f"`{path}")
    section = told[start : (told.find("\n### ", start) + 1 or len(told) + 1) - 1]
    options = {name for param in COMMANDS[path].params for name in param.opts if name.startswith("-")}
    missing = [option for option in options - EVERYWHERE if f"`{option}" not in section]
    assert not missing, f"docs/cli.md does not tell of {path} {missing}"


def test_no_command_is_described_that_does_not_exist() -> None:
    told = set(re.findall(r"^### `(semel [a-z ]+?)(?: [A-Z\[].*)?`", text("cli.md"), re.M))
    assert told <= set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_helps_with_a_sentence(path: str) -> None:
    assert COMMANDS[path].help
    assert all(getattr(param, "help", "") for param in COMMANDS[path].params if param.name != "help")


TABLES = {
    "gateway": model.Gateway,
    "ledger": model.Ledger,
    "agents.NAME": model.Agent,
    "agents.NAME.mcp.SERVER": model.Mcp,
    "channels.NAME": model.Channel,
    "channels.NAME.group.ADDRESS": model.Group,
    "people.NAME": model.Person,
    "destinations.NAME": model.Destination,
    "schedules.NAME": model.Schedule,
    "sessions.PATTERN": model.Session,
    "sessions.PATTERN.wake": model.Wake,
    "heartbeat": model.Heartbeat,
    "background": model.Background,
    "nodes.NAME": model.Node,
}


def default(field: FieldInfo) -> str:
    if field.is_required():
        return "*needed*"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, model.Table):
        return "`{}`"
    if isinstance(value, float):
        return f'`"{value / 60:g}m"`' if value >= 60 else f'`"{value:g}s"`'
    return "none" if value is None else f"`{json.dumps(value)}`"


@pytest.mark.parametrize("table", TABLES)
def test_every_setting_is_described_with_its_default(table: str) -> None:
    told = text("configuration.md")
    section = told[told.index(f"## `[{table}]`") :].split("\n## ")[0]
    for name, field in TABLES[table].model_fields.items():
        assert f"| `{name}` | {default(field)} | {field.description} |" in section


def test_every_section_is_described() -> None:
    assert {table.split(".")[0] for table in TABLES} == set(model.File.model_fields)


@pytest.mark.parametrize("kind", semel.channels._OWN)
def test_every_setting_of_a_channel_kind_is_described(kind: str) -> None:
    told = text("configuration.md")
    section = told[told.index(f'### `kind = "{kind}"`') :].split("\n## ")[0]
    fields = [f.name for f in dataclasses.fields(semel.channels._OWN[kind].settings) if f.init]
    assert [name for name in fields if f"| `{name}` |" not in section] == []


def test_the_template_of_init_names_every_setting() -> None:
    for table in TABLES.values():
        for name in table.model_fields if table is not model.Wake else ():  # it stands in the line of `wake`
            assert re.search(rf"^#{name} = ", template(), re.M)


def test_every_operation_of_the_api_is_described() -> None:
    told = text("api.md")
    paths = {re.sub(r":\w+\}", "}", operation.path) for operation in operations()}
    assert [path for path in sorted(paths) if path not in told] == []


def test_every_problem_of_the_api_is_described() -> None:
    assert [code for code in CODES if f"`{code}`" not in text("api.md")] == []


def test_every_metric_is_described() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src/semel").rglob("*.py"))
    metrics = set(re.findall(r'"(semel_[a-z_]+)', sources))
    assert metrics
    assert [name for name in sorted(metrics) if name not in text("api.md")] == []


def test_the_modes_of_a_busy_session_are_told_as_the_law_has_them() -> None:
    rows = [line for line in (busy.__doc__ or "").splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(busy.MODES)
    assert "\n".join(rows) in text("busy.md")


def test_every_agent_that_steers_is_named() -> None:
    section = text("agents.md").split("What a second prompt does")[1].split("## ")[0].split("queue\nit;")[0]
    names = {"semel-demo": "demo agent", "semel-model": "kind `model`"}
    steering = [profile.name for profile in PROFILES.values() if profile.second == "steers"]
    assert steering
    assert [name for name in steering if names.get(name, name) not in section] == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)} -> {target}")
    assert not broken


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_file_and_folder_of_the_tour_is_there(page: str) -> None:
    named = re.findall(r"`([a-z_]+(?:/[\w.*]+)*(?:/|\.py|\.sql))`", (ROOT / page).read_text("utf-8"))
    places = (ROOT / "src" / "semel", ROOT)
    assert len(named) > 15
    assert [one for one in named if not any(list(place.glob(one)) for place in places)] == []
