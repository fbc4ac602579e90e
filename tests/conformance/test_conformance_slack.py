"""The Slack channel is held against the suite, on the double of a workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rig_slack import SlackRig

from semel.testing.conformance import Check, Tally, checks, storm

NOT_NOW = "a_not_now_in_the_words_of_the_platform_is_not_sent"
"""Slack says "not now" with the status 429, so there is no such body to hold against its channel."""
CHECKS = [check for check in checks(SlackRig) if check.__name__ != NOT_NOW]


@pytest.mark.channels
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_slack_channel_keeps_its_promises(check: Check, tmp_path: Path) -> None:
    await check(SlackRig(), tmp_path)


@pytest.mark.storm
async def test_a_small_storm_over_slack(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(SlackRig(), tmp_path, messages=24, kills=2))


@pytest.mark.channels
async def test_a_storm_of_200_messages_over_slack(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(SlackRig(), tmp_path, messages=200, kills=8))
