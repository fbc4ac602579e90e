"""The first start of a ledger that was put back: what platforms tell again, what was due, what agents remember."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))
from gateway_world import World, script

from semel.gateway.errors import NoSuchSession
from semel.gateway.ports import Incoming, Person, Safety
from semel.gateway.settings import ChannelSettings
from semel.ledger.backup.snapshot import take_snapshot
from semel.ledger.inbound import schedules as rows
from semel.ledger.sqlite.store import now_ms
from semel.ledger.storage.rows import SessionRow
from semel.testing import FakeChannel, Platform

ANN = Person("ann", "Ann")


def world(path: Path, platform: Platform) -> World:
    path.mkdir(exist_ok=True)
    settings = ChannelSettings(name="chat", kind="fake", strangers="guest")
    channel = FakeChannel("chat", Safety.AT_MOST_ONCE, platform)
    return World(path, channels={"chat": channel}, channel_settings={"chat": settings}, default_agent="demo")


def put_back(source: World, target: Path) -> None:
    """A copy of a ledger in use, in a data directory of its own."""
    target.mkdir()
    take_snapshot(source.settings.ledger, target / "ledger.db", now_ms)


def message(key: str, text: str, at: float) -> Incoming:
    return Incoming("message", key, "room", ANN, text, at)


async def shown(platform: Platform, true: Any) -> None:
    async with asyncio.timeout(60):
        while not true(platform.shown("room")):  # noqa: ASYNC110 - what is waited for is plain state
            await asyncio.sleep(0.02)


async def until(w: World, session: str, true: Any) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(NoSuchSession):  # it is made by the first thing that is heard there
                found = await w.entries(session)
                if true(found):
                    return found
            await asyncio.sleep(0.02)


SESSION = "demo:chat:room"


async def test_what_a_platform_tells_again_is_recorded_and_not_answered_again(tmp_path: Path) -> None:
    platform = Platform()
    async with world(tmp_path / "a", platform) as w:
        chat = w.channels["chat"]
        await chat.tell(message("m1", script("one"), time.time()))
        await until(w, SESSION, lambda es: any(e["text"] == "one" and e["role"] == "agent" for e in es))
        put_back(w, tmp_path / "b")
        again = message("m2", script("two"), time.time())
        await chat.tell(again)
        await until(w, SESSION, lambda es: any(e["text"] == "two" and e["role"] == "agent" for e in es))
        await shown(platform, lambda texts: texts == ["one", "two"])
    async with world(tmp_path / "b", platform) as w:
        chat = w.channels["chat"]
        await chat.tell(again, message("m1", script("one"), time.time()))
        await chat.tell(message("m3", script("three"), time.time() + 5))
        found = await until(w, SESSION, lambda es: any(e["text"] == "three" and e["role"] == "agent" for e in es))
        said = [e["text"] for e in found if e["role"] == "agent"]
        assert said == ["one", "three"]
        assert [e["text"] for e in found if e["role"] == "user"] == [script("one"), script("two"), script("three")]
        await shown(platform, lambda texts: texts[-1] == "three")
    texts = platform.shown("room")
    assert [text for text in texts if "was restored to its state" not in text] == ["one", "two", "three"]
    assert len(texts) == 4


async def test_an_agent_begins_a_memory_of_its_own_and_is_told_what_the_record_has(tmp_path: Path) -> None:
    async with world(tmp_path / "a", Platform()) as w:
        await w.gateway.say("s", script("the first answer"), key="1")
        await until(w, "s", lambda es: any(e["role"] == "agent" for e in es))
        before = (await w.gateway.record.read(lambda tx: tx.one(SessionRow, "session_by_key", key="s"))).memory
        put_back(w, tmp_path / "b")
    async with world(tmp_path / "b", Platform()) as w:
        await w.gateway.say("s", script("second"), key="2")
        await until(w, "s", lambda es: any(e["text"] == "second" for e in es))
        row = await w.gateway.record.read(lambda tx: tx.one(SessionRow, "session_by_key", key="s"))
        assert row.memory not in (None, before)


@pytest.mark.parametrize("downtime", ["skip", "once", "all"])
async def test_what_was_due_between_copy_and_start_is_not_fired_on_a_guess(tmp_path: Path, downtime: str) -> None:
    async with world(tmp_path / "a", Platform()) as w:
        await w.gateway.schedules.add("tick", "[[script {}]]", session="s", cron="0 * * * *", downtime=downtime)
        hour_ago = now_ms() - 3 * 3600_000 - 60_000
        await w.gateway.record.write(
            lambda tx: tx.run("schedule_fired", id=1, due=hour_ago // 1000 * 1000, fired=None, event=None)
        )
        put_back(w, tmp_path / "b")
    async with world(tmp_path / "b", Platform()) as w:
        found = await until(w, "s", lambda es: any("may have happened" in e["text"] for e in es))
        assert [e for e in found if e["role"] == "event"] == []
        assert (await w.gateway.record.read(rows.get_json, "tick"))["next"] > now_ms()
