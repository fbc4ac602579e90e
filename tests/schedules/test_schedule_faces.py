"""Schedules as people and programs reach them: configuration, command line, HTTP."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
import pytest
from schedule_house import House

from semel.faces.config import ConfigError
from semel.faces.config.load import load_config
from semel.timing.walltime import format_utc

CONFIGURED = """\
[channels.phone]
kind = "webhook"
url = "https://phone.example"
[schedules.fixed]
cron = "0 7 * * MON-FRI"
tz = "Europe/Berlin"
session = "s"
text = "Good morning."
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house"), CONFIGURED)
    try:
        house.up()
        yield house
    finally:
        house.end(signal.SIGTERM)


def test_the_command_line_adds_shows_pauses_resumes_and_removes(house: House) -> None:
    added = house.told("schedules", "add", "plants", "Water them.", "--every", "3h", "--session", "s")
    assert (added["every"], added["source"], added["last"]) == ("3h", "api", None)
    code, output = house.semel("schedules", "add", "plants", "Water them twice.", "--every", "3h")
    assert code == 1
    assert "there is a schedule 'plants' already" in output and "--replace" in output
    changed = house.told("schedules", "add", "plants", "Water them twice.", "--every", "3h", "--replace")
    assert changed["session"] == "schedule:plants"
    assert [s["name"] for s in house.told("schedules", "list")] == ["fixed", "plants"]
    assert [s["name"] for s in house.told("schedules", "list", "--session", "s")] == ["fixed"]
    assert house.told("schedules", "pause", "plants")["next"] is None
    _, listing = house.semel("schedules", "list")
    assert re.search(r"fixed\tcron 0 7 \* \* MON-FRI\t(?:\S+ )?07:00 CES?T\t", listing), listing
    assert "plants\tevery 3h\tpaused" in listing
    assert house.told("schedules", "resume", "plants")["next"] is not None
    code, shown = house.semel("schedules", "show", "plants")
    assert code == 0
    assert "Water them twice." in shown
    assert house.semel("schedules", "remove", "plants")[0] == 0
    code, output = house.semel("schedules", "show", "plants")
    assert code == 1
    assert "there is no schedule 'plants'" in output


def test_what_is_given_changes_and_the_rest_stays(house: House) -> None:
    zone = ("--tz", "Asia/Tokyo")
    made = house.told("schedules", "add", "bins", "Put them out.", "--cron", "0 7 * * 1", *zone, "--session", "s")
    later = house.told("schedules", "change", "bins", "--cron", "0 8 * * 1")
    assert later == {**made, "cron": "0 8 * * 1", "next": later["next"]} and later["next"] != made["next"]
    house.told("schedules", "pause", "bins")
    said = house.told("schedules", "change", "bins", "Put them out, please.", "--downtime", "skip")
    assert said == {**later, "text": "Put them out, please.", "downtime": "skip", "enabled": False, "next": None}
    once = house.told("schedules", "change", "bins", "--at", "18:00")
    assert "cron" not in once and once["at"].endswith(" 18:00") and once["tz"] == "Asia/Tokyo"
    for wrong, words in (
        (("bins",), "give what to change"),
        (("bins", "--at", "18:00", "--in", "1h"), "--at or --in"),
        (("bins", "--cron", "0 8 * * 1", "--every", "1h"), "exactly one of cron, at and every"),
    ):
        code, output = house.semel("schedules", "change", *wrong)
        assert (code, words in output) == (2, True), output
    for name, words in (("fixed", "change it in semel.toml"), ("none", "there is no schedule 'none'")):
        code, output = house.semel("schedules", "change", name, "Now this.")
        assert (code, words in output) == (1, True), output
    assert house.semel("schedules", "remove", "bins")[0] == 0


def test_a_schedule_can_be_run_now(house: House) -> None:
    made = house.told("schedules", "add", "probe", "Is all well?", "--every", "3h")
    fired = house.told("schedules", "run", "probe")
    assert fired["next"] == made["next"] and time.time() - 60 < fired["last"]["due"] / 1000 <= time.time()
    assert fired["last"]["by"] == "the owner" and 0 <= fired["last"]["ran"] - fired["last"]["due"] < 60_000
    assert ", by hand\t" in house.semel("schedules", "list")[1]
    assert " UTC, by the owner\n" in house.semel("schedules", "show", "probe")[1]
    story = house.semel("why", "probe")[1]
    assert "accepted schedule from the owner at schedule:probe" in story
    assert f"its next firing is due at {format_utc(fired['next'])}" in story
    house.told("schedules", "pause", "probe")
    assert "schedule probe is paused: it fires again after " in house.semel("why", "probe")[1]
    code, output = house.semel("schedules", "run", "none")
    assert (code, "there is no schedule 'none'" in output) == (1, True), output
    assert house.semel("schedules", "remove", "probe")[0] == 0
    code, story = house.semel("why", "probe")
    assert (code, "accepted schedule from the owner at schedule:probe" in story) == (0, True), story
    assert "schedule probe is gone: it was removed; its firings stay" in story
    assert house.semel("why", "schedule:probe")[1] == story


