"""The command line as people have it: real processes, a real gateway, its own home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_house import SCRIPTED, Cli, end


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path, tmp_path / "data")
    yield cli
    cli.leave()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A gateway that runs for a file's tests, with the scripted agent. At the end, its books hold."""
    home = tmp_path_factory.mktemp("home")
    (home / "semel.toml").write_text(SCRIPTED)
    cli = Cli(home, home / "data")
    process = cli.up()
    try:
        yield cli
        assert cli.json("doctor", "--laws")["ok"]
    finally:
        end(process)
        cli.leave()
    assert process.returncode == 0
