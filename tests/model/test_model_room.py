"""A model's conversation is no process: it waits for no room, and takes none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from model_world import Answer, ModelServer, ModelWorld

from semel.faces.http import Settings, make_app
from semel.gateway.ports import AgentError


async def test_more_conversations_than_processes_may_live_are_asked_at_once_and_stay(tmp_path: Path) -> None:
    gates = [asyncio.Event() for _ in range(3)]
    held = [Answer(["a", "."], gate=gate) for gate in gates]
    async with ModelServer(*held) as api, ModelWorld(tmp_path, api, max_live_agents=1) as w:
        for n in range(3):
            await w.gateway.say(f"s{n}", "Go")
        for one in held:
            await asyncio.wait_for(one.reached.wait(), 30)
        for gate in gates:
            gate.set()
        for n in range(3):
            await w.idle(f"s{n}")
            assert await w.texts(f"s{n}", "agent") == ["a."]
        assert len(w.gateway.spawns.live) == 3


@pytest.mark.parametrize("what", ["mode", "model"])
async def test_what_an_agent_does_not_do_is_told_to_who_asked_for_it(tmp_path: Path, what: str) -> None:
    async with ModelServer(Answer(["Hi"])) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Hi")
        transport = httpx2.ASGITransport(make_app(w.gateway, Settings(token="t")))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            headers = {"Authorization": "Bearer t"}
            answer = await client.put(f"/v1/sessions/s/{what}", json={what: "fast"}, headers=headers)
            assert answer.status_code == 409, answer.text
            told = answer.json()
            assert told["type"] == "urn:semel:problem:agent-refused"
            assert "agent 'main'" in told["detail"]

            async def dies(_: str) -> None:
                raise AgentError("the agent ended", passing=True)

            [live] = w.gateway.spawns.live.values()
            setattr(live.conversation, f"set_{what}", dies)
            answer = await client.put(f"/v1/sessions/s/{what}", json={what: "fast"}, headers=headers)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
