"""The docs say what there is: every command, option, setting, error and metric is found in them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from markdown_it import MarkdownIt
from pydantic import BaseModel

import semel.channels
from scripts.metrics_table import write_table
from scripts.settings_tables import write_tables
from semel.acp_stream.profiles import PROFILES
from semel.faces.cli import load_commands
from semel.faces.config.file import ConfigFile
from semel.faces.config.template import build_template
from semel.gateway.ports import Caps, Incoming, Op
from semel.gateway.settings.tables import find_table, list_keys
from semel.law import wake
from semel.testing.conformance import Rig

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, inside in getattr(command, "commands", {}).items():
        yield from walk(inside, f"{path} {name}")
    if not hasattr(command, "commands"):
        yield path, command


PROGRAM: Any = typer.main.get_command(load_commands())
COMMANDS = dict(walk(PROGRAM, "semel"))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_helps_with_a_sentence(path: str) -> None:
    assert COMMANDS[path].help
    assert all(getattr(param, "help", "") for param in COMMANDS[path].params if param.name != "help")


def test_the_tables_of_settings_are_written_from_their_declarations() -> None:
    assert write_tables(text("configuration.md")) == text("configuration.md"), "run `make settings`"


def list_sections(table: type[BaseModel] = ConfigFile, path: str = "") -> Iterator[str]:
    """The headers of all sections of semel.toml: "agents.NAME", "agents.NAME.mcp.NAME" ..."""
    for key in list_keys(table):
        for inside in ((key,), (key, "NAME")):
            if (inner := find_table(table, inside)) is not None:
                header = f"{path}{'.'.join(inside)}"
                yield header
                yield from list_sections(inner, f"{header}.")


def test_every_section_is_described() -> None:
    headers = re.findall(r"^#+ `\[([\w.]+)\]`", text("configuration.md"), re.M)
    assert {re.sub(r"\b[A-Z]+\b", "NAME", header) for header in headers} == set(list_sections())


def test_every_kind_of_channel_is_described() -> None:
    kinds = re.findall(r'^### `kind = "(\w+)"`', text("configuration.md"), re.M)
    assert sorted(kinds) == sorted(semel.channels._OWN)
    [compared] = re.findall(r"^\| channels \| \[(.*?)\]\(channels\.md\)", text("coming-from.md"), re.M)
    assert sorted(name.lower() for name in compared.split(", ")) == sorted(semel.channels._OWN)


def test_the_file_of_init_is_toml_with_every_setting_once_its_lines_are_switched_on() -> None:
    switched_on = re.sub(r"^#(?=\[|\w+ = )", "", build_template(), flags=re.M)
    sections = tomllib.loads(switched_on)
    for header in set(list_sections()) - {"sessions.NAME.wake"}:  # it stands in the line of `wake`
        path = header.split(".")
        settings: Any = sections
        for key in path:
            settings = settings[key] if key != "NAME" else next(iter(settings.values()))
        table = find_table(ConfigFile, path)
        assert table is not None and set(list_keys(table)) - set(settings) == set(), header


def test_the_table_of_metrics_is_written_from_their_declarations() -> None:
    assert write_table(text("monitoring.md")) == text("monitoring.md"), "run `make settings`"


def test_the_modes_of_a_busy_session_are_told_as_the_law_has_them() -> None:
    rows = [line for line in (wake.__doc__ or "").splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(wake.MODES)
    assert "\n".join(rows) in text("busy.md")


def test_every_agent_that_steers_is_named() -> None:
    rows = text("agents.md").split("### What a second prompt does")[1].split("\n## ")[0].splitlines()
    section = next(row for row in rows if "steer: " in row)
    names = {"semel-demo": "demo agent", "semel-model": "kind `model`"}
    steering = [profile.name for profile in PROFILES.values() if profile.second == "steers"]
    assert steering
    assert [name for name in steering if names.get(name, name) not in section] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_file_and_folder_of_the_tour_is_there(page: str) -> None:
    named = re.findall(r"`([a-z_]+(?:/[\w.*]+)*(?:/|\.py|\.sql))`", (ROOT / page).read_text("utf-8"))
    places = (ROOT / "src" / "semel", ROOT)
    assert len(named) > 15
    assert [one for one in named if not any(list(place.glob(one)) for place in places)] == []


def quoted_messages(page: str) -> list[str]:
    """What stands as code in the first column of a page's tables."""
    tokens = MarkdownIt("gfm-like").parse(text(page))
    cells = [cell for row, cell in pairwise(pairwise(tokens)) if row[0].type == "tr_open" and row[1].type == "td_open"]
    return [child.content for _, inline in cells for child in inline.children or [] if child.type == "code_inline"]


def literal(node: ast.AST) -> str:
    """The text of a string in the code, with "…" for each value that is put into it; "" for anything else."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [part.value if isinstance(part, ast.Constant) else "…" for part in parts]
    return " ".join(re.sub(r"\{\w+\}", "…", "".join(one for one in texts if isinstance(one, str))).split())


def test_every_message_of_the_troubleshooting_page_is_one_that_semel_gives() -> None:
    texts: set[str] = set()
    for path in (ROOT / "src/semel").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        texts |= {literal(node) for node in nodes if isinstance(node, (ast.Constant, ast.JoinedStr))}
    given = "\n".join(texts)
    messages = [message for message in quoted_messages("troubleshooting.md") if message not in COMMANDS]
    assert len(messages) > 20
    assert [message for message in messages if message.strip("…") not in given] == []


def list_named_commands(page: Path) -> Iterator[str]:
    """The command lines of `semel` in a page's code, up to a remark, a pipe or a redirection."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8"))
    code = [one.content for token in tokens for one in [token, *(token.children or [])] if "code" in one.type]
    code += [token.content for token in tokens if token.type == "fence" and token.info in ("", "console", "sh")]
    for line in "\n".join(code).splitlines():
        if named := re.match(r"(?:\$ |\S+/)?semel ((?:(?!  | #|\||>|;|&| -- ).)+)", line):
            yield named[1].strip()


