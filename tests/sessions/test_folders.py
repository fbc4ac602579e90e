"""A session may have a folder of its own: its agent works there, and clients find the session by it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

sys.path.append(str(Path(__file__).parents[1] / "gateway"))
sys.path.append(str(Path(__file__).parents[1] / "http"))

from gateway_world import World, script, until
from http_house import TOKEN, client_of

from semel.faces.http import Settings
from semel.gateway.errors import BadRequest, Conflict
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.testing import FakeChannel
from semel.tools.exec.background import JobEnvironment, SupervisorRunner

Json = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "garden"
    place.mkdir()
    (place / "plan.txt").write_text("beans")
    return place


async def test_the_agent_of_a_session_works_in_its_folder_and_sends_files_from_there(
    tmp_path: Path, folder: Path
) -> None:
    """After a restart of its process, too; a session without a folder has the agent's own."""
    chat = FakeChannel("chat", Safety.IDEMPOTENT, files=True)
    settings = {"chat": ChannelSettings(name="chat", kind="fake")}
    async with World(tmp_path, channels={"chat": chat}, channel_settings=settings) as w:
        key = "demo:chat:7"
        await w.gateway.make_session(key, folder=str(folder))
        send = {"call": "send_file", "arguments": {"path": "plan.txt"}}
        touch = {"touch": "here"}
        await w.ask(script(send, touch, "Sent."), key)
        files = [file["name"] for entry in await w.entries(key) for file in entry.get("files", ())]
        assert files == ["plan.txt"]
        assert (folder / "here").exists()
        await w.gateway.spawns.end(1, "a test")
        await w.ask(script({"touch": "again"}, "Yes."), key)
        assert (folder / "again").exists()
        await w.ask(script({"touch": "elsewhere"}, "Yes."), "demo:web:x")
        assert (w.work / "elsewhere").exists()


async def test_a_file_in_a_prompt_is_copied_into_the_sessions_folder(tmp_path: Path, folder: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.make_session("s", folder=str(folder))
        image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
        await w.gateway.say("s", blocks=[{"type": "text", "text": script("Seen.")}, image])
        await w.idle()
        (copy,) = (folder / ".semel/received").glob("*image.png")
        assert copy.read_bytes() == b"hello"


async def test_a_background_job_runs_in_the_sessions_folder(folder: Path, tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        environment = JobEnvironment(w.work, {"PATH": os.environ["PATH"]})
        w.gateway.jobs.port = SupervisorRunner(tmp_path, {"demo": environment})
        await w.gateway.make_session("s", folder=str(folder))
        call = {"call": "run_in_background", "arguments": {"command": "pwd > where; mv where there"}}
        await w.ask(script(call, "Started."))

        async def ran() -> bool:
            return (folder / "there").exists()

        await until(ran)
        assert (folder / "there").read_text().strip() == str(folder)


async def test_making_a_session_again_changes_nothing_and_its_folder_never_changes(
    tmp_path: Path, folder: Path
) -> None:
    async with World(tmp_path) as w:
        made, is_new = await w.gateway.make_session("s", folder=f"{folder}/./")
        assert (made["folder"], made["agent"], made["state"], made["seq"], is_new) == (
            str(folder), "demo", "idle", 0, True,
        )  # fmt: skip
        again, is_new = await w.gateway.make_session("s", agent="demo", folder=str(folder))
        assert (again, is_new) == (made, False)
        assert await w.gateway.make_session("s") == (made, False), "what is not named is not compared"
        own = w.gateway.settings.agents["demo"].cwd
        plain, _ = await w.gateway.make_session("other")
        assert (made["workspace"], plain["workspace"]) == (str(folder), str(own)) and "folder" not in plain
        assert [one["workspace"] for one in await w.gateway.sessions()] == [str(own), str(folder)]
        with pytest.raises(Conflict, match=f"its folder is {folder}"):
            await w.gateway.make_session("s", folder=str(tmp_path))
        await w.gateway.say("plain", "hi")
        with pytest.raises(Conflict, match="own folder of its agent"):
            await w.gateway.make_session("plain", folder=str(folder))


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("folder", "garden", "not an absolute path"),
        ("folder", "/no/such/place", "not a directory on the gateway's machine"),
        ("folder", __file__, "not a directory"),
        ("folder", "/a\0b", "not an absolute path"),
        ("agent", "nobody", "no agent is named 'nobody'; there are: demo"),
    ],
)
async def test_a_wrong_folder_or_agent_is_refused_in_words(tmp_path: Path, field: str, value: str, reason: str) -> None:
    async with World(tmp_path) as w:
        with pytest.raises(BadRequest, match=reason):
            await w.gateway.make_session("s", **{field: value})  # type: ignore[arg-type]
        assert await w.gateway.sessions() == []


async def test_a_folder_that_is_gone_fails_the_turn_in_words(tmp_path: Path, folder: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.make_session("s", folder=str(folder))
        (folder / "plan.txt").unlink()
        folder.rmdir()
        await w.ask("hello")
        (notice,) = await w.texts("s", "notice")
        assert f"is not a directory: {folder}" in notice


async def test_a_deleted_session_has_no_folder_any_more(tmp_path: Path, folder: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.make_session("s", folder=str(folder))
        await w.gateway.delete("s")
        assert await w.gateway.sessions(folder=str(folder)) == []
        made, is_new = await w.gateway.make_session("s")
        assert is_new and "folder" not in made


async def test_sessions_are_made_and_listed_by_folder_over_http(tmp_path: Path, folder: Path) -> None:
    async with World(tmp_path) as w, client_of(w.gateway, Settings(token=TOKEN)) as client:
        for key in ("a", "b", "c"):
            answer = await client.put(f"/v1/sessions/{key}", json={"folder": str(folder)})
            assert (answer.status_code, answer.json()["folder"]) == (201, str(folder))
        assert (await client.put("/v1/sessions/a", json={"folder": str(folder)})).status_code == 200
        assert (await client.put("/v1/sessions/d")).status_code == 201
        refused = await client.put("/v1/sessions/d", json={"folder": str(folder)})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:semel:problem:wrong-state")
        await client.patch("/v1/sessions/b", json={"archived": True})

        assert await keys(client, folder=f"{folder}/") == ["c", "a"]
        assert await keys(client, folder=str(folder), archived=1) == ["b"]
        assert await keys(client, folder="/elsewhere") == []
        page = (await client.get("/v1/sessions", params={"folder": str(folder), "limit": 1})).json()
        assert ([one["key"] for one in page["sessions"]], page["more"]) == (["c"], True)
        assert await keys(client, folder=str(folder), after=page["next"]) == ["a"]


async def keys(client: httpx2.AsyncClient, **query: Any) -> list[str]:
    return [one["key"] for one in (await client.get("/v1/sessions", params=query)).json()["sessions"]]
