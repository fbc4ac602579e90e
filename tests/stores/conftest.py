"""Stores of other systems, and a gateway in a process of its own to import them into."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cli"))

from cli_house import SCRIPTED, Cli, end

CHANNEL = """
[channels.telegram]
kind = "telegram"
token = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
api = "http://127.0.0.1:9"
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A gateway that has a Telegram channel, whose server does not answer."""
    home = tmp_path_factory.mktemp("home")
    (home / "semel.toml").write_text(SCRIPTED + CHANNEL)
    cli = Cli(home, home / "data")
    process = cli.up()
    yield cli
    end(process)
    cli.leave()