def find_command(line: str) -> tuple[Any, list[str]]:
    """The command that a line names, and the words after its name. It is None if there is no such command."""
    command = PROGRAM
    words = re.findall(r"\"[^\"]*\"|'[^']*'|\S+", line)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        command = command.commands.get(words.pop(0))
    return command, words


def find_option_without_value(command: Any, words: list[str]) -> str | None:
    """The first option that takes a value and has none. A line of one option only mentions it."""
    if len(words) == 1:
        return None
    take_value = {
        name for param in getattr(command, "params", ()) for name in param.opts if not getattr(param, "is_flag", True)
    }
    for word, following in pairwise([*words, "--"]):
        if word in take_value and following.startswith("-"):
            return word
    return None


def test_every_command_that_a_page_names_exists_with_its_options() -> None:
    pages = (ROOT / "README.md", *DOCS.rglob("*.md"))
    lines = {line: page.name for page in pages for line in list_named_commands(page)}
    wrong = []
    for line, page in lines.items():
        command, words = find_command(line)
        options = {name for param in getattr(command, "params", ()) for name in (*param.opts, *param.secondary_opts)}
        named = {re.split(r"[=\].,]", word)[0] for word in words if re.match(r"--?[a-z]", word)}
        if command is None or named - options - {"--help", "-h"} or find_option_without_value(command, words):
            wrong.append(f"{page}: semel {line}")
    assert len(lines) > 150
    assert wrong == []


def list_shown_sections(page: Path) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The sections of semel.toml that a page shows, with their settings."""
    tokens = MarkdownIt("commonmark").parse(page.read_text("utf-8"))
    for token in tokens:
        is_toml = token.info == "toml" if token.type == "fence" else token.type == "code_block"
        if is_toml and re.match(r"(#.*\n|\s)*\[[a-z]", token.content):
            yield from list_tables(tomllib.loads(token.content))


def list_tables(table: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if find_table(ConfigFile, path) is not None and path:
        yield path, table
    for key, value in table.items():
        if isinstance(value, dict):
            yield from list_tables(value, (*path, key))


def test_every_setting_that_a_page_shows_exists_in_its_section() -> None:
    pages = (ROOT / "README.md", *DOCS.rglob("*.md"))
    shown = [(page.name, path, table) for page in pages for path, table in list_shown_sections(page)]
    assert len(shown) > 40
    wrong = []
    for page, path, settings in shown:
        table = find_table(ConfigFile, path)
        keys = set(list_keys(table)) if table is not None else set()
        kind = semel.channels.kinds().get(str(settings.get("kind")))
        if path[0] == "channels" and kind is not None:
            keys |= {field.name for field in dataclasses.fields(kind.settings)}
        wrong += [f"{page}: {'.'.join(path)}: {key}" for key in settings.keys() - keys]
    assert wrong == []


def test_every_attribute_of_a_rig_is_in_its_table_with_its_default() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\S.*?) \| ", text("write-a-channel.md").partition("attribute of `Rig`")[2], re.M
    )
    written = {name: default.strip("`") for name, default in rows[: len(Rig.__annotations__)]}
    declared = {name: repr(getattr(Rig, name)) if hasattr(Rig, name) else "*required*" for name in Rig.__annotations__}
    assert written == declared


def test_every_method_of_a_rig_is_in_its_table() -> None:
    (table,) = re.findall(r"^\| method of `Rig` .*\n((?:\|.*\n)+)", text("write-a-channel.md"), re.M)
    rows = [line.split(" | ") for line in table.splitlines()[1:]]
    written = {name: row[1] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    methods = {name for name, value in vars(Rig).items() if inspect.isfunction(value) and not name.startswith("_abc")}
    assert set(written) == methods
    assert {name for name, kind in written.items() if kind == "*required*"} == set(Rig.__abstractmethods__)


@pytest.mark.parametrize("table", [Caps, Op, Incoming])
def test_every_field_of_a_channels_types_is_in_its_table(table: type) -> None:
    (section,) = re.findall(rf"^### `{table.__name__}`: .*?\n(?:.*\n)*?((?:\|.*\n)+)", text("write-a-channel.md"), re.M)
    rows = [line.replace("\\|", "¦").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    written = {row[0].strip("| `"): (row[1].strip("`").replace("¦", "|"), row[2].strip("`")) for row in rows}
    declared = {}
    for field in dataclasses.fields(table):
        made = {} if field.default_factory is not dataclasses.MISSING else field.default
        default = "*required*" if made is dataclasses.MISSING else repr(made)
        declared[field.name] = (str(field.type).replace('"', "'"), default)
    assert written == declared
    assert all(len(row) == 4 and len(row[3].strip("| ")) > 8 for row in rows)
