"""What attacks share: the houses of other tests, and a gateway that is attacked from outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.extend(
    str(Path(__file__).parents[1] / folder)
    for folder in ("gateway", "http", "system", "channels", "xmpp", "cli", "security")
)

import gateway_house
from security_house import CONFIG, ENVIRONMENT
from system_house import House, opened, receiver

world, gateway = gateway_house.world, gateway_house.gateway


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A real gateway with the scripted agent, a channel that hears, a node, and secrets in its environment."""
    with receiver() as rx:
        config = CONFIG.replace("URL", rx.url)
        with opened(
            House(tmp_path_factory.mktemp("attacked"), config, env={**ENVIRONMENT, "SEMEL_DUMPABLE": "0"})
        ) as one:
            yield one
