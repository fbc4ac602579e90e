"""IRC tests: what can be told without a server, and real servers with and without accounts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from irc_house import House
from ircds import Inspircd
from real_servers import inspircd, ngircd

__all__ = ["inspircd", "ngircd"]


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspircd]:
    """An InspIRCd with services."""
    with Inspircd(tmp_path_factory.mktemp("irc")) as server:
        yield server


@pytest.fixture
def house(network: Inspircd, tmp_path: Path) -> House:
    """A bot with names of this test's own."""
    return House(network, tmp_path)
