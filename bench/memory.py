"""What a gateway holds and burns while nothing happens, and what each live session adds."""

from __future__ import annotations

import asyncio
import time

from bench.house import Client, House, house

SESSIONS = 20
IDLE = 20.0


async def _wake(one: House) -> None:
    client = await Client(one.port).open()
    for n in range(SESSIONS):
        await client.post(f"live-{n}", "ping")
    await asyncio.sleep(SESSIONS * 0.4)
    client.close()


def main() -> None:
    with house(live=SESSIONS) as one:
        time.sleep(1)
        begin, at = one.cpu(), time.monotonic()
        time.sleep(IDLE)
        used = (one.cpu() - begin) / (time.monotonic() - at)
        idle = one.rss()
        print(f"{'idle gateway':46} {idle:6.1f} MB, {used * 100:.2f} % of a core over {IDLE:.0f} s")
        asyncio.run(_wake(one))
        print(f"{'each live session (gateway alone)':46} {(one.rss() - idle) / SESSIONS:6.2f} MB")
