"""The email channel is held against the suite on a real server, with the full storm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mail import Mail
from rig_email import EmailRig

from semel.testing.conformance import Check, Tally, checks, storm

pytestmark = pytest.mark.channels


@pytest.mark.parametrize("check", checks(EmailRig), ids=lambda check: check.__name__)
async def test_the_email_channel_keeps_its_promises(check: Check, mail_server: Mail, tmp_path: Path) -> None:
    await check(EmailRig(mail_server), tmp_path)


async def test_a_storm_of_200_messages_over_email(
    mail_server: Mail, tmp_path: Path, tell: Callable[[Tally], None]
) -> None:
    tell(await storm(EmailRig(mail_server), tmp_path, messages=200, kills=8))
