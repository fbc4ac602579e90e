"""An agent that is started before the first word: a client sees what it offers, and the first turn finds it running."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "http"))


from gateway_house import GatewayHouse, world
from gateway_world import World, script, until
from http_house import TOKEN, client_of

from semel.faces.http import Settings
from semel.gateway.errors import Conflict
from semel.gateway.ports import AgentError
from semel.gateway.settings import AgentSettings
from semel.gateway.turns import session_controls
from semel.ledger.storage.rows import Row
from semel.testing import scripted_agent

__all__ = ["world"]
Json = dict[str, Any]
COMMANDS = [{"name": "init", "description": "Begin"}]


class Spawned(Row):
    state: str
    pid: int | None


async def spawned(w: World) -> list[Spawned]:
    """All processes that were started, oldest first."""
    statement = "SELECT state, pid FROM spawn ORDER BY id"
    return await w.gateway.record.read(lambda tx: [Spawned(*row) for row in tx._cursor.execute(statement).fetchall()])


async def test_what_the_agent_offers_is_known_before_anybody_speaks(tmp_path: Path) -> None:
    garden = tmp_path / "garden"
    garden.mkdir()
    async with World(tmp_path) as w:
        session = await w.gateway.start_agent("s", folder=str(garden))
        assert (session["state"], session["seq"], session["folder"]) == ("idle", 0, str(garden))
        offered = [mode["id"] for mode in session["modes"]["availableModes"]]
        assert session["modes"]["currentModeId"] in offered
        assert [option["id"] for option in session["options"]] == ["model", "effort", "search"]
        assert session["models"] == session["options"][0]
        assert await w.gateway.start_agent("s") == session, "it runs already"
        assert [one.state for one in await spawned(w)] == ["live"]


async def test_the_first_turn_finds_the_agent_running_and_its_conversation_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "prompts"
    async with World(tmp_path, log=log) as w:
        await w.gateway.start_agent("s")
        assert await w.ask(script("Hi.")) == ["Hi."]
        await w.gateway.spawns.end(1, "a test")
        assert await w.ask(script("Again.")) == ["Hi.", "Again."]
        assert len(await spawned(w)) == 2
        first, second = scripted_agent.read_prompts(log)
        assert first.session == second.session, "the second process has loaded the first one's conversation"
        assert "[semel" not in first.text + second.text, "nothing is missing from its memory"


async def test_after_an_answer_that_demands_a_login_a_new_process_reads_the_login(tmp_path: Path) -> None:
    """codex-acp reads its key once: with the old process, `semel agents login` would help only after a restart."""
    async with World(tmp_path) as w:
        assert await w.ask(script({"error": {"code": -32000, "message": "Authentication required"}})) == []
        assert await w.ask(script("Hi.")) == ["Hi."]
        assert len(await spawned(w)) == 2
        await w.ask(script({"error": {"code": -32000, "message": "no such model"}}))
        assert await w.ask(script("Again.")) == ["Hi.", "Again."]
        assert len(await spawned(w)) == 2, "another error ends no process"
        refused, failed = await w.texts("s", "notice")
        assert "Authentication required" in refused and "no such model" in failed


async def test_a_message_that_comes_while_the_agent_starts_is_answered_by_it(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.make_session("s")
        starting = asyncio.create_task(w.gateway.start_agent("s"))

        async def begun() -> bool:
            return bool(await spawned(w))

        await until(begun)
        assert await w.ask(script("Hi.")) == ["Hi."]
        await starting
        assert len(await spawned(w)) == 1


async def test_a_running_turn_is_left_alone(tmp_path: Path) -> None:
    gate = tmp_path / "go on"
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"wait": str(gate)}, "Done."))
        session = await w.gateway.start_agent("s")
        assert session["state"] == "running"
        gate.touch()
        await w.idle()
        assert await w.texts("s", "agent") == ["Done."]
        assert len(await spawned(w)) == 1


async def test_an_agent_killed_before_the_first_word_is_started_again_for_it(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.start_agent("s")
        (first,) = await spawned(w)
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)

        async def gone() -> bool:
            return not w.gateway.spawns.live

        await until(gone)
        assert await w.ask(script("Hi.")) == ["Hi."]
        assert [one.state for one in await spawned(w)] == ["ended", "live"]


async def test_a_new_chapter_begins_with_a_process_of_its_own(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.start_agent("s")
        await w.gateway.new_chapter("s", "Ann")
        assert await w.ask(script("Hi.")) == ["Hi."]
        assert [one.state for one in await spawned(w)] == ["ended", "live"]


async def test_after_a_restart_of_the_gateway_the_session_is_used_as_ever(tmp_path: Path) -> None:
    world = await World(tmp_path).start()
    await world.gateway.start_agent("s")
    await world.stop()
    async with World(tmp_path) as w:
        offered = await w.gateway.session("s")
        assert offered["modes"] and offered["options"]
        assert await w.ask(script("Hi.")) == ["Hi."]


async def test_an_agent_that_does_not_start_is_refused_in_its_own_words_and_the_session_stays(tmp_path: Path) -> None:
    async with World(tmp_path, command=("/no/such/agent",)) as w:
        with pytest.raises(AgentError, match=r"command not found: '/no/such/agent' of agent 'demo'"):
            await w.gateway.start_agent("s")
        async with client_of(w.gateway, Settings(token=TOKEN)) as client:
            answer = await client.post("/v1/sessions/s/agent")
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:semel:problem:agent-refused")
            assert "command not found" in answer.json()["detail"]
        assert [one["key"] for one in await w.gateway.sessions()] == ["s"]
        await w.ask("hello")
        assert "command not found" in (await w.texts("s", "notice"))[0]


async def test_it_is_started_over_http_with_an_agent_and_a_folder(tmp_path: Path) -> None:
    async with World(tmp_path) as w, client_of(w.gateway, Settings(token=TOKEN)) as client:
        answer = await client.post("/v1/sessions/s/agent", json={"agent": "demo", "folder": str(tmp_path)})
        assert (answer.status_code, answer.json()["folder"]) == (200, str(tmp_path))
        assert answer.json()["modes"]["availableModes"]
        assert (await client.post("/v1/sessions/s/agent", json={"folder": str(tmp_path)})).status_code == 200
        other = await client.post("/v1/sessions/s/agent", json={"folder": str(w.work)})
        assert (other.status_code, other.json()["type"]) == (409, "urn:semel:problem:wrong-state")
        wrong = await client.post("/v1/sessions/x/agent", json={"agent": "nobody"})
        assert (wrong.status_code, "no agent is named" in wrong.json()["detail"]) == (400, True)


async def test_the_commands_that_it_lists_at_once_are_in_the_answer(world: GatewayHouse) -> None:
    world.agents["main"].first_updates = [{"kind": "available_commands_update", "availableCommands": COMMANDS}]
    assert (await world.gateway.start_agent("s"))["commands"] == COMMANDS


async def test_a_face_that_shows_commands_when_they_come_does_not_wait_for_them(
    world: GatewayHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_controls, "COMMANDS_TIMEOUT_S", 60.0)
    async with asyncio.timeout(30):
        assert "commands" not in await world.gateway.start_agent("s", awaits_commands=False)


async def test_what_it_tells_later_reaches_watchers_before_the_first_turn(world: GatewayHouse) -> None:
    await world.gateway.start_agent("s")
    conversation = world.agents["main"].conversations["s"]
    watch = world.gateway.watch("s")
    await anext(aiter(watch))
    conversation.update("available_commands_update", availableCommands=COMMANDS)
    conversation.update("current_mode_update", currentModeId="code")
    async for frame in watch:
        session = next(change for change in frame["changes"] if change["op"] == "session")
        if session.get("mode") == "code":
            assert session["commands"] == COMMANDS
            break


async def test_a_greeting_waits_for_the_first_turn_and_is_no_answer(world: GatewayHouse) -> None:
    greeting = {"type": "text", "text": "Welcome to the model."}
    world.agents["main"].first_updates = [{"kind": "agent_message_chunk", "content": greeting}]
    await world.gateway.start_agent("s")
    assert await world.entries() == []
    conversation = await world.begin("s")
    conversation.say("Hello.")
    conversation.end()
    await world.idle()
    assert [entry["text"] for entry in await world.entries() if entry["role"] == "agent"] == ["Hello."]
    items = (await world.gateway.history("s", 1 << 60))["items"]
    assert [(item["kind"], item["text"]) for item in items] == [("notice", "Welcome to the model.")]


async def test_a_session_of_an_agent_that_is_not_configured_any_more_says_so(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.make_session("s")
    world = World(tmp_path)
    demo = world.settings.agents["demo"]
    agents: dict[str, AgentSettings] = {"other": demo.model_copy(update={"name": "other"})}
    world.settings = world.settings.model_copy(update={"agents": agents, "default_agent": "other"})
    async with world as w:
        with pytest.raises(Conflict, match="'demo' is not configured any more"):
            await w.gateway.start_agent("s")


async def test_a_client_can_tell_that_nobody_is_logged_in_to_the_agent(tmp_path: Path) -> None:
    agent = Path(__file__).parents[1] / "agents/login_agent.py"
    async with World(tmp_path, command=(sys.executable, str(agent), "key")) as w:
        async with client_of(w.gateway, Settings(token=TOKEN)) as client:
            answer = await client.post("/v1/sessions/s/agent")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:semel:problem:agent-logged-out")
        assert "semel agents login demo" in answer.json()["detail"]
