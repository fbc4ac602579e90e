"""A gateway that is killed while it takes an agent's file: the next one sends it once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from gateway_world import script
from people_world import Chat
from test_agent_files import IMAGE, KEY, PNG, chunk, left

from semel.ledger.admin import books

WORKER = Path(__file__).with_name("agent_files_worker.py")


@pytest.mark.long
@pytest.mark.parametrize("point", ["row", "blob", "before the entry", "entry"])
async def test_a_file_is_sent_once_wherever_its_gateway_was_killed(tmp_path: Path, point: str) -> None:
    held = {"remember": {**chunk(IMAGE)["update"], "messageId": "m1"}}
    steps = ({"tool": "draw"}, held, {"save": True}, {"sleep": 0.5}, chunk(IMAGE), {"hang": True})
    asked = script(*steps, resume=["Done."])
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), point, str(tmp_path), asked,
        stdout=asyncio.subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
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