def test_a_one_shot_may_be_a_time_of_day_or_a_delay(house: House) -> None:
    before = time.time()
    soon = house.told("schedules", "add", "tea", "The tea is ready.", "--in", "20m")
    assert int(before) + 1200 <= soon["next"] / 1000 <= time.time() + 1200
    evening = house.told("schedules", "add", "supper", "Call them.", "--at", "18:00", "--tz", "Asia/Kathmandu")
    due = datetime.fromtimestamp(evening["next"] / 1000, ZoneInfo("Asia/Kathmandu"))
    assert (due.hour, due.minute) == (18, 0)
    assert before < due.timestamp() <= before + 86_400 + 60
    code, output = house.semel("schedules", "add", "walk", "Walk the dog.", "--in", "1h")
    assert code == 0
    assert "home  none (read it with semel show schedule:walk)" in output
    _, listing = house.semel("schedules", "list")
    tea = datetime.fromtimestamp(soon["next"] / 1000, UTC).strftime("%H:%M:%S").removesuffix(":00")
    assert f"{tea} UTC\t" in listing and "18:00 +0545\t" in listing, listing
    for name in ("tea", "supper", "walk"):
        assert house.semel("schedules", "remove", name)[0] == 0


def test_who_names_no_zone_is_told_what_utc_is_on_this_machine(house: House) -> None:
    add, remark = ("schedules", "add", "zone", "t", "--replace"), "Without --tz, times are in UTC: 2031-01-07 07:00:00"
    for timing, zone, hint in (
        (("--at", "2031-01-07 07:00"), "Asia/Tokyo", f"{remark} UTC is 2031-01-07 16:00:00 here."),
        (("--cron", "0 7 7 1 *"), "Asia/Tokyo", "-01-07 16:00:00 here."),
        (("--at", "2031-01-07 07:00"), "UTC", ""),
        (("--at", "2031-01-07 07:00", "--tz", "Europe/Berlin"), "Asia/Tokyo", ""),
        (("--at", "2031-01-07T07:00:00Z"), "Asia/Tokyo", ""),
        (("--every", "1h"), "Asia/Tokyo", ""),
    ):
        code, output = house.semel(*add, *timing, zone=zone)
        assert (code, hint in output if hint else "Without --tz" not in output) == (0, True), output
    assert house.semel("schedules", "remove", "zone")[0] == 0


def test_who_adds_a_schedule_sees_where_the_answers_go(house: House) -> None:
    homes = {
        "main:phone:7": ("phone:7", ""),
        "main": ("the page (read it with semel show main)", ""),
        "phone:7": ("the page (read it with semel show phone:7)", "--session demo:phone:7?"),
        "main:fone:7": ("the page (read it with semel show main:fone:7)", "--session main:phone:7?"),
        "main:telegram:7": ("the page (read it with semel show main:telegram:7)", "no channel named telegram."),
        "dmo:web:7": ("the page (read it with semel show dmo:web:7)", "No agent is named 'dmo'; did you mean demo?"),
    }
    for session, (home, hint) in homes.items():
        code, output = house.semel("schedules", "add", "where", "t", "--every", "1d", "--session", session, "--replace")
        assert code == 0
        assert f"home  {home}" in output
        assert hint in output if hint else "Did you mean" not in output and "No agent" not in output, output
    assert house.told("schedules", "show", "where")["home"] == "web:dmo:web:7"
    assert house.semel("schedules", "remove", "where")[0] == 0


def test_the_command_line_refuses_what_cannot_be(house: House) -> None:
    for wrong, words in (
        (("--cron", "every morning"), "not a cron expression"),
        (("--cron", "@daily", "--tz", "Europe/Berln"), "did you mean"),
        (("--in", "soon"), "not an interval"),
        (("--at", "18:00", "--in", "1h"), "--at or --in"),
        (("--at", "6pm"), 'or a time of day, like "18:00"'),
        (("--at", "2020-01-01 10:00", "--tz", "Asia/Tokyo"), "is in the past: it is 20"),
        (("--cron", "@daily", "--tz", "UTC+2"), 'is not a time zone; write it like "Europe/Berlin"'),
        (("--at", "18:00", "--tz", "Europe/Berln"), "did you mean"),
        ((), "exactly one of cron, at and every"),
    ):
        code, output = house.semel("schedules", "add", "x", "text", *wrong)
        assert code == 2
        assert words in output
        assert "Traceback" not in output
    code, output = house.semel("schedules", "remove", "fixed")
    assert code == 1
    assert "comes from the configuration" in output


