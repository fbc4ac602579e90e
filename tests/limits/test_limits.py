"""A day's limit of turns, tokens or cost holds, is told before and when it bites, and loses no message."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from gateway_world import World, script, until
from people_world import ADA, BOB, Chat, said

from semel.gateway.settings import LimitSettings
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import SessionRow
from semel.ledger.turns.limits import LimitPolicy

USAGE = {"usage": {"totalTokens": 100, "inputTokens": 90, "outputTokens": 10}}


def limit(**scopes: Any) -> LimitSettings:
    return LimitSettings(**scopes)


def cost(amount: float) -> dict[str, Any]:
    update = {"sessionUpdate": "usage_update", "used": 1, "size": 10, "cost": {"amount": amount, "currency": "USD"}}
    return {"update": update}


async def lines(world: World) -> dict[tuple[str, str], dict[str, Any]]:
    today = await world.gateway.limits()
    return {(line["scope"], line["subject"]): line["used"] for line in today["limits"]}


async def notices(world: World, session: str, kind: str) -> list[str]:
    return [e["text"] for e in await world.entries(session) if e.get("kind") == kind]


async def told(world: World, session: str, count: int) -> bool:
    return len(await notices(world, session, "limit.waits")) == count


async def is_put_off(world: World, session: str) -> bool:
    """Whether the session's wake is due only at the end of the limit's day, after all that it has heard."""
    number = await world.gateway.record.find_session(session)
    row = await world.gateway.record.read(lambda tx: tx.get(SessionRow, "session_by_id", id=number))
    return row.wake_at is not None and row.wake_at > world.gateway.clock.now() + 1000


async def test_a_person_is_warned_stopped_and_answered_once_the_limit_is_raised(tmp_path: Path) -> None:
    async with Chat(tmp_path, limits=limit(person={"turns": 5})) as w:
        bob = "demo:chat:dm-b"
        await w.chat.tell(said("hello", ADA, "dm"))  # where the owner is told
        await w.idle("demo:chat:dm")
        for n in range(5):
            await w.chat.tell(said(f"message {n}", BOB, "dm-b"))
            await w.idle(bob)
        assert await notices(w, bob, "limit.near") == [
            "Today's limit of 5 turns for bob is nearly used up: 4 turns so far."
        ]
        (used,) = await notices(w, bob, "limit.used")
        assert used.startswith("Today's limit of 5 turns for bob is used up. Further messages wait until ")
        assert len(await notices(w, "demo:chat:dm", "limit.near")) == 1
        assert await notices(w, "demo:chat:dm", "limit.used") == [used]
        await w.chat.tell(said("one too many", BOB, "dm-b"))
        await until(lambda: told(w, bob, 1))
        await w.chat.tell(said("and another", BOB, "dm-b"))
        await until(lambda: is_put_off(w, bob))
        await w.sent()
        shown = w.chat.platform.shown("dm-b")
        words = "The message waits, and so do further ones: today's limit of 5 turns for bob is used up"
        assert sum(words in text for text in shown) == 1, "once, however many messages wait"
        assert not any("one too many" in text for text in await w.texts(bob, "agent"))
        await w.chat.tell(said("the owner goes on", ADA, "dm"))
        await w.idle("demo:chat:dm")
        (waiting,) = (await w.gateway.limits())["waiting"]
        assert (waiting["session"], waiting["subject"], waiting["measure"]) == (bob, "bob", "turns")
    async with Chat(tmp_path, limits=limit(person={"turns": 5})) as w:  # a restart alone changes and repeats nothing
        await w.gateway.say("page", "hello")
        await w.idle("page")
        assert len(await notices(w, bob, "limit.waits")) == 1
        assert (await lines(w))["person", "bob"]["turns"] == 5
    async with Chat(tmp_path, limits=limit(person={"turns": 6})) as w:
        await w.idle(bob)
        answers = await w.texts(bob, "agent")
        assert "one too many" in answers[-1] or "and another" in answers[-1]
        assert (await w.gateway.limits())["waiting"] == []


async def test_a_message_that_waits_is_answered_once_no_limit_is_configured_any_more(tmp_path: Path) -> None:
    async with World(tmp_path, limits=limit(all={"turns": 1})) as w:
        await w.ask("say: one")
        await w.gateway.say("s", "say: two")
        await until(lambda: told(w, "s", 1))
        await until(lambda: is_put_off(w, "s"))
        assert not await w.gateway.controls.stop_turn("s", "Ada"), "no turn is about to begin"
        await w.gateway.say("s", "/stop")
        await until(lambda: is_stop_answered(w))
    async with World(tmp_path) as w:
        await w.idle("s")
        assert await w.texts("s", "agent") == ["one", "two"], "the stop was for nothing"
        assert (await w.gateway.limits())["waiting"] == []
        assert (await lines(w))["all", ""]["turns"] == 2


async def is_stop_answered(world: World) -> bool:
    replies = await notices(world, "s", "command")
    words = r"Nothing runs here\. What waits is answered after .* UTC, or when the owner raises the limit\."
    return any(re.fullmatch(words, reply) for reply in replies)


def test_a_day_is_remembered_until_it_ends_and_not_when_the_clock_is_set_back() -> None:
    policy = LimitPolicy(zone=ZoneInfo("Europe/Berlin"))
    at = {
        hour: int(datetime.fromisoformat(f"2026-{hour}+02:00").timestamp() * 1000)
        for hour in ("07-01T12:00", "07-01T23:59", "07-02T00:00", "06-30T08:00")
    }
    midnight = at["07-02T00:00"]
    assert policy.find_day(at["07-01T12:00"]) == ("2026-07-01", midnight)
    assert policy.find_day(at["07-01T23:59"]) == ("2026-07-01", midnight)
    assert policy.find_day(midnight)[0] == "2026-07-02"
    assert policy.find_day(at["06-30T08:00"])[0] == "2026-06-30"
    assert policy.find_day(at["07-01T12:00"])[0] == "2026-07-01"


async def test_tokens_and_cost_are_counted_as_agents_report_them(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script(cost(0.25), "one", meta=USAGE), sender="Ada")
        await w.ask(script(cost(0.75), "two", meta=USAGE))
        ends = [entry["ended"] for entry in await w.entries() if entry.get("ended")]
        assert [(end["tokens"], end["cost"]) for end in ends] == [(100, 0.25), (100, 0.5)]
        assert (await w.gateway.session("s"))["cost"] == 0.75
        await w.ask(script("three"))  # the agent reports nothing
        today = await w.gateway.limits()
        by_scope = {(line["scope"], line["subject"]): line for line in today["limits"]}
        assert by_scope.keys() == {("all", ""), ("person", "owner"), ("session", "s")}
        for line in by_scope.values():
            assert line["used"] == {"turns": 3, "tokens": 200, "cost": 0.75}
            assert line["unreported"] == 1
            assert line["most"] == {"turns": None, "tokens": None, "cost": None}
        await w.gateway.new_chapter("s", "Ada")
        await w.ask(script(cost(0.10), "a new conversation counts from nothing"))
        assert (await lines(w))["all", ""]["cost"] == pytest.approx(0.85)


@pytest.mark.parametrize(
    ("scopes", "words"),
    [
        ({"session": {"tokens": 150}}, "today's limit of 150 tokens for the session s is used up"),
        ({"all": {"tokens": 150}}, "today's limit of 150 tokens for everybody together is used up"),
        ({"all": {"cost": 0.5}}, "today's limit of a cost of 0.50 for everybody together is used up"),
    ],
)
async def test_limits_of_tokens_and_cost_hold(tmp_path: Path, scopes: Any, words: str) -> None:
    async with World(tmp_path, limits=limit(**scopes)) as w:
        for n in (1, 2):
            await w.ask(script(cost(0.3 * n), f"answer {n}", meta=USAGE))
        await w.gateway.say("s", "above it")
        await until(lambda: told(w, "s", 1))
        assert words in (await notices(w, "s", "limit.waits"))[0]
        assert len(await w.texts("s", "agent")) == 2


async def test_sessions_at_once_pass_a_limit_of_turns_by_none(tmp_path: Path) -> None:
    async with World(tmp_path, limits=limit(all={"turns": 3}), max_live_agents=8) as w:
        sessions = [f"s{n}" for n in range(8)]
        await asyncio.gather(*(w.gateway.say(session, "say: hello") for session in sessions))

        async def settled() -> bool:
            found = [bool(await w.texts(s, "agent") or await notices(w, s, "limit.waits")) for s in sessions]
            return all(found)

        await until(settled)
        answered = [s for s in sessions if await w.texts(s, "agent")]
        assert len(answered) == 3
        assert len((await w.gateway.limits())["waiting"]) == 5
        assert (await lines(w))["all", ""]["turns"] == 3


async def test_a_message_that_would_join_a_turn_waits_if_a_limit_is_used_up(tmp_path: Path) -> None:
    async with World(tmp_path, limits=limit(all={"turns": 1})) as w:
        gate = tmp_path / "go"
        await w.gateway.say("s", script({"wait": str(gate)}, "the first answer"))
        await until(lambda: runs(w))
        await w.gateway.say("s", "say: no steering past a limit", busy="steer")
        gate.touch()
        await until(lambda: told(w, "s", 1))
        assert await w.texts("s", "agent") == ["the first answer"]


async def runs(world: World) -> bool:
    return any(run.was_prompted for run in world.gateway.turns.runs.values())


async def test_what_waits_is_answered_when_the_day_ends_in_its_own_time_zone(tmp_path: Path) -> None:
    """The ledger's clock is set: 23:00 in Berlin, a millisecond before midnight, midnight."""
    at = [1_795_644_000_000]  # 2026-11-25 22:00 UTC
    world = World(tmp_path, limits=limit(tz="Europe/Berlin", person={"turns": 1}))
    open_store = Store.open

    def open_at(path: Path, **more: Any) -> Store:
        return open_store(path, clock=lambda: at[0], **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "open", staticmethod(open_at))
        await world.start()
    try:
        await world.ask("say: one")
        await world.gateway.say("s", "say: two")
        await until(lambda: told(world, "s", 1))
        assert "after 2026-11-26 00:00 Europe/Berlin" in (await notices(world, "s", "limit.waits"))[0]
        (waiting,) = (await world.gateway.limits())["waiting"]
        assert waiting["until"] == 1_795_647_600_000
        at[0] = waiting["until"] - 1
        world.gateway.turns.wake(1)
        await asyncio.sleep(0.1)
        assert await world.texts("s", "agent") == ["one"]
        at[0] += 1
        world.gateway.turns.wake(1)
        await world.idle("s")
        assert await world.texts("s", "agent") == ["one", "two"]
        await world.balanced()
    finally:
        await world.stop()
