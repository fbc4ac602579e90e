"""MCP servers as a model's tools: named after their server, asked for, and gone with the conversation."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from model_world import Answer, McpSettings, ModelServer, ModelWorld, until

if TYPE_CHECKING:
    from semel.agents.model.mcp_trial import ServerTrial

SERVER = Path(__file__).parent / "mcp_server.py"


async def try_server(name: str, server: McpSettings, cwd: Path) -> ServerTrial:
    from semel.agents.model import mcp_trial  # here, as it is slow, and every worker of a run imports all tests

    [trial] = await mcp_trial.try_servers("main", {name: server}, cwd)
    return trial


@asynccontextmanager
async def over_http(path: Path) -> AsyncIterator[McpSettings]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(sys.executable, str(SERVER), str(port), stdout=null, stderr=null)

    async def listens() -> bool:
        assert process.returncode is None
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    try:
        await until(listens)
        yield McpSettings(url=f"http://127.0.0.1:{port}/mcp")
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def over_stdio(path: Path) -> AsyncIterator[McpSettings]:
    yield McpSettings(command=(sys.executable, str(SERVER)), env={"GIVEN": "yes"})


@pytest.mark.parametrize("connect", [over_stdio, over_http])
async def test_tools_of_a_server_are_called_and_shown(tmp_path: Path, connect: Any) -> None:
    answers = [
        Answer([], calls=[("num_add", {"a": 2, "b": 3}), ("num_fail", {"why": "no reason"})]),
        Answer(["Five."]),
    ]
    async with connect(tmp_path) as server, ModelServer(*answers) as api:
        mcp = {"num": server}
        async with ModelWorld(tmp_path, api, model={"mcp": mcp}) as w:
            assert await w.ask("Add") == ["Five."]
            told = [text for role, text in api.requests[1].talk if role == "result"]
            assert "5" in told[0]
            assert "Error executing tool fail" in told[1]
            items = await w.items("tool")
            assert [(one["title"], one["status"]) for one in items] == [("num_add", "done"), ("num_fail", "failed")]
            assert items[0]["input"] == {"a": 2, "b": 3}


async def test_a_server_is_asked_for_and_finds_none_of_our_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    answers = [Answer([], calls=[("num_environment", {})]), Answer(["Ok"])]
    async with over_stdio(tmp_path) as server, ModelServer(*answers) as api:
        mcp = {"num": server}
        async with ModelWorld(tmp_path, api, permissions="ask", model={"mcp": mcp}) as w:
            await w.gateway.say("s", "Go")
            item = await w.item("permission", state="open", title="num_environment")
            await w.gateway.controls.answer("s", item["id"], "allow", "me")
            await w.idle()
            [told] = [text for role, text in api.requests[1].talk if role == "result"]
            assert "GIVEN" in told
            assert "OPENAI_API_KEY" not in told


async def test_a_server_that_does_not_start_is_told_and_the_session_lives_on(tmp_path: Path) -> None:
    async with ModelServer(Answer(["Ok"])) as api:
        mcp = {"gone": McpSettings(command=("/nonexistent/server",))}
        async with ModelWorld(tmp_path, api, model={"mcp": mcp}) as w:
            await w.ask("Hi")
            [notice] = await w.texts("s", "notice")
            assert "the MCP server 'gone' of agent 'main' does not answer: command not found" in notice
            assert "semel agents check main" in notice
            assert api.requests == []


async def test_what_a_server_wrote_before_it_ended_is_told_without_its_secrets(tmp_path: Path) -> None:
    code = "import os, sys; print('starts', file=sys.stderr); raise KeyError(os.environ['TOKEN'])"
    broken = McpSettings(command=(sys.executable, "-c", code), env={"TOKEN": "a-secret-token"})
    async with ModelServer() as api, ModelWorld(tmp_path, api, model={"mcp": {"broken": broken}}) as w:
        await w.ask("Hi")
        [notice] = await w.texts("s", "notice")
        assert "; it wrote: KeyError: '(hidden)'. See [agents.main.mcp.broken]" in notice


async def test_a_url_that_refuses_is_tried_and_told_with_its_status(tmp_path: Path) -> None:
    async with ModelServer(*[Answer(status=401)] * 9) as api:
        trial = await try_server("web", McpSettings(url=f"{api.url}/mcp"), tmp_path)
    assert "(HTTP 401 Unauthorized): are its `headers` right? (correct [agents.main.mcp.web])" in trial.problem


async def test_a_server_that_stays_silent_is_tried_for_a_time_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.agents.model.mcp_servers.START_TIMEOUT_S", 0.5)
    started = tmp_path / "started"
    code = f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    mute = McpSettings(command=(sys.executable, "-c", code))
    trial = await try_server("mute", mute, tmp_path)
    assert trial.problem.startswith("the MCP server 'mute' cannot be used: it did not list its tools within 0.5 s")
    assert not started.exists() or not is_alive(int(started.read_text()))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
async def test_a_server_that_died_is_reached_anew_by_the_next_call_and_the_lost_one_is_not_made_again(
    tmp_path: Path,
) -> None:
    answers = [
        Answer([], calls=[("num_die", {}), ("num_add", {"a": 2, "b": 3})]),
        Answer(["Five."]),
        Answer([], calls=[("num_die", {})]),
        Answer(["Oh."]),
        Answer([], calls=[("num_add", {"a": 3, "b": 3})]),
        Answer(["Six."]),
    ]
    mcp = {"num": McpSettings(command=(sys.executable, str(SERVER)))}
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, model={"mcp": mcp}) as w:
        assert await w.ask("Try") == ["Five."]
        told = [text for role, text in api.requests[1].talk if role == "result"]
        assert told[0].startswith("Outcome unknown: the MCP server did not answer")
        assert told[1] == "5"
        await w.ask("Again")
        assert (await w.ask("And now"))[-1] == "Six."
        items = await w.items("tool")
        assert [(one["title"], one["status"]) for one in items] == [
            ("num_die", "failed"), ("num_add", "done"), ("num_die", "failed"), ("num_add", "done"),
        ]  # fmt: skip
        assert len(w.gateway.spawns.live) == 1, "the conversation lived on"


async def test_a_server_that_is_gone_for_good_is_told_to_the_model(tmp_path: Path) -> None:
    copy = tmp_path / "server.py"
    copy.write_text(SERVER.read_text())
    answers = [
        Answer([], calls=[("num_die", {})]),
        Answer(["Oh."]),
        Answer([], calls=[("num_add", {"a": 2, "b": 3})]),
        Answer(["It is gone."]),
    ]
    mcp = {"num": McpSettings(command=(sys.executable, str(copy)))}
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, model={"mcp": mcp}) as w:
        await w.ask("Try")
        copy.unlink()
        assert (await w.ask("Add"))[-1] == "It is gone."
        [*_, told] = [text for role, text in api.requests[-1].talk if role == "result"]
        assert told.startswith("Not done: the MCP server cannot be reached")
