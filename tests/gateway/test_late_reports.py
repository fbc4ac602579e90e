"""A report that was heard long after its command had ended: the agent's prompt says when that was."""

from __future__ import annotations

import time
from pathlib import Path

from gateway_world import World

from semel.testing.scripted_agent import read_prompts
from semel.tools.exec.spool import FINISHED

HOUR_MS = 3_600_000


async def test_the_agent_is_told_when_a_command_ended_whose_report_came_late(tmp_path: Path) -> None:
    async with World(tmp_path, log=tmp_path / "prompts") as w:
        now = int(time.time() * 1000)
        for key, ended in (("late", now - HOUR_MS), ("soon", now)):
            data = {"run": key, "exit": 0, "ended": ended}
            await w.gateway.report("s", FINISHED, f"it is over: {key}", key=f"{key}:{FINISHED}", data=data)
            await w.idle()
        late, soon = [one.text for one in read_prompts(tmp_path / "prompts")]
        utc = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime((now - HOUR_MS) // 1000))
        assert f"(run=late, exit=0), ended at {utc}, 1 h" in late and "before this was heard; its text is data" in late
        assert "ended" not in soon and "(run=soon, exit=0); its text is data" in soon