def test_what_the_configuration_made_is_a_clear_409_over_the_api(house: House) -> None:
    answer = httpx2.delete(f"{house.url}/v1/schedules/fixed", timeout=5)
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:semel:problem:wrong-state"
    assert "remove it from semel.toml" in answer.json()["detail"]
    paused = httpx2.post(f"{house.url}/v1/schedules/fixed/pause", timeout=5).json()
    assert paused["enabled"] is False
    assert httpx2.post(f"{house.url}/v1/schedules/fixed/resume", timeout=5).json()["enabled"] is True


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "x", "text": "t", "cron": "* * *"}, 400),
        ({"name": "x", "text": "t", "cron": "@daily", "at": "2030-01-01 00:00"}, 400),
        ({"name": "x", "text": "t", "every": 5}, 400),
        ({"name": "a b", "text": "t", "cron": "@daily"}, 400),
        ({"name": "x", "text": "t", "cron": "@daily", "when": "now"}, 400),
        ({"name": "fixed", "text": "t", "cron": "@daily", "replace": True}, 409),
    ],
)
def test_the_api_refuses_what_cannot_be(house: House, body: dict[str, Any], status: int) -> None:
    answer = httpx2.post(f"{house.url}/v1/schedules", json=body, timeout=5)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]
    assert [s["name"] for s in (house.get("/v1/schedules") or {})["schedules"]] == ["fixed"]


def test_a_removed_schedule_answers_204_and_then_404(house: House) -> None:
    made = httpx2.post(f"{house.url}/v1/schedules", json={"name": "y", "text": "t", "every": "1d"}, timeout=5)
    assert made.status_code == 200
    assert httpx2.delete(f"{house.url}/v1/schedules/y", timeout=5).status_code == 204
    assert httpx2.delete(f"{house.url}/v1/schedules/y", timeout=5).status_code == 404


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('[schedules.x]\ntext = "t"', "exactly one of cron, at and every; here: none"),
        ('[schedules.x]\ntext = "t"\ncron = "@daily"\nevery = "1h"', "here: cron, every"),
        ('[schedules.x]\ntext = "t"\ncron = "0 25 * * *"', "'25' is no hour"),
        ('[schedules.x]\ntext = "t"\ncron = "@daily"\ntz = "Mars"', "not a time zone"),
        ('[schedules.x]\ntext = "t"\ncron = "@daily"\nsession = "a b"', "session key"),
        ('[schedules.x]\ntext = "t"\ncron = "@daily"\ndowntime = "never"', "'skip', 'once' or 'all'"),
        ('[schedules.x]\ncron = "@daily"', 'needs "text"'),
        ('[schedules."a b"]\ntext = "t"\ncron = "@daily"', "is not a name"),
        ('[schedules.x]\ntext = "t"\ncorn = "@daily"', 'did you mean "cron"?'),
        ('[heartbeat]\nhours = "8-22"', "is not a range of hours"),
        ('[heartbeat]\ntz = "Europe/Berln"', 'did you mean "Europe/Berlin"?'),
        ('[heartbeat]\nevery = "0s"', "every"),
        ('[heartbeat]\nsesions = ["s"]', 'did you mean "sessions"?'),
    ],
)
def test_a_wrong_configuration_is_an_error_that_says_what_to_write(tmp_path: Path, section: str, words: str) -> None:
    (tmp_path / "semel.toml").write_text(section)
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path / "semel.toml", env={"HOME": str(tmp_path)})
    assert words in str(refused.value)
    assert "semel.toml:" in str(refused.value)


def test_the_configuration_takes_what_toml_has_types_for(tmp_path: Path) -> None:
    (tmp_path / "semel.toml").write_text(
        '[schedules.a]\ntext = "t"\nat = 2030-03-29T07:30:00Z\n[schedules.b]\ntext = "t"\nevery = 90\n'
        '[heartbeat]\nsessions = ["main:*"]\nevery = "45m"\nhours = "22:00-06:00"\ntz = "Asia/Kathmandu"\n'
    )
    told = load_config(tmp_path / "semel.toml", env={"HOME": str(tmp_path)}).gateway
    assert {name: (s.form, s.spec) for name, s in told.schedules.items()} == {
        "a": ("at", "2030-03-29T07:30:00+00:00"),
        "b": ("every", "90"),
    }
    assert (told.heartbeat.every_s, told.heartbeat.hours, told.heartbeat.quiet) == (2700.0, (1320, 360), "NO_REPLY")


def test_without_sessions_there_are_no_heartbeats(tmp_path: Path) -> None:
    (tmp_path / "semel.toml").write_text('[heartbeat]\nevery = "10m"\n')
    assert load_config(tmp_path / "semel.toml", env={"HOME": str(tmp_path)}).gateway.heartbeat.sessions == ()
