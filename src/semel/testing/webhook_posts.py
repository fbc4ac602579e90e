"""Requests that a double posts to a gateway's webhook by itself, and posts again until they are taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import httpx2

from semel.text.json_types import Json

IDLE_S = 0.02


@dataclass
class Delivery:
    """A request to the webhook that was not taken yet. `due`: of the next attempt, on the loop's clock."""

    payload: Json
    attempts: int = 0
    due: float = 0.0


class PostingDouble(Protocol):
    """A double that posts. `callback`: the address of the webhook; "" if nothing is to be posted."""

    callback: str

    def next_delivery(self, at: float) -> Delivery | None:
        """Return a request to post now, if one is due. `at`: the loop's time."""

    def make_request(self, payload: Json) -> tuple[dict[str, str], bytes]:
        """Return (headers, body) of the request that delivers a payload."""

    def note_delivery(self, delivery: Delivery, status: int, at: float) -> None:
        """Note the status with which a request was answered; 0 if it was not."""


@asynccontextmanager
async def post_deliveries(double: PostingDouble) -> AsyncIterator[None]:
    """Post what waits, one request after the other, until the block ends."""
    posting = asyncio.create_task(_post(double))
    try:
        yield
    finally:
        posting.cancel()
        with suppress(asyncio.CancelledError):
            await posting


async def _post(double: PostingDouble) -> None:
    loop = asyncio.get_running_loop()
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=20) as client:
        while True:
            delivery = double.next_delivery(loop.time()) if double.callback else None
            if delivery is None:
                await asyncio.sleep(IDLE_S)
                continue
            headers, body = double.make_request(delivery.payload)
            try:
                status = (await client.post(double.callback, content=body, headers=headers)).status_code
            except httpx2.HTTPError:
                status = 0
            double.note_delivery(delivery, status, loop.time())
