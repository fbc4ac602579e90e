"""The Signal channel is held against the suite, on the double of signal-cli."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rig_signal import SignalRig

from semel.testing.conformance import Check, Tally, checks, storm

pytestmark = pytest.mark.channels


@pytest.mark.parametrize("check", checks(SignalRig), ids=lambda check: check.__name__)
async def test_the_signal_channel_keeps_its_promises(check: Check, tmp_path: Path) -> None:
    await check(SignalRig(tmp_path / "journal"), tmp_path)


async def test_a_storm_of_200_messages_over_signal(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(SignalRig(tmp_path / "journal"), tmp_path, messages=200, kills=8))
