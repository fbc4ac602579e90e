"""Schedules on a running gateway: each firing is heard once, whatever happens to the gateway or its clock."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from schedule_world import World, every_day, job, moment, until

from semel.faces.transcript import format_timestamp, list_remarks, speaker
from semel.ledger.admin.overdue import list_overdue
from semel.ledger.sqlite.store import Store
from semel.testing import FrozenClock
from semel.timing.late_reports import read_late_due


def at(text: str) -> FrozenClock:
    return FrozenClock(moment(text))


async def test_a_firing_is_an_event_that_becomes_a_turn(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=every_day(job("Watered."))) as world:
        [made] = await world.gateway.schedules.list()
        assert made["next"] == moment("2026-03-01 09:00")
        assert made["last"] is None
        await world.advance_to("2026-03-01 09:00")
        await world.idle()

        [event] = await world.entries("s", "event")
        assert event["kind"] == "schedule"
        assert event["data"]["due"] == "2026-03-01T09:00:00Z"
        assert await world.texts("s", "agent") == ["Watered."]
        [prompt] = world.prompts()
        assert prompt.startswith("[semel: schedule daily is due (2026-03-01T09:00:00Z); do what it asks]")
        story = await world.gateway.why("2026-03-01T09:00:00Z")
        assert "schedule:daily" in str(story)
        [shown] = await world.gateway.schedules.list("s")
        assert shown["next"] == moment("2026-03-02 09:00")
        [turn] = await world.turns()
        due = moment("2026-03-01 09:00")
        assert shown["last"] == {"due": due, "ran": due, "event": event["event"], "turn": turn, "state": "done"}


async def test_a_firing_that_a_person_asks_for_is_one_more_and_moves_nothing(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=every_day(job("Watered."))) as world:
        await world.gateway.schedules.run_now("daily")
        await world.idle()
        assert (await world.gateway.schedules.show("daily"))["last"]["by"] == "the owner"
        [event] = await world.entries("s", "event")
        assert speaker(event) == "schedule from the owner" and list_remarks(event) == []
        [prompt] = world.prompts()
        assert prompt.startswith("[semel: schedule daily is run by the owner (2026-03-01T08:00:00Z); do what it asks]")
        await world.gateway.schedules.pause("daily")
        await world.advance_to("2026-03-01 08:30")
        assert (await world.gateway.schedules.run_now("daily"))["enabled"] is False
        await world.idle()
        resumed = await world.gateway.schedules.resume("daily")
        assert resumed["next"] == moment("2026-03-01 09:00")
        await world.advance_to("2026-03-01 09:00")
        await world.idle()
        dues = [e["data"]["due"] for e in await world.entries("s", "event")]
        assert dues == ["2026-03-01T08:00:00Z", "2026-03-01T08:30:00Z", "2026-03-01T09:00:00Z"]
        assert "by" not in (await world.gateway.schedules.show("daily"))["last"]
        assert len(set(await world.turns())) == 3


async def test_what_a_person_runs_twice_within_a_second_fires_twice_and_a_repeated_request_once(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=every_day(job("Watered."))) as world:
        run = world.gateway.schedules.run_now
        for key in (None, None, "k1", "k1"):
            await run("daily", key)
        await world.advance_to("2026-03-01 09:00")
        await run("daily", None)  # in the second in which it is due by itself
        await world.idle()
        events = [await world.gateway.schedules.show("daily"), *await world.entries("s", "event")]
        assert len(events[1:]) == 5
        assert (await run("daily", "k1"))["last"] == events[0]["last"], "a repeat changes nothing"


async def test_a_change_that_leaves_the_times_alone_leaves_the_next_firing_alone(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00")) as world:
        schedules = world.gateway.schedules
        made = await schedules.add("tide", "Look.", session="s", every="3h")
        await world.advance_to("2026-03-01 09:00")
        changed = await schedules.add("tide", "Look!", session="s", every="3h", downtime="skip", replace=True)
        assert changed["next"] == made["next"] == moment("2026-03-01 11:00")
        await world.advance_to("2026-03-01 11:00")
        assert (await schedules.show("tide"))["next"] == moment("2026-03-01 14:00")
        faster = await schedules.add("tide", "Look!", session="s", every="1h", replace=True)
        assert faster["next"] == moment("2026-03-01 12:00")


async def test_it_fires_day_after_day_and_through_the_change_of_the_clocks(tmp_path: Path) -> None:
    told = every_day(job("."), cron="30 2 * * *", tz="Europe/Berlin")
    async with World(tmp_path, at("2026-03-27 12:00"), schedules=told) as world:
        await world.advance_to("2026-03-31 00:00")
        dues = [e["data"]["due"] for e in await world.entries("s", "event")]
        assert dues == ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        await world.idle()


async def test_a_failed_firing_does_not_end_the_series(tmp_path: Path) -> None:
    failing = job({"error": {"code": -32000, "message": "no model today"}})
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=every_day(failing)) as world:
        for day in (1, 2, 3):
            await world.advance_to(f"2026-03-0{day} 09:00")
            await world.idle()
            [shown] = await world.gateway.schedules.list()
            assert shown["last"]["due"] == moment(f"2026-03-0{day} 09:00")
        assert len(set(await world.turns())) == 3
        assert len(await world.entries("s", "notice")) == 3


async def test_a_schedule_without_a_session_has_its_own_without_a_home(tmp_path: Path) -> None:
    told = every_day(job("All is well."), session=None)
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=told) as world:
        await world.advance_to("2026-03-01 09:00")
        await world.idle("schedule:daily")
        assert await world.texts("schedule:daily", "agent") == ["All is well."]
        [session] = await world.gateway.sessions()
        assert session["home"] is None
        assert session["agent"] == "demo"


async def test_a_permission_that_nobody_can_see_is_denied_at_once(tmp_path: Path) -> None:
    asks = job({"permission": "Delete it?", "allowed": ["deleted"], "denied": ["left alone"]})
    told = every_day(asks, session=None)
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=told) as world:
        await world.advance_to("2026-03-01 09:00")
        await world.idle("schedule:daily")
        assert await world.texts("schedule:daily", "agent") == ["left alone"]
        items = (await world.gateway.history("schedule:daily", 1 << 40))["items"]
        [item] = [i for i in items if i["kind"] == "permission"]
        assert (item["state"], item["by"]) == ("answered", "nobody could see it")


async def test_a_permission_that_somebody_watches_is_asked(tmp_path: Path) -> None:
    asks = job({"permission": "Delete it?", "allowed": ["deleted"], "denied": ["left alone"]})
    async with World(tmp_path, at("2026-03-01 08:00")) as world:
        await world.gateway.schedules.add("x", job("first"), at="2026-03-01 08:01")
        await world.gateway.schedules.add("y", asks, at="2026-03-01 08:02", session="schedule:x")
        await world.advance_to("2026-03-01 08:01")
        await world.idle("schedule:x")
        watching = world.gateway.watch("schedule:x")
        assert (await anext(watching))["type"] == "snapshot"
        await world.advance_to("2026-03-01 08:02", settle=False)
        items: dict[int, dict[str, object]] = {}
        while not items:
            told = await anext(watching)
            items = {c["id"]: c for c in told["changes"] if c["op"] == "item" and c["kind"] == "permission"}
        [(number, item)] = items.items()
        assert item["state"] == "open"
        yes = next(o["optionId"] for o in item["options"] if o["kind"] == "allow_once")  # type: ignore[attr-defined]
        assert await world.gateway.controls.answer("schedule:x", number, yes, "Ann") == "answered"
        await world.idle("schedule:x")
        assert (await world.texts("schedule:x", "agent"))[-1] == "deleted"
        await watching.aclose()  # type: ignore[attr-defined]


# ---------------------------------------------------------------- down-time


async def missed(path: Path, downtime: str, spec: str, start: str, end: str) -> World:
    """A gateway that ran at `start`, and not again before `end`."""
    told = every_day(job("."), cron=spec, downtime=downtime)
    async with World(path, at(start), schedules=told):
        pass
    return World(path, at(end), schedules=told)


def list_overdue_firings(path: Path, now: str) -> list[str]:
    store = Store.open(path / "ledger.db", readonly=True, clock=lambda: moment(now))
    try:
        return [firing.text for firing in store.read_sync(list_overdue)]
    finally:
        store.close()


@pytest.mark.parametrize(("downtime", "fate"), [("skip", "it is skipped"), ("once", "it runs"), ("all", "it runs")])
async def test_what_is_said_of_an_overdue_one_shot_is_what_the_start_does(
    tmp_path: Path, downtime: str, fate: str
) -> None:
    once = every_day(job("."), at="2026-03-01 09:00", downtime=downtime)
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=once):
        pass
    assert list_overdue_firings(tmp_path, "2026-03-01 09:00") == [], "it may still be fired in time"
    [overdue] = list_overdue_firings(tmp_path, "2026-03-03 12:00")
    assert f"when a gateway starts, {fate}" in overdue
    async with World(tmp_path, at("2026-03-03 12:00"), schedules=once) as world:
        await world.asleep()
        await world.idle()
        assert bool(await world.entries("s", "event")) == (fate == "it runs")


async def test_an_overdue_firing_of_a_restored_ledger_is_said_not_to_run(tmp_path: Path) -> None:
    await missed(tmp_path, "once", "0 9 * * *", "2026-03-01 08:00", "2026-03-03 12:00")
    with apsw.Connection(str(tmp_path / "ledger.db")) as db:
        db.execute("UPDATE ledger SET copied = 1")
    [overdue] = list_overdue_firings(tmp_path, "2026-03-03 12:00")
    assert "it does not run, since it may have run before the ledger was restored" in overdue


@pytest.mark.parametrize(
    ("downtime", "dues", "notes"),
    [
        (
            "skip",
            [],
            [
                "Schedule daily: 3 firings (2026-03-01 09:00:00 to 2026-03-03 09:00:00 UTC) were missed; "
                "they are skipped."
            ],
        ),
        (
            "once",
            ["2026-03-03T09:00:00Z"],
            [
                "Schedule daily: 2 firings (2026-03-01 09:00:00 to 2026-03-02 09:00:00 UTC) were missed; "
                "one firing stands for all."
            ],
        ),
        ("all", ["2026-03-01T09:00:00Z", "2026-03-02T09:00:00Z", "2026-03-03T09:00:00Z"], []),
    ],
)
async def test_what_was_missed_is_made_up_for_by_the_policy(
    tmp_path: Path, downtime: str, dues: list[str], notes: list[str]
) -> None:
    world = await missed(tmp_path, downtime, "0 9 * * *", "2026-03-01 08:00", "2026-03-03 12:00")
    [overdue] = list_overdue_firings(tmp_path, "2026-03-03 12:00")
    fate = {
        "skip": "only the newest firing runs, if",
        "once": "one firing runs for all",
        "all": "each one missed runs",
    }[downtime]
    assert "schedule daily was due at 2026-03-01 09:00:00 UTC; when a gateway starts, " in overdue and fate in overdue
    async with world:
        await world.asleep()
        await world.idle()
        assert list_overdue_firings(tmp_path, "2026-03-03 12:00") == []
        assert [e["data"]["due"] for e in await world.entries("s", "event")] == dues
        assert [t for t in await world.texts("s", "notice") if "Schedule" in t] == notes
        assert len(set(await world.turns())) == bool(dues)  # they coalesce (Law 2)
        [shown] = await world.gateway.schedules.list()
        assert shown["next"] == moment("2026-03-04 09:00")


async def test_all_is_bounded_and_says_so(tmp_path: Path) -> None:
    async with await missed(tmp_path, "all", "* * * * *", "2026-03-01 08:00", "2027-03-01 08:00:30") as world:
        await world.asleep()
        await world.idle()
        dues = [e["data"]["due"] for e in await world.entries("s", "event")]
        assert len(set(dues)) == 100
        assert dues[-1] == "2027-03-01T08:00:00Z"
        assert "Schedule daily: more than 100 firings were missed; only the newest 100 run now." in await world.texts()


async def test_a_firing_that_runs_late_says_when_it_was_due(tmp_path: Path) -> None:
    async with await missed(tmp_path, "once", "0 9 * * *", "2026-03-01 08:00", "2026-03-01 12:10") as world:
        await world.asleep()
        await world.idle()
        [event] = await world.entries("s", "event")
        due = moment("2026-03-01 09:00")
        assert list_remarks(event) == [f"was due at {format_timestamp(due)}"]
        [prompt] = world.prompts()
        assert "schedule daily was due at 2026-03-01T09:00:00Z and runs only now, 3 h 10 min late; do" in prompt
        last = (await world.gateway.schedules.show("daily"))["last"]
        assert (last["due"], last["ran"]) == (due, moment("2026-03-01 12:10"))


@pytest.mark.parametrize("due", [None, 0, True, "yesterday", "9999-12-31T23:59:59Z", "1900-01-01T00:00:00Z", [1]])
def test_a_due_time_that_is_none_or_not_long_ago_is_not_shown(due: object) -> None:
    assert read_late_due("schedule", {"due": due}, moment("2026-03-01 09:00")) is None
    assert read_late_due("schedule", {"due": "2026-03-01T08:59:00Z"}, moment("2026-03-01 09:00")) is None
    assert read_late_due("build.done", {"due": "2026-03-01T08:00:00Z"}, moment("2026-03-01 09:00")) is None


async def test_what_is_a_little_late_was_not_missed(tmp_path: Path) -> None:
    async with await missed(tmp_path, "skip", "0 9 * * *", "2026-03-01 08:59:59", "2026-03-01 09:00:20") as world:
        await world.asleep()
        await world.idle()
        assert [e["data"]["due"] for e in await world.entries("s", "event")] == ["2026-03-01T09:00:00Z"]


async def test_a_clock_that_is_set_back_fires_nothing_twice(tmp_path: Path) -> None:
    told = every_day(job("."))
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=told) as world:
        await world.advance_to("2026-03-01 09:00")
        await world.idle()
    async with World(tmp_path, at("2026-03-01 07:00"), schedules=told) as world:
        await world.advance_to("2026-03-01 12:00")
        assert len(await world.entries("s", "event")) == 1
        await world.advance_to("2026-03-02 09:00")
        assert len(await world.entries("s", "event")) == 2
        await world.idle()


async def test_a_machine_that_slept_makes_up_for_what_it_missed(tmp_path: Path) -> None:
    clock = at("2026-03-01 08:00")
    async with World(tmp_path, clock, schedules=every_day(job("."))) as world:
        await world.asleep()
        clock._now = moment("2026-03-03 12:00")  # the wall clock jumps; nothing was awake meanwhile
        await clock.advance(0)
        await world.asleep()
        await world.idle()
        assert [e["data"]["due"] for e in await world.entries("s", "event")] == ["2026-03-03T09:00:00Z"]
        assert "which also stands for 2 that were missed" in world.prompts()[-1]


async def test_a_gateway_that_dies_between_a_firing_and_its_turn_takes_it_up_again(tmp_path: Path) -> None:
    told = every_day(job("Watered."))
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=told) as world:
        world.gateway.schedules.wake = lambda session: None  # the commit is the last thing it does
        await world.advance_to("2026-03-01 09:00", settle=False)
        assert (await world.gateway.sessions())[0]["state"] == "waiting"
    async with World(tmp_path, at("2026-03-01 09:00:30"), schedules=told) as world:
        await world.idle()
        assert await world.texts("s", "agent") == ["Watered."]
        assert len(await world.entries("s", "event")) == 1


async def test_the_timer_sleeps_until_something_is_due(tmp_path: Path) -> None:
    clock = at("2026-03-01 08:00")
    async with World(tmp_path, clock, schedules=every_day(job("."))) as world:
        for name in ("books", "retention"):  # they sleep, too
            world.gateway._tasks[name].cancel()
        await world.asleep()
        assert (clock.sleepers, clock.next) == (1, moment("2026-03-01 09:00"))
        await world.gateway.schedules.add("sooner", "text", at="2026-03-01 08:30")
        await world.asleep()
        assert (clock.sleepers, clock.next) == (1, moment("2026-03-01 08:30"))
        await world.gateway.schedules.remove("sooner")
        await world.gateway.schedules.pause("daily")

        async def nothing() -> bool:
            return clock.sleepers == 0

        await until(nothing)
