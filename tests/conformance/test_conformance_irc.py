"""The irc channel is held against the suite on two real servers, with the full storm on both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ircds import Inspircd, Ngircd
from rig_irc import InspircdRig, NgircdRig

from semel.testing.conformance import Check, Tally, checks, receiving, storm

pytestmark = pytest.mark.channels
NEEDS_A_HISTORY = {
    receiving.a_gateway_killed_between_receiving_and_committing_loses_nothing_and_hears_nothing_twice,
    receiving.what_the_platform_tells_three_times_is_heard_once,
}
"""Of a server without a history nothing comes twice: what was not committed is lost (docs/irc.md)."""
DROPS = 0.1
"""The share of answers that are lost. Each breaks the one connection, and after each the channel waits longer."""


@pytest.mark.parametrize("check", checks(InspircdRig), ids=lambda check: check.__name__)
async def test_the_irc_channel_keeps_its_promises(check: Check, inspircd: Inspircd, tmp_path: Path) -> None:
    await check(InspircdRig(inspircd), tmp_path)


@pytest.mark.parametrize(
    "check", [each for each in checks(NgircdRig) if each not in NEEDS_A_HISTORY], ids=lambda check: check.__name__
)
async def test_the_irc_channel_keeps_its_promises_without_ids_and_echoes(
    check: Check, ngircd: Ngircd, tmp_path: Path
) -> None:
    await check(NgircdRig(ngircd), tmp_path)


async def test_a_storm_of_200_messages_over_irc(
    inspircd: Inspircd, tmp_path: Path, tell: Callable[[Tally], None]
) -> None:
    tell(await storm(InspircdRig(inspircd), tmp_path, messages=200, kills=8, drops=DROPS))


async def test_a_storm_of_200_messages_over_irc_without_echoes(
    ngircd: Ngircd, tmp_path: Path, tell: Callable[[Tally], None]
) -> None:
    tell(await storm(NgircdRig(ngircd), tmp_path, messages=200, kills=8, drops=DROPS))
