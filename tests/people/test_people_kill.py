"""A code that was redeemed is redeemed, wherever the gateway is killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from people_world import EVE, said
from test_pairing import Door

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from people_world import EVE, said
from test_pairing import Door

async def main():
    d = Door(Path({place!r}))
    await d.people.start()
    first, second = await d.code(), await d.code()
    print(first, second, d.clock.now(), flush=True)
    verdict = await d.people.judge("chat", said(first, EVE, key="m1"))  # and nothing of it was heard yet
    print(verdict.command[1], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_kill_between_the_code_and_its_message_loses_neither(tmp_path: Path) -> None:
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "gateway")]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD.format(paths=paths, place=str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    told = (await asyncio.wait_for(child.communicate(), 60))[0].decode().splitlines()
    assert child.returncode == -signal.SIGKILL
    codes, answer = told[-2:]  # behind what is logged
    first, second, _ = codes.split()
    async with Door(tmp_path) as d:
        again = await d.people.judge("chat", said(first, EVE, key="m1"))
        assert again.command is not None and again.command[1] == answer
        assert [one["state"] for one in await d.people.pairings()] == ["open", "used"]
        assert (await d.sends("hello")) == ""
        assert (await d.sends(f"/pair {second}")).startswith("You are paired")
