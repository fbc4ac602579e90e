"""Who keeps schedules: the configuration, people over the API, and agents for their own session."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_world import record_tokens
from schedule_world import World, every_day, job, moment, script, until
from structlog.testing import capture_logs

from semel.gateway.errors import BadRequest, Conflict, NotFound
from semel.testing import FrozenClock


def at(text: str) -> FrozenClock:
    return FrozenClock(moment(text))


async def test_the_list_survives_restarts_and_follows_the_configuration(tmp_path: Path) -> None:
    a, b = job("a"), job("b")
    first = every_day(a) | every_day(b, name="other", cron="0 10 * * *") | every_day(a, name="third")
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=first) as world:
        await world.gateway.schedules.add("mine", job("c"), every="1h", session="s")
        await world.gateway.schedules.pause("daily")
        await world.gateway.schedules.pause("third")
        await world.advance_to("2026-03-01 09:30")
        await world.idle()
    second = every_day(a) | every_day(b, name="other", cron="0 11 * * *") | every_day(b, name="third")
    async with World(tmp_path, at("2026-03-01 09:31"), schedules=second) as world:
        listed = {s["name"]: s for s in await world.gateway.schedules.list()}
        assert not listed["daily"]["enabled"]  # paused they stay
        assert not listed["third"]["enabled"]
        assert listed["third"]["text"] == b
        assert listed["mine"]["last"]["due"] == moment("2026-03-01 09:00")
        assert listed["mine"]["next"] == moment("2026-03-01 10:00")
        assert listed["other"]["next"] == moment("2026-03-01 11:00")  # its meaning changed


async def test_a_schedule_that_the_file_does_not_name_keeps_its_state_until_it_is_named_again_or_removed(
    tmp_path: Path,
) -> None:
    configured = every_day(job("a")) | every_day(job("b"), name="third") | every_day(job("c"), name="gone")
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=configured) as world:
        await world.advance_to("2026-03-01 09:30")
        await world.idle()
        await world.gateway.schedules.pause("third")
        fired = {s["name"]: s["last"] for s in await world.gateway.schedules.list()}
    told = []
    for start in ("2026-03-01 10:00", "2026-03-02 08:00"):  # without a file, over the next firing; told once
        with capture_logs() as lines:
            async with World(tmp_path, at(start), schedules={}) as world:
                await world.advance_to("2026-03-02 09:30")
                desk = world.gateway.schedules
                listed = {s["name"]: s for s in await desk.list()}
                assert {name: s["last"] for name, s in listed.items()} == fired  # nothing fires
                assert all(s["unconfigured"] and s["next"] is None for s in listed.values())
                assert [s["enabled"] for s in listed.values()] == [True, True, False]
                for call in (desk.resume, desk.run_now):
                    with pytest.raises(Conflict, match=r"does not name it.*semel schedules remove third"):
                        await call("third")
                with pytest.raises(Conflict, match="replace"):
                    await desk.add("third", "mine", every="1h")
        told += [line["what"] for line in lines if line["event"] == "check the configuration"]
    assert [line.partition(" is not ")[0] for line in told] == [
        f"schedule {name}" for name in ("daily", "gone", "third")
    ]
    async with World(tmp_path, at("2026-03-02 09:40"), schedules={}) as world:
        await world.gateway.schedules.remove("gone")
    async with World(tmp_path, at("2026-03-02 09:50"), schedules=configured) as world:
        listed = {s["name"]: s for s in await world.gateway.schedules.list()}
        assert not any("unconfigured" in s for s in listed.values())
        assert [listed[name]["last"] for name in ("daily", "gone", "third")] == [fired["daily"], None, fired["third"]]
        assert [s["enabled"] for s in listed.values()] == [True, True, False]
        assert listed["daily"]["next"] == moment("2026-03-03 09:00")  # what fell due meanwhile is not missed
        assert [e["text"] for e in await world.entries("s", "notice")] == []


async def test_a_one_shot_fires_once_and_not_at_all_if_it_was_over_when_first_read(tmp_path: Path) -> None:
    over = every_day(job("too late"), name="over", at="2026-03-01 07:00")
    soon = every_day(job("in time"), name="soon", at="2026-03-01 08:30")
    for start in ("2026-03-01 08:00", "2026-03-01 12:00"):
        async with World(tmp_path, at(start), schedules=over | soon) as world:
            await world.advance_to("2026-03-01 13:00")
            await world.idle()
            assert await world.texts("s", "agent") == ["in time"]
            assert {s["name"]: s["next"] for s in await world.gateway.schedules.list()} == {"over": None, "soon": None}


async def test_the_start_says_which_schedule_never_fires_and_which_one_was_replaced(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00")) as world:
        await world.gateway.schedules.add("daily", "mine", every="1h", session="s")
    configured = every_day(job("mine")) | every_day(job("late"), name="over", at="2026-03-01 07:00", tz="Asia/Tokyo")
    told = []
    for _ in range(2):  # only once: at the second start, nothing is new
        with capture_logs() as lines:
            async with World(tmp_path, at("2026-03-01 08:01"), schedules=configured):
                pass
        told += [line["what"] for line in lines if line["event"] == "check the configuration"]
    assert told == [
        "[schedules.daily] replaces the schedule of that name that was made otherwise",
        "[schedules.over] never fires: 2026-03-01 07:00 (Asia/Tokyo) is in the past",
    ]


# ---------------------------------------------------------------- asked for


async def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=every_day()) as world:
        desk = world.gateway.schedules
        for wrong in (
            {"cron": "* * * *"}, {"cron": "* * * * *", "every": "1h"}, {}, {"at": "2026-02-01 00:00"},
            {"every": "0s"}, {"cron": "@daily", "tz": "Berlin"},
            {"cron": "@daily", "downtime": "maybe"}, {"cron": "@daily", "session": "no blanks please"},
        ):  # fmt: skip
            with pytest.raises(BadRequest):
                await desk.add("x", "text", **wrong)  # type: ignore[arg-type]
        for name, text in (("no blanks", "text"), ("x" * 65, "text"), ("", "text"), ("x", " ")):
            with pytest.raises(BadRequest):
                await desk.add(name, text, cron="@daily")
        with pytest.raises(Conflict, match="configuration"):
            await desk.add("daily", "text", cron="@daily", replace=True)
        with pytest.raises(Conflict, match="configuration"):
            await desk.remove("daily")
        for call in (desk.remove, desk.pause, desk.resume, desk.show):
            with pytest.raises(NotFound):
                await call("nothing")
        assert [s["name"] for s in await desk.list()] == ["daily"]


async def test_a_schedule_is_made_once_replaced_on_purpose_and_removed(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00")) as world:
        desk = world.gateway.schedules
        one = job("1")
        made = await desk.add("x", one, every="30m", session="s")
        assert await desk.add("x", one, every="30m", session="s") == made
        with pytest.raises(Conflict, match=r"already.*--replace"):
            await desk.add("x", job("2"), every="30m", session="s")
        await world.advance_to("2026-03-01 08:10")
        changed = await desk.add("x", job("2"), every="15m", session="s", replace=True)
        assert changed["next"] == moment("2026-03-01 08:25")
        await world.advance_to("2026-03-01 08:30")
        await world.idle()
        assert await world.texts("s", "agent") == ["2"]
        await desk.remove("x")
        await world.advance_to("2026-03-01 12:00")
        assert await world.texts("s", "agent") == ["2"]
        assert await desk.list() == []


async def test_what_falls_due_while_paused_is_not_missed(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=every_day(job("."), downtime="all")) as world:
        await world.gateway.schedules.pause("daily")
        await world.advance_to("2026-03-04 12:00")
        shown = await world.gateway.schedules.resume("daily")
        assert shown["next"] == moment("2026-03-05 09:00")
        await world.advance_to("2026-03-05 09:00")
        await world.idle()
        assert len(await world.entries("s", "event")) == 1


async def test_a_schedule_that_is_made_paused_fires_only_after_it_was_resumed(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00")) as world:
        desk = world.gateway.schedules
        made = await desk.add("x", "ask: .", cron="0 9 * * *", session="s", paused=True)
        assert (made["enabled"], made["next"]) == (False, None)
        await world.advance_to("2026-03-02 12:00")
        assert await desk.list("s") == [made]
        assert (await desk.resume("x"))["next"] == moment("2026-03-03 09:00")


async def test_a_zone_that_the_machine_lost_pauses_its_schedule_and_no_other(tmp_path: Path) -> None:
    told = every_day(job("fine"), name="b")
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=told) as world:
        await world.gateway.schedules.add("a", job("lost"), cron="0 9 * * *", session="s")
        await world.gateway.record.write(_lose_zone, "a")
        await world.advance_to("2026-03-01 09:00")
        await world.idle()
        assert await world.texts("s", "agent") == ["fine"]
        shown = await world.gateway.schedules.show("a")
        assert not shown["enabled"]
        assert "Mars/Olympus" in shown["error"]


def _lose_zone(tx: object, name: str) -> None:
    tx._cursor.execute("UPDATE schedule SET tz = 'Mars/Olympus' WHERE name = ?", (name,))  # type: ignore[attr-defined]


# ---------------------------------------------------------------- agents


def call(tool: str, **arguments: str) -> dict[str, object]:
    return {"call": tool, "arguments": arguments, "meta": "claude"}


async def test_an_agent_keeps_schedules_of_its_own_session(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00")) as world:
        gateway = world.gateway
        plan = call("schedule", cron="0 9 * * *", text=job("Good morning."), tz="Europe/Berlin")
        await gateway.say("s", script(plan, plan, "Done."))  # the same twice is one
        await world.idle()
        [made] = await gateway.schedules.list("s")
        assert made["source"] == "agent"
        assert made["next"] == moment("2026-03-02 09:00", "Europe/Berlin")
        assert made["session"] == "s"
        await world.advance_to("2026-03-02 08:00")
        await world.idle()
        assert await world.texts("s", "agent") == ["Done.", "Good morning."]

        # another session neither sees nor cancels it
        await gateway.say("other", script(call("list_schedules"), call("cancel_schedule", name=made["name"]), "Tried."))
        await world.idle("other")
        outputs = [i for i in (await gateway.history("other", 1 << 40))["items"] if i["kind"] == "tool"]
        assert "no schedules in this session" in outputs[0]["text"]
        assert "there is no schedule" in outputs[1]["text"]
        assert len(await gateway.schedules.list()) == 1

        await gateway.say("s", script(call("list_schedules"), call("cancel_schedule", name=made["name"]), "Cancelled."))
        await world.idle()
        outputs = [i for i in (await gateway.history("s", 1 << 40))["items"] if i["kind"] == "tool"]
        assert "next 2026-03-03 09:00 Europe/Berlin, last fired 2026-03-02 09:00" in outputs[-2]["text"]
        assert await gateway.schedules.list() == []


async def test_what_an_agent_cannot_schedule_it_is_told(tmp_path: Path) -> None:
    async with World(tmp_path, at("2026-03-01 08:00"), schedules=every_day()) as world:
        gateway = world.gateway
        wrong = [
            call("schedule", cron="every morning", text="x"),
            call("schedule", cron="2026-02-01 07:00", text="x"),
            call("schedule", cron="@daily", text="x", tz="Berlin"),
            call("schedule", cron="in 20 minutes", text="x"),
            call("cancel_schedule", name="daily"),
        ]
        await gateway.say("s", script(*wrong, "I see."))
        await world.idle()
        outputs = [i["text"] for i in (await gateway.history("s", 1 << 40))["items"] if i["kind"] == "tool"]
        wanted = [
            "is not a cron expression",
            "is in the past: it is 2026-03-01 08:00 UTC now",
            "is not a time zone",
            "for once, write a date and time like 2030-03-29 07:30; it is 2026-03-01 08:00 UTC now",
            "comes from the configuration",
        ]
        assert len(outputs) == len(wanted)
        for text, words in zip(outputs, wanted, strict=True):
            assert "refused: " in text
            assert words in text
        assert [s["name"] for s in await gateway.schedules.list()] == ["daily"]


async def test_an_agent_whose_turn_was_cancelled_schedules_nothing_and_that_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = record_tokens(monkeypatch)
    async with World(tmp_path, at("2026-03-01 08:00")) as world:
        await world.gateway.say("s", script({"touch": str(tmp_path / "begun")}, {"hang": True}))
        await until(_exists(tmp_path / "begun"))
        await world.gateway.controls.stop_turn("s", "Ann")
        await world.idle()
        params = {"token": tokens[0], "conn": "c", "call": "1", "name": "schedule", "meta": {}}
        for _ in range(2):  # the same call, handed over again
            answer = await world.gateway.tools("call", {**params, "arguments": {"cron": "@daily", "text": "x"}})
            assert answer["text"] == "refused: its turn was cancelled. Nothing was scheduled."
        assert await world.gateway.schedules.list() == []
        held = [t for t in await world.texts("s", "notice") if "cancelled" in t]
        assert held == ['Held back "schedule @daily": its turn was cancelled. Tell the agent if you still want it.']


def _exists(path: Path):  # type: ignore[no-untyped-def]
    async def there() -> bool:
        return path.exists()

    return there
