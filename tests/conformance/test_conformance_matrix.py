"""The matrix channel is held against the suite on a real server, with the full storm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rig_matrix import MatrixRig
from synapse import Synapse

from semel.testing.conformance import Check, Tally, checks, storm

pytestmark = pytest.mark.channels


@pytest.mark.parametrize("check", checks(MatrixRig), ids=lambda check: check.__name__)
async def test_the_matrix_channel_keeps_its_promises(check: Check, synapse: Synapse, tmp_path: Path) -> None:
    await check(MatrixRig(synapse), tmp_path)


async def test_a_storm_of_200_messages_over_matrix(
    synapse: Synapse, tmp_path: Path, tell: Callable[[Tally], None]
) -> None:
    tell(await storm(MatrixRig(synapse), tmp_path, messages=200, kills=8))
