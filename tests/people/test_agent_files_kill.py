"""A gateway that is killed while it takes an agent's file: the next one sends it once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from gateway_world import script
from people_world import Chat
from test_agent_files import IMAGE, KEY, PNG, chunk, left

from semel.ledger.admin import books

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from people_world import Chat
from semel.gateway.record import Record
from semel.gateway.turns import agent_files
from semel.ledger.inbound import channel_batch
from semel.ledger.turns import show, turn_ops

POINT = {point!r}
def die():
    os.kill(os.getpid(), signal.SIGKILL)

def has_file(args):
    return any(request.kind == "file" for ops in args if isinstance(ops, list) for op in ops
               if isinstance(op, turn_ops.Block) for request in op.requests)

write, keep_bytes = Record.write, agent_files.files.store_bytes
async def dying_write(self, what, *args, **more):
    if POINT == "before the entry" and what is show.show and has_file(args):
        die()
    done = await write(self, what, *args, **more)
    if POINT == "row" and what is channel_batch.record_file:
        die()
    if POINT == "entry" and what is show.show and has_file(args):
        die()
    return done

def dying_keep(*args):
    keep_bytes(*args)
    if POINT == "blob":
        die()

Record.write, agent_files.files.store_bytes = dying_write, dying_keep

async def main():
    async with Chat(Path({place!r}), own={{"narration": "all"}}) as w:
        await w.tell({asked!r})
        await asyncio.sleep(120)

asyncio.run(main())
"""


@pytest.mark.parametrize("point", ["row", "blob", "before the entry", "entry"])
async def test_a_file_is_sent_once_wherever_its_gateway_was_killed(tmp_path: Path, point: str) -> None:
    held = {"remember": {**chunk(IMAGE)["update"], "messageId": "m1"}}
    steps = ({"tool": "draw"}, held, {"save": True}, {"sleep": 0.5}, chunk(IMAGE), {"hang": True})
    asked = script(*steps, resume=["Done."])
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "gateway")]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD.format(paths=paths, place=str(tmp_path), point=point, asked=asked),
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert await asyncio.wait_for(child.wait(), 100) == -signal.SIGKILL
    async with Chat(tmp_path, own={"narration": "all"}) as w:
        await w.idle(KEY)
        await w.sent()
        assert left(w) == ["<file>", "Done."]
        [file] = [one for entry in await w.entries(KEY) for one in entry.get("files", [])]
    async with Chat(tmp_path, own={"narration": "all"}) as w:
        assert left(w) == [], "nothing is sent again"
        assert [one.read_bytes() for one in (w.path / "blobs").iterdir() if one.is_file()] == [PNG]
        assert (w.path / "blobs" / file["id"]).exists()
        audit = await w.gateway.record.read(books.audit)
        assert [book.name for book in audit if not book.ok] == []
