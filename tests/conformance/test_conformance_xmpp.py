"""The xmpp channel is held against the suite on a real server, with the full storm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prosody import Prosody
from rig_xmpp import XmppRig

from semel.testing.conformance import Check, Tally, checks, storm

pytestmark = pytest.mark.channels


@pytest.mark.parametrize("check", checks(XmppRig), ids=lambda check: check.__name__)
async def test_the_xmpp_channel_keeps_its_promises(check: Check, prosody: Prosody, tmp_path: Path) -> None:
    await check(XmppRig(prosody), tmp_path)


async def test_a_storm_of_200_messages_over_xmpp(
    prosody: Prosody, tmp_path: Path, tell: Callable[[Tally], None]
) -> None:
    tell(await storm(XmppRig(prosody), tmp_path, messages=200, kills=8))
