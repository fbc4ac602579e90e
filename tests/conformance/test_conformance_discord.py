"""The Discord channel is held against the suite, on the double of Discord."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rig_discord import DiscordRig

from semel.testing.conformance import Check, Tally, checks, storm


@pytest.mark.channels
@pytest.mark.parametrize("check", checks(DiscordRig), ids=lambda check: check.__name__)
async def test_the_discord_channel_keeps_its_promises(check: Check, tmp_path: Path) -> None:
    await check(DiscordRig(), tmp_path)


@pytest.mark.storm
async def test_a_small_storm_over_discord(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(DiscordRig(), tmp_path, messages=24, kills=2))


@pytest.mark.channels
async def test_a_storm_of_200_messages_over_discord(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(DiscordRig(), tmp_path, messages=200, kills=8))
