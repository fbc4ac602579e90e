"""A real gateway in a process of its own, and its own home."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cli"))

from cli_house import SCRIPTED, Cli, end

CONFIG = '[agents.main]\nkind = "demo"\n' + SCRIPTED


def start(home: Path) -> Iterator[Cli]:
    (home / "semel.toml").write_text(CONFIG)
    cli = Cli(home, home / "data")
    process = cli.up()
    yield cli
    end(process)
    cli.leave()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A gateway with the scripted agent `demo` and, beside it, Semel's demonstration agent `main`."""
    yield from start(tmp_path_factory.mktemp("home"))


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Cli]:
    """The same, for a test that kills it."""
    yield from start(tmp_path)
