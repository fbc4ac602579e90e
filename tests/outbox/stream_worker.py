"""A gateway as a process of its own whose chat streams, to be killed while it does.

    python stream_worker.py DIR CLASS POINT

It is asked one thing, and ends when all is said and nothing is on its way. POINT is where it kills itself: "before" or
"after" the platform took one of "reserve", "preview", "fill"; "never". The platform is a file.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))

from gateway_world import script
from stream_world import ROOM, world

from semel.gateway.outbound import previews
from semel.gateway.ports import Op, Receipt, Safety
from semel.ledger.delivery import parts
from semel.testing import FakeChannel, Platform
from semel.testing.channels import Post


def asked(path: Path) -> str:
    """What the agent is to do: it waits in the middle, the first time."""
    first = ["Let me see.", {"wait": str(path / "go on")}, " It is 42."]
    return script(attempts=[first, ["It is 42."]], resume=["It is 42."])


class Kept(Platform):
    """A platform whose log outlives whoever talks to it."""

    path: Path

    def take(self, op: Op) -> Post:
        before = len(self.log)
        post = super().take(op)
        if len(self.log) > before:
            with self.path.open("a") as file:
                file.write(json.dumps(dataclasses.asdict(post)) + "\n")
        return post


def read(path: Path) -> list[Post]:
    """What the platform took so far."""
    return [Post(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


class Deadly(FakeChannel):
    """Kills its process at one point."""

    point = "never"

    async def send(self, op: Op) -> Receipt:
        name = "reserve" if op.text == "…" else "preview" if op.text.endswith(previews.MORE_MARKER) else "fill"
        self.die(f"before {name}")
        receipt = await super().send(op)
        self.die(f"after {name}")
        return receipt

    def die(self, at: str) -> None:
        if at == self.point:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(directory: str, safety: str, point: str) -> None:
    path = Path(directory)
    platform = Kept(folds=safety == "idempotent", log=read(path / "platform"))
    platform.path = path / "platform"
    chat: Any = Deadly("chat", Safety(safety), platform, deletes=True)
    chat.point = point
    async with world(path, chat) as w:
        await w.gateway.say(ROOM, asked(path), key="1")
        await w.idle(ROOM)
        while True:
            left = await w.gateway.record.read(parts.count_backlog)
            if not left["queued"] + left["sending"] + left["unknown"]:
                break
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
