"""The Mattermost channel is held against the suite, on the double of Mattermost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rig_mattermost import MattermostRig

from semel.testing.conformance import Check, Tally, checks, storm


@pytest.mark.channels
@pytest.mark.parametrize("check", checks(MattermostRig), ids=lambda check: check.__name__)
async def test_the_mattermost_channel_keeps_its_promises(check: Check, tmp_path: Path) -> None:
    await check(MattermostRig(), tmp_path)


@pytest.mark.storm
async def test_a_small_storm_over_mattermost(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(MattermostRig(), tmp_path, messages=24, kills=2))


@pytest.mark.channels
async def test_a_storm_of_200_messages_over_mattermost(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(MattermostRig(), tmp_path, messages=200, kills=8))
