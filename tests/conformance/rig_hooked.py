"""What the rigs share whose platform posts to the gateway by itself: its double keeps what it has to post."""

from __future__ import annotations

from typing import Any

import httpx2

from semel.testing.conformance import Rig
from semel.testing.conformance.process import CHANNEL_NAME


def hook_of(gateway: str) -> str:
    """The address of the webhook of the channel under test."""
    return f"{gateway}/v1/hooks/{CHANNEL_NAME}"


class HookedRig(Rig):
    """`double`: of the platform, which is served until the rig ends."""

    hears = False
    hooked = True
    backfills = False
    double: Any

    def reach(self, gateway: str) -> None:
        self.double.callback = hook_of(gateway)

    async def has_posted_all(self) -> bool:
        return not self.double.deliveries

    async def post_newest(self, gateway: str) -> None:
        """Post what waits since last, and nothing else."""
        payload = self.double.deliveries.pop().payload
        headers, body = self.double.make_request(payload)
        async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=30) as client:
            answer = await client.post(hook_of(gateway), content=body, headers=headers)
        assert answer.status_code == 200, answer.text
        self.double.delivered.append(payload)

    async def again(self, gateway: str) -> bool:
        self.double.post_again()
        return True
