"""Twenty people who answer at once: 1,000 turns one behind the other, and messages that come right after a reply.

A message that comes 0 to 50 ms after a reply became visible meets a session that is just being let go. It is
stranded if nobody answers it. A gateway that asks "is it busy?" before it stores a message strands some (measured
elsewhere: 15 in 100); here the message is in the record first.

Both with the bundled agent, a process for each session, and with a model behind a scripted API.
"""

from __future__ import annotations

import asyncio
import random
import time

from bench.house import Client, House, beside, house, line

SESSIONS, TURNS, PATIENCE = 20, 1000, 20.0
TRIALS, TRIALS_OF_A_MODEL = 10_000, 1_000


class Talk:
    """One session, somebody who writes in it, and somebody who watches it."""

    def __init__(self, one: House, name: str) -> None:
        self.one = one
        self.name = name
        self.pongs: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

    async def start(self) -> Talk:
        self.talker = await Client(self.one.port).open()
        watcher = await Client(self.one.port).open()
        await self.talker.post(self.name, "wake up")
        self.watching = asyncio.create_task(watcher.watch(self.name, self.pongs))
        while not await self.ask():
            pass
        return self

    async def ask(self) -> float:
        """Say something and wait for the answer; how long that took, in ms. 0: nobody answered."""
        while not self.pongs.empty():
            self.pongs.get_nowait()
        begin = time.monotonic_ns()
        await self.talker.post(self.name, "ping")
        try:
            _, seen = await asyncio.wait_for(self.pongs.get(), PATIENCE)
        except TimeoutError:
            return 0.0
        return (seen - begin) / 1e6


async def _run(one: House, trials: int) -> None:
    talks = [await Talk(one, f"talk-{n}").start() for n in range(SESSIONS)]
    took: list[float] = []

    async def back_to_back(talk: Talk) -> None:
        for _ in range(TURNS // SESSIONS):
            took.append(await talk.ask())

    begin = time.monotonic()
    await asyncio.gather(*(back_to_back(talk) for talk in talks))
    rate = TURNS / (time.monotonic() - begin)
    print(line(f"{TURNS} turns by {SESSIONS} sessions at once", took))
    print(f"  {rate:.0f} turns/s, {sum(not ms for ms in took)} without an answer", flush=True)
    after: list[float] = []

    async def right_after(talk: Talk, dice: random.Random) -> None:
        for _ in range(trials // SESSIONS):
            await asyncio.sleep(dice.uniform(0.0, 0.05))
            after.append(await talk.ask())

    await asyncio.gather(*(right_after(talk, random.Random(n)) for n, talk in enumerate(talks)))
    stranded = sum(not ms for ms in after)
    print(line(f"{len(after)} messages 0-50 ms after a reply", [ms for ms in after if ms]))
    print(f"  {stranded} stranded", flush=True)
    for talk in talks:
        talk.watching.cancel()


def main() -> None:
    print("the bundled agent")
    with house(live=SESSIONS + 2) as one:
        asyncio.run(_run(one, TRIALS))
    print("a model")
    with beside("bench.modelapi") as api, house(live=SESSIONS + 2, api=api) as one:
        asyncio.run(_run(one, TRIALS_OF_A_MODEL))
