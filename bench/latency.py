"""How long a message is on its way, with an agent that answers at once."""

from __future__ import annotations

import asyncio
import time

from bench.house import Client, House, house, line

ONE, MANY, SESSIONS, PER_SECOND = 300, 1500, 100, 50


async def _session(
    one: House, name: str, watchers: list[asyncio.Task[None]]
) -> tuple[Client, asyncio.Queue[tuple[int, int]]]:
    """A session whose agent runs, and that is watched."""
    talker, watcher = await Client(one.port).open(), await Client(one.port).open()
    await talker.post(name, "wake up")
    pongs: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    await asyncio.sleep(0.05)
    watchers.append(asyncio.create_task(watcher.watch(name, pongs)))
    return talker, pongs


async def _settled(pongs: asyncio.Queue[tuple[int, int]], talker: Client, name: str) -> None:
    """The watcher is connected and the agent answers: one round trip was seen."""
    while True:
        await talker.post(name, "ping")
        try:
            await asyncio.wait_for(pongs.get(), 20)
        except TimeoutError:
            continue
        await asyncio.sleep(0.1)
        while not pongs.empty():
            pongs.get_nowait()
        return


async def _one(one: House) -> None:
    watchers: list[asyncio.Task[None]] = []
    talker, pongs = await _session(one, "one", watchers)
    await _settled(pongs, talker, "one")
    to_agent, to_watcher, whole = [], [], []
    for _ in range(ONE):
        begin = time.monotonic_ns()
        accepted = await talker.post("one", "ping")
        had, seen = await asyncio.wait_for(pongs.get(), 30)
        to_agent.append((had - accepted) / 1e6)
        to_watcher.append((seen - had) / 1e6)
        whole.append((seen - begin) / 1e6)
        await asyncio.sleep(0.01)
    print(line("1 session: accepted -> agent has the prompt", to_agent))
    print(line("1 session: agent's text -> watcher sees it", to_watcher))
    print(line("1 session: the whole way", whole), flush=True)
    for task in watchers:
        task.cancel()


async def _many(one: House) -> None:
    watchers: list[asyncio.Task[None]] = []
    names = [f"many-{n}" for n in range(SESSIONS)]
    sessions = {}
    for name in names:
        sessions[name] = await _session(one, name, watchers)
        await _settled(sessions[name][1], sessions[name][0], name)
    to_agent: list[float] = []
    to_watcher: list[float] = []

    async def ask(name: str) -> None:
        talker, pongs = sessions[name]
        accepted = await talker.post(name, "ping")
        had, seen = await asyncio.wait_for(pongs.get(), 60)
        to_agent.append((had - accepted) / 1e6)
        to_watcher.append((seen - had) / 1e6)

    asking: list[asyncio.Task[None]] = []
    begin = time.monotonic()
    for n in range(MANY):
        await asyncio.sleep(max(0.0, begin + n / PER_SECOND - time.monotonic()))
        asking.append(asyncio.create_task(ask(names[n % SESSIONS])))
    await asyncio.gather(*asking)
    what = f"{SESSIONS} sessions, {PER_SECOND} messages/s"
    print(line(f"{what}: -> agent", to_agent))
    print(line(f"{what}: -> watcher", to_watcher), flush=True)
    for task in watchers:
        task.cancel()


def main() -> None:
    with house() as one:
        asyncio.run(_one(one))
    with house(live=SESSIONS + 2) as one:
        asyncio.run(_many(one))
