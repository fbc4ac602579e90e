"""House: what a simple turn costs in commits, through a whole gateway with all that listens to it switched on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "model"))

from gateway_world import World, script
from model_world import Answer, ModelServer, ModelWorld

from semel.gateway.record import LedgerAccess
from semel.law.wake import MODES

WRITES = ["hear", "finish"]  # its turn begins in the transaction that hears it


class Written(list[str]):
    """The transactions of a gateway, by name, and how many commits they came in."""

    def __init__(self, world: World) -> None:
        self.store = world.gateway.store
        self.before = self.store.statistics()["commits"]

    async def count_commits(self) -> int:
        """Return the number of commits. A commit is seen by a reader before it is counted, but not by a later write."""
        await self.store.write(lambda tx: None)
        return int(self.store.statistics()["commits"]) - self.before - 1

    @property
    def shows(self) -> int:
        return self.count("show")

    @property
    def but_shows(self) -> list[str]:
        return [name for name in self if name != "show"]


Watch = Callable[[World], Awaitable[Written]]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Names what a gateway writes from now on."""

    async def start(world: World) -> Written:
        await world.gateway.record.write(lambda tx: None)  # what was begun before is not counted
        seen, write = Written(world), LedgerAccess.write

        async def noted(self: LedgerAccess, body: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            seen.append(body.__name__)
            return await write(self, body, *args, **kwargs)

        monkeypatch.setattr(LedgerAccess, "write", noted)
        return seen

    return start


@asynccontextmanager
async def acp(path: Path) -> AsyncIterator[World]:
    async with World(path, args=("--instant",)) as w:
        yield w


@asynccontextmanager
async def model(path: Path) -> AsyncIterator[World]:
    async with ModelServer(*(Answer("pong") for _ in range(20))) as api, ModelWorld(path, api) as w:
        yield w


async def test_a_turn_of_a_running_agent_is_two_commits(tmp_path: Path, watch: Watch) -> None:
    async with acp(tmp_path) as w:
        await w.ask("first")
        seen = await watch(w)
        await w.ask("second")
        assert seen == WRITES
        assert await seen.count_commits() == 2


async def test_a_turn_of_a_model_is_two_commits(tmp_path: Path, watch: Watch) -> None:
    async with model(tmp_path) as w:
        await w.ask("first")
        seen = await watch(w)
        await w.ask("second")
        assert seen.but_shows == WRITES
        assert await seen.count_commits() == 2 + seen.shows <= 3  # its text comes before its end: a batch shows it


@pytest.mark.parametrize("kind", [acp, model])
@pytest.mark.parametrize("busy", MODES)
async def test_a_busy_mode_costs_an_idle_session_no_commit(tmp_path: Path, watch: Watch, kind: Any, busy: str) -> None:
    async with kind(tmp_path) as w:
        await w.ask("first")
        seen = await watch(w)
        await w.ask("second", busy=busy)
        # `collect` lets it wait for more: it looks once too early, and begins when the wake is due
        assert seen.but_shows == (["hear", "begin", "begin", "finish"] if busy == "collect" else WRITES)


async def test_what_is_searched_and_what_a_job_reports_costs_a_turn_no_commit(tmp_path: Path, watch: Watch) -> None:
    async with acp(tmp_path) as w:
        await w.ask("first")
        await w.gateway.searches.find("first")
        seen = await watch(w)
        await w.gateway.report("s", "exec.finished", "it ended", key="r1:exec.finished", data={"exit": 0})
        await w.idle()
        found = await w.gateway.searches.find("ended")
        assert len(found["hits"]) == 1
        assert seen == WRITES
        assert await seen.count_commits() == 2


async def test_what_streams_adds_one_commit_for_each_batch(tmp_path: Path, watch: Watch) -> None:
    async with World(tmp_path) as w:
        await w.ask("first")
        seen = await watch(w)
        gate = tmp_path / "go on"
        asking = asyncio.create_task(w.ask(script("one ", {"wait": str(gate)}, "two")))
        while "show" not in seen:  # noqa: ASYNC110 - the test's own bound ends it
            await asyncio.sleep(0.01)
        gate.touch()
        await asyncio.wait_for(asking, 30)
        assert seen.but_shows == WRITES
        assert await seen.count_commits() == 2 + seen.shows
