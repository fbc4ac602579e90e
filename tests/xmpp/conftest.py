"""XMPP tests: what can be told without a server, a small server that misbehaves as told, and a real Prosody."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "gateway"))  # the gateway's world

from prosody import Prosody
from real_servers import prosody
from xmpp_house import House

__all__ = ["prosody"]
_numbers = itertools.count(1)


@pytest.fixture
def house(prosody: Prosody, tmp_path: Path) -> House:
    """A bot, two people and a room of this test's own."""
    return House(prosody, next(_numbers), tmp_path)
