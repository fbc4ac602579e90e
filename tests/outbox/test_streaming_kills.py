"""A real gateway process, killed with SIGKILL while an answer streams to a chat; the next one goes on with it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from stream_worker import read
from stream_world import Board

WORKER = Path(__file__).parent / "stream_worker.py"
PATIENCE = 90.0


async def life(path: Path, safety: str, point: str) -> int:
    """One life of the gateway; how it ended."""
    log = (path / "log").open("ab")
    worker = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), str(path), safety, point, stdout=log, stderr=log
    )
    try:
        return await asyncio.wait_for(worker.wait(), PATIENCE)
    finally:
        if worker.returncode is None:
            worker.kill()
        log.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("safety", "point"),
    [
        ("at-most-once", "after reserve"),
        ("reconcilable", "after preview"),
        ("at-most-once", "after fill"),
    ],
)
async def test_the_answer_is_there_once_wherever_the_gateway_was_killed(
    tmp_path: Path, safety: str, point: str
) -> None:
    if point.endswith("fill"):
        (tmp_path / "go on").touch()
    assert await life(tmp_path, safety, point) == -signal.SIGKILL
    assert await life(tmp_path, safety, "never") == 0, (tmp_path / "log").read_text()[-4000:]
    platform: Any = SimpleNamespace(log=read(tmp_path / "platform"))
    shown = Board(platform).messages()
    answers = [text for text in shown if text.endswith("It is 42.")]
    marks = [text for text in shown if text.endswith("…")]
    lost = [text for text in shown if text not in marks and "Let me see.".startswith(text.strip())]
    kept = lost if point == "after preview" else []  # what was seen of the lost attempt, as far as it had come
    assert len(answers) == 1 and len(kept) <= 1
    assert [text for text in shown if text not in marks] == [*kept, *answers]
    unknown = safety == "at-most-once" and point == "after reserve"
    assert marks == (["…"] if unknown else []), "a mark stays only where nobody can know that it is there"
