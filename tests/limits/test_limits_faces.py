"""What was used of what limits, on the command line and over HTTP; settings that cannot be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from system_house import DEMO, House, opened, until

from semel import Client

CONFIG = f"""{DEMO}
[limits]
tz = "Europe/Berlin"
person = {{ turns = 1, cost = 2.5 }}
"""


def test_limits_are_listed_and_a_message_above_one_waits(tmp_path: Path) -> None:
    with opened(House(tmp_path, CONFIG)) as house:
        house.say("main:web:a", "say: one")
        house.idle("main:web:a")
        house.say("main:web:b", "say: two")
        until(lambda: house.get("/v1/limits")["waiting"], "a session that waits")
        today = house.get("/v1/limits")
        assert today["tz"] == "Europe/Berlin"
        person = next(line for line in today["limits"] if line["scope"] == "person")
        assert person == {
            "scope": "person", "subject": "owner", "used": {"turns": 1, "tokens": 0, "cost": 0.0},
            "most": {"turns": 1, "tokens": None, "cost": 2.5}, "unreported": 1,
        }  # fmt: skip
        first = house.get("/v1/limits", limit=1)
        assert [line["scope"] for line in first["limits"]] == ["all"]
        assert house.get("/v1/limits", limit=1, after=first["next"])["limits"] == [person]
        told = house.cli("limits")
        assert "person\towner\t1 of 1\t0\t0.00 of 2.50" in told.stdout.splitlines()
        assert re.search(r"main:web:b waits until \d{4}-\d\d-\d\d 00:00 Europe/Berlin: the limit", told.stderr)
        assert json.loads(house.cli("limits", "--json").stdout)["limits"] == today["limits"]
        (needs,) = house.get("/v1/status")["attention"]
        assert (needs["session"], needs["why"], needs["until"]) == ("main:web:b", "limit", today["ends"])
        assert needs["tz"] == "Europe/Berlin"
        assert needs["limit"] == {"scope": "person", "subject": "owner", "measure": "turns"}
        shown = house.cli("status").stdout
        assert "sessions  1 needs someone" in shown and re.search(
            r"main:web:b  waits until \S+ 00:00 Europe/Berlin \(since ", shown
        )
        why = house.cli("why", "main:web:b#1").stdout
        assert "the turn may not begin: the limit of turns (person owner) is used up" in why
        assert "the limit of turns (person owner) is used up; raise it in [limits] and restart" in shown
        entries = house.entries("main:web:b")
        assert any(e.get("kind") == "limit.waits" and "limit of 1 turn for owner" in e["text"] for e in entries)
        with pytest.raises(_Told, match="Ctrl-C is safe"), Client(house.data) as client:
            client.wait_for_answer("main:web:b", entries[0]["event"], _stop_at_advice)


def test_whoever_waits_for_a_limit_is_told_at_once_also_if_an_earlier_message_had_met_it(tmp_path: Path) -> None:
    with opened(House(tmp_path, CONFIG)) as house:
        house.say("main:web:a", "say: one")
        house.idle("main:web:a")
        house.say("main:web:a", "say: two")
        until(lambda: house.get("/v1/limits")["waiting"], "a session that waits")
        told = house.cli("say", "main:web:a", "say: three", "--wait", rc=1).stderr
        limit = r"The message waits until \S+ 00:00 Europe/Berlin: the limit of turns is used up \(person owner\)"
        assert re.search(rf"{limit}; it is kept, and answered after that\n", told)
        events = [entry["event"] for entry in house.entries("main:web:a") if entry["role"] == "user"]
        limits = [house.get(f"/v1/why/e{event}").get("limits") for event in events]
        assert limits[0] is None and [limit["noticed"] for (limit,) in limits[1:]] == [True, False]
        notices = [entry for entry in house.entries("main:web:a") if entry.get("kind") == "limit.waits"]
        assert len(notices) == 1, "in the chat, the notice stays one"
        news: list[str] = []
        with pytest.raises(TimeoutError), Client(house.data) as client:
            client.wait_for_answer("main:web:a", events[-1], news.append, timeout=2.0)
        assert re.fullmatch(limit, news[0]) and news[1].startswith("still waiting for the answer; Ctrl-C is safe")


def test_without_a_gateway_limits_are_read_without_the_secrets_of_other_tables(tmp_path: Path) -> None:
    with opened(House(tmp_path, CONFIG)) as house:
        house.say("main:web:a", "say: one")
        house.idle("main:web:a")
    secrets = '[channels.chat]\nkind = "telegram"\ntoken = "env:NOWHERE"\n'
    house.config = f"{CONFIG}\n{secrets}"
    read = house.cli("limits")
    assert "person\towner\t1 of 1\t0\t0.00 of 2.50" in read.stdout.splitlines()
    house.config = house.config.replace("turns = 1", "turns = 0")
    assert "limits.person" in house.cli("limits", rc=2).stderr


class _Told(Exception):
    """Whoever waits for an answer was told that it may be left."""


def _stop_at_advice(news: str) -> None:
    if news.startswith("still waiting"):
        raise _Told(news)


def test_a_limit_that_cannot_be_is_an_error_that_names_it(tmp_path: Path) -> None:
    house = House(tmp_path, f"{DEMO}\n[limits]\nperson = {{ turns = 0 }}\n")
    assert "limits.person" in house.cli("up", rc=2).stderr
