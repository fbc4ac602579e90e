"""`semel docs`: an installed Semel has its documentation, and its messages lead to pages that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from cli_house import Cli

from semel.faces.cli.docs import DOCS
from semel.faces.config.template import build_template

SOURCES = Path(__file__).parents[2] / "src" / "semel"


@pytest.fixture
def alone(tmp_path: Path) -> Cli:
    return Cli(tmp_path, tmp_path / "data")


def test_docs_prints_the_index_and_each_page_as_they_are_in_a_pipe(alone: Cli) -> None:
    assert alone("docs").stdout == (DOCS / "README.md").read_text("utf-8")
    for name in ("people", "agents/claude", "docs/people.md"):
        page = DOCS / f"{name.removeprefix('docs/').removesuffix('.md')}.md"
        assert alone("docs", name).stdout == page.read_text("utf-8")


@pytest.mark.parametrize("name", ["peple", "../README", "/etc/passwd", "people/"])
def test_a_page_that_does_not_exist_is_an_error_that_says_where_the_list_is(alone: Cli, name: str) -> None:
    done = alone("docs", name, rc=2)
    assert done.stdout == ""
    assert done.stderr.startswith(f"semel: there is no page '{name}'")
    assert "semel docs` lists the pages" in done.stderr


def shown_texts() -> set[str]:
    """The strings in files that name `docs`, besides docstrings of modules, classes and functions.

    And the file of `semel init`.
    """
    texts = {build_template()}
    for path in SOURCES.rglob("*.py"):
        source = path.read_text("utf-8")
        if "docs" not in source:
            continue
        tree = ast.parse(source)
        hidden = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden
        }
    return texts


def test_what_people_are_shown_names_pages_by_the_command_that_prints_them() -> None:
    texts = shown_texts()
    assert [text for text in texts if re.search(r"docs/[\w-]+\.md", text)] == []
    named = {page for text in texts for page in re.findall(r"semel docs ([a-z][\w/-]+)", text)} - {"lists"}
    assert len(named) > 5
    assert [page for page in named if not (DOCS / f"{page}.md").exists()] == []
