"""Law 9 and 10 for jobs: one call is one job, however it comes; a call that is not the turn's own starts nothing."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, record_tokens, script, until

from semel.gateway.errors import BadRequest
from semel.gateway.ports import CannotBegin, Job, Orphan
from semel.gateway.settings import BackgroundSettings

Json = dict[str, Any]


class Port:
    """Starts nothing, and notes what it was asked to. `hold` lets a start take its time."""

    def __init__(self) -> None:
        self.begun: list[Job] = []
        self.cancelled: list[tuple[str, str]] = []
        self.reached = False
        self.hold = threading.Event()
        self.hold.set()
        self.problem = ""

    def begin(self, job: Job, ended: Callable[[], None]) -> None:
        self.reached = True
        assert self.hold.wait(30)
        if self.problem:
            raise CannotBegin(self.problem)
        self.begun.append(job)

    def cancel(self, id: str, by: str) -> bool:
        self.cancelled.append((id, by))
        return True

    def present(self) -> set[str]:
        return {job.id for job in self.begun}

    def orphans(self) -> list[Orphan]:
        return []


class Bench:
    """A gateway whose agent is in a turn, the token of its process, and the port."""

    def __init__(self, world: World, token: str, port: Port, begun: Path) -> None:
        self.world = world
        self.token = token
        self.port = port
        self.begun = begun

    async def call(self, name: str = "run_in_background", conn: str = "c1", **more: Any) -> Json:
        arguments = more.pop("arguments", {"command": "make"})
        params = {"token": self.token, "conn": conn, "call": secrets.token_hex(8), "name": name, "meta": {}}
        return await self.world.gateway.tools("call", {**params, "arguments": arguments, **more})

    async def finish(self, job: str) -> None:
        """The report of its end."""
        await self.world.gateway.report("s", "exec.finished", "it ended", key=f"{job}:exec.finished", data={"exit": 0})


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    tokens = record_tokens(monkeypatch)
    async with World(tmp_path, background=BackgroundSettings(jobs=3, all=3)) as w:
        port = w.gateway.jobs.port = Port()
        begun = tmp_path / "begun"
        await w.gateway.say("s", script({"touch": str(begun)}, {"hang": True}))
        await until(_exists(begun))
        for live in w.gateway.spawns.live.values():
            live.announces = False  # these calls come from here, so its stream does not tell of them
        yield Bench(w, tokens[0], port, begun)
        port.hold.set()
        await w.gateway.controls.stop_turn("s", "the test")
        for job in await w.gateway.jobs_of():
            await w.gateway.report("s", "exec.finished", "it ended", key=f"{job['id']}:exec.finished")
        await w.idle()


def _exists(path: Path) -> Any:
    async def there() -> bool:
        return path.exists()

    return there


async def test_the_same_call_id_is_one_job_and_each_answer_waits_for_its_start(bench: Bench) -> None:
    bench.port.hold.clear()
    calls = [asyncio.create_task(bench.call(call="same")) for _ in range(4)]
    await until(_reached(bench.port))
    assert not [one for one in calls if one.done()]
    bench.port.hold.set()
    answers = await asyncio.gather(*calls)
    assert len(bench.port.begun) == 1
    assert {one["data"]["id"] for one in answers} == {bench.port.begun[0].id}
    with pytest.raises(BadRequest, match="give each tools/call an id of its own"):
        await bench.call(call="same", arguments={"command": "another"})


async def test_equal_calls_of_one_connection_are_jobs_of_their_own(bench: Bench) -> None:
    one, other = await bench.call(), await bench.call()
    assert one["data"]["id"] != other["data"]["id"] and len(bench.port.begun) == 2


async def test_a_call_that_a_later_connection_issues_again_is_the_same_job(bench: Bench) -> None:
    first = await bench.call(call="lost")  # never answered: its tool server died
    again = await bench.call(conn="c2", call="again")
    assert again["data"]["id"] == first["data"]["id"] and len(bench.port.begun) == 1
    await bench.world.gateway.tools("answered", {"token": bench.token, "call": "again"})
    assert (await bench.call(call="lost"))["data"]["id"] == first["data"]["id"]  # a late repeat of the first
    fresh = await bench.call(conn="c3")  # all that were asked before were answered
    assert fresh["data"]["id"] != first["data"]["id"] and len(bench.port.begun) == 2


async def test_a_repeat_after_the_end_is_told_how_it_ended_and_starts_nothing(bench: Bench) -> None:
    first = await bench.call(call="same")
    await bench.finish(first["data"]["id"])
    again = await bench.call(call="same")
    assert again["text"] == f"started before as {first['data']['id']}, and over: it ended with exit code 0."
    await bench.world.gateway.controls.stop_turn("s", "me")
    await bench.world.idle()
    assert (await bench.call(call="same"))["text"] == again["text"]  # what happened does not become a refusal later
    assert len(bench.port.begun) == 1


async def test_a_refusal_stays_one_when_its_call_comes_again(bench: Bench) -> None:
    for n in range(3):
        await bench.call(arguments={"command": f"make {n}"})
    refused = await bench.call(call="fourth")
    assert not refused["ok"] and "3 jobs of this conversation already run" in refused["text"]
    await bench.finish(bench.port.begun[0].id)
    assert await bench.call(call="fourth") == refused
    assert (await bench.call(call="fifth"))["ok"]


async def test_after_the_turn_was_stopped_nothing_is_started_and_that_is_recorded(bench: Bench) -> None:
    await bench.world.gateway.controls.stop_turn("s", "me")
    await bench.world.idle()
    answer = await bench.call()
    assert not answer["ok"] and "its turn was cancelled. Nothing was started." in answer["text"]
    assert bench.port.begun == []
    assert (
        'Held back "run in background: make": its turn was cancelled. Tell the agent if you still want it.'
        in await bench.world.texts("s", "notice")
    )


async def test_after_the_turn_was_over_nothing_is_started_and_that_is_recorded(bench: Bench) -> None:
    await bench.world.gateway.controls.stop_turn("s", "me")
    await bench.world.ask(script("done"))
    answer = await bench.call()
    assert not answer["ok"] and "its turn is over" in answer["text"] and bench.port.begun == []
    assert any("its turn is over" in text for text in await bench.world.texts("s", "notice"))


async def test_a_dead_process_starts_and_cancels_nothing(bench: Bench) -> None:
    job = (await bench.call())["data"]["id"]
    await bench.world.gateway.controls.stop_turn("s", "me")
    await bench.world.idle()
    for live in list(bench.world.gateway.spawns.live.values()):
        await bench.world.gateway.spawns.drop(live, "test")
    assert "already ended" in (await bench.call())["text"]
    assert "already ended" in (await bench.call("cancel_background", arguments={"id": job}))["text"]
    assert len(bench.port.begun) == 1 and bench.port.cancelled == []


async def test_what_cannot_be_started_is_answered_and_takes_no_place(bench: Bench) -> None:
    bench.port.problem = "the spool cannot be written: No space left on device"
    for n in range(5):
        answer = await bench.call(call=f"{n}")
        assert not answer["ok"]
        assert answer["text"] == f"not started: {bench.port.problem}. Nothing runs."
    assert (await bench.call(call="0"))["text"] == answer["text"]
    bench.port.problem = ""
    assert (await bench.call())["ok"]
    jobs = await bench.world.gateway.jobs_of("s")
    assert sorted(job["state"] for job in jobs) == ["asked"] + ["failed"] * 5
    for job in jobs:
        told = {"asked": "it is to be started; no report", "failed": "it could not be started: the spool cannot be"}
        story = await bench.world.gateway.why(job["id"])
        assert (story["kind"], story["ref"]) == ("job", job["id"]) and told[job["state"]] in story["lines"][-1]["text"]


async def test_cancelling_twice_names_who_was_first(bench: Bench) -> None:
    job = (await bench.call())["data"]["id"]
    by_ann = asyncio.create_task(bench.world.gateway.jobs.cancel(job, "Ann"))
    by_agent = asyncio.create_task(_when(bench, lambda: bool(bench.port.cancelled), "cancel_background", job))
    await until(_told(bench.port, 2))
    await bench.finish(job)
    assert (await by_ann)["cancelled_by"] == "Ann"
    assert (await by_agent)["text"].endswith("cancelled by Ann; Ann had cancelled it before.")
    assert bench.port.cancelled == [(job, "Ann"), (job, "Ann")]


async def _when(bench: Bench, true: Callable[[], bool], name: str, job: str) -> Json:
    async def now() -> bool:
        return true()

    await until(now)
    return await bench.call(name, arguments={"id": job})


def _reached(port: Port) -> Any:
    async def there() -> bool:
        return port.reached

    return there


def _told(port: Port, count: int) -> Any:
    async def so_often() -> bool:
        return len(port.cancelled) >= count

    return so_often


@pytest.mark.parametrize("settings", [BackgroundSettings(jobs=0), BackgroundSettings(all=0), None])
async def test_where_none_may_run_the_tool_says_so(bench: Bench, settings: BackgroundSettings | None) -> None:
    if settings is None:
        bench.world.gateway.jobs.port = None
    else:
        bench.world.gateway.jobs.settings = settings
    answer = await bench.call()
    assert not answer["ok"] and "runs no commands in the background" in answer["text"] and bench.port.begun == []


async def test_an_end_that_somebody_else_reports_ends_no_job(bench: Bench) -> None:
    job = (await bench.call())["data"]["id"]
    report = bench.world.gateway.report
    await report("s", "exec.finished", "x", key=f"{job}:exec.finished", source="node:ci", wakes=False)
    await report("t", "exec.finished", "x", key=f"{job}:exec.finished", wakes=False)
    await report("s", "exec.finished", "x", key=f"{job}:other", wakes=False)
    assert [one["id"] for one in await bench.world.gateway.jobs_of()] == [job]
