"""A channel as somebody else would write it, in a package, in each safety class: it is held against the suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rig_pigeon import FoldingPigeonRig, KnownPigeonRig, PigeonRig

from semel.testing.conformance import Check, Tally, checks, storm

RIGS: list[type[PigeonRig]] = [PigeonRig, FoldingPigeonRig, KnownPigeonRig]
CASES = [pytest.param(rig, check, id=f"{rig.__name__}-{check.__name__}") for rig in RIGS for check in checks(rig)]


@pytest.mark.channels
@pytest.mark.parametrize(("rig", "check"), CASES)
async def test_a_channel_of_a_package_keeps_its_promises(rig: type[PigeonRig], check: Check, tmp_path: Path) -> None:
    await check(rig(), tmp_path)


@pytest.mark.storm
@pytest.mark.parametrize("rig", RIGS)
async def test_a_small_storm_over_a_channel_of_a_package(
    rig: type[PigeonRig], tmp_path: Path, tell: Callable[[Tally], None]
) -> None:
    tell(await storm(rig(), tmp_path, messages=24, kills=2))


@pytest.mark.channels
@pytest.mark.parametrize("rig", RIGS)
async def test_a_storm_of_200_messages_over_a_channel_of_a_package(
    rig: type[PigeonRig], tmp_path: Path, tell: Callable[[Tally], None]
) -> None:
    tell(await storm(rig(), tmp_path, messages=200, kills=8))
