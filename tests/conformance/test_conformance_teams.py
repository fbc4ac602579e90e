"""The Teams channel is held against the suite, on the double of the Bot Connector."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rig_teams import TeamsRig

from semel.testing.conformance import Check, Tally, checks, storm

pytestmark = pytest.mark.channels


@pytest.mark.parametrize("check", checks(TeamsRig), ids=lambda check: check.__name__)
async def test_the_teams_channel_keeps_its_promises(check: Check, tmp_path: Path) -> None:
    await check(TeamsRig(), tmp_path)


async def test_a_small_storm_over_teams(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(TeamsRig(), tmp_path, messages=24, kills=2))


async def test_a_storm_of_200_messages_over_teams(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(TeamsRig(), tmp_path, messages=200, kills=8))
