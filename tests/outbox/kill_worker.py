"""An outbox as a process of its own, to be killed: it sends what a ledger holds until nothing is left.

    python kill_worker.py LEDGER URL CLASS START [POINT NUMBER]

POINT is where it kills itself, at the NUMBERth attempt: `departed` (sending is durable, nothing has left) or
`answered` (the platform answered, the receipt is not recorded).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from semel.channels.http import request
from semel.channels.webhook import WebhookChannel, WebhookSettings
from semel.gateway.outbound.outbox import Outbox
from semel.gateway.ports import Op, Receipt, Safety, Unknown
from semel.ledger.delivery import parts
from semel.ledger.sqlite.store import Store
from semel.testing import HurriedClock

FACTOR = 20.0


class Platform(WebhookChannel):
    """A webhook of any safety class, which kills its process at a chosen point."""

    def __init__(self, url: str, safety: Safety, point: str, number: int) -> None:
        settings = WebhookSettings(url=url, allow_private=True, timeout=5.0, key_life=864000.0)
        super().__init__("hook", settings)
        finds = safety is Safety.RECONCILABLE
        self.caps = replace(self.caps, safety=safety, settle=2.0 if finds else 0.0, finds=finds, timeout=200.0)
        self.point, self.number, self.calls = point, number, 0

    def die(self, point: str, call: int) -> None:
        if point == self.point and call >= self.number:
            os.kill(os.getpid(), signal.SIGKILL)

    async def send(self, op: Op) -> Receipt:
        self.calls = call = self.calls + 1
        self.die("departed", call)
        receipt = await super().send(op)
        self.die("answered", call)
        return receipt

    async def find(self, op: Op, since: float) -> Receipt | None:
        assert self.settings.url is not None
        answer = await request(
            "POST", f"{self.settings.url}/find", op.key.encode(), {}, timeout=5.0, allow_private=True
        )
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise Unknown(f"HTTP {answer.status}")
        return Receipt(json.loads(answer.body)["id"])


async def main(ledger: str, url: str, safety: str, start: str, point: str = "", number: str = "0") -> None:
    clock = HurriedClock(FACTOR, int(start))
    channel = Platform(url, Safety(safety), point, int(number))
    with Store.open(Path(ledger), clock=clock.now) as store:
        outbox = Outbox(store, {"hook": channel}, clock)
        running = asyncio.create_task(outbox.run())
        print("running", flush=True)
        while True:
            await asyncio.wait({running}, timeout=0.02)
            left = await store.read(parts.count_backlog)
            if running.done() or not left["queued"] + left["sending"] + left["unknown"]:
                break
        await outbox.stop(5.0)
        await running
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
