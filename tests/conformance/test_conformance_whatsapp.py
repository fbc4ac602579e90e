"""The WhatsApp channel is held against the suite, on the double of Meta's Cloud API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rig_whatsapp import WhatsAppRig

from semel.testing.conformance import Check, Tally, checks, storm

pytestmark = pytest.mark.channels


@pytest.mark.parametrize("check", checks(WhatsAppRig), ids=lambda check: check.__name__)
async def test_the_whatsapp_channel_keeps_its_promises(check: Check, tmp_path: Path) -> None:
    await check(WhatsAppRig(), tmp_path)


async def test_a_small_storm_over_whatsapp(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(WhatsAppRig(), tmp_path, messages=24, kills=2))


async def test_a_storm_of_200_messages_over_whatsapp(tmp_path: Path, tell: Callable[[Tally], None]) -> None:
    tell(await storm(WhatsAppRig(), tmp_path, messages=200, kills=8))
