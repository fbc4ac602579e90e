"""Stores that OpenClaw, Hermes and NanoClaw have written, imported into a running gateway: whole, and once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_house import Cli
from store_house import DATA, openclaw_event, openclaw_folder, unpack

from semel.faces.stores.importing import open_store

SAMPLES = {
    "openclaw-2026.5.7": "openclaw", "openclaw-2026.8.2": "openclaw", "openclaw-2026.9.6": "openclaw",
    "hermes-0.19.0": "hermes",
}  # fmt: skip
ASKED = {"What is the time of the train?", "Who brings bread?", "And back?"}
ANSWERED = {"The train leaves at 9:41.", "Ben brings the bread.", "The last one back leaves at 22:15."}
PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
Json = dict[str, Any]


def transcript(house: Cli, report: Json) -> list[str]:
    """The lines of all sessions of a report."""
    lines = []
    for row in report["sessions"]:
        lines += [f"{entry.get('sender')}: {entry['text']}" for entry in entries(house, row["session"])]
    return lines


def entries(house: Cli, session: str) -> list[Json]:
    house("export", session, "--format", "jsonl", "--output", "one.jsonl")
    lines = map(json.loads, (house.home / "one.jsonl").read_text().splitlines())
    return [{**line, **line.get("more", {})} for line in lines if line["line"] == "entry"]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_real_store_is_imported_whole_and_once(name: str, house: Cli, tmp_path: Path) -> None:
    folder = str(unpack(name, tmp_path / "store"))
    first = house.json("import", "--from", SAMPLES[name], folder)
    assert {row["status"] for row in first["sessions"]} == {"imported"}
    said = transcript(house, first)
    assert {f"Ada: {text}" for text in ASKED} <= set(said)
    assert {f"None: {text}" for text in ANSWERED} <= set(said)
    assert len(said) == len(set(said)) == sum(row["added"] for row in first["sessions"])
    assert [person["account"] for person in first["people"]] == ["telegram:7"]
    assert first["unread"] == []
    again = house.json("import", "--from", SAMPLES[name], folder)
    assert {row["status"] for kind in ("sessions", "people", "schedules") for row in again[kind]} == {"known"}
    assert transcript(house, again) == said
    assert (again["collapsed"], again["left_out"]) == (first["collapsed"], first["left_out"])


@pytest.mark.parametrize("name", SAMPLES)
def test_imported_schedules_are_paused_and_ask_in_their_chat(name: str, house: Cli, tmp_path: Path) -> None:
    system = SAMPLES[name]
    house.json("import", "--from", system, str(unpack(name, tmp_path / "store")))
    schedules = {row["name"]: row for row in house.json("schedules", "list")}
    morning = schedules[f"{system}-morning"]
    assert (morning["cron"], morning["tz"], morning["session"]) == ("30 7 * * 1-5", "Europe/Berlin", "demo:telegram:7")
    assert schedules[f"{system}-oven"]["every"] == "2h"
    if system == "openclaw":
        assert schedules["openclaw-cake"]["session"] == "demo:telegram:7"  # the main conversation is Ada's chat
    assert [name for name, row in schedules.items() if row["enabled"]] == []


def test_a_chat_goes_on_in_the_session_that_its_channel_uses(house: Cli, tmp_path: Path) -> None:
    events = [openclaw_event(1, "user", "hello")]
    folder = openclaw_folder(tmp_path, events, session="chat")
    index = {"agent:main:telegram:group:-77:topic:5": {"sessionId": "chat"}}
    (folder / "agents/main/sessions/sessions.json").write_text(json.dumps(index))
    (row,) = house.json("import", "--from", "openclaw", str(folder))["sessions"]
    (channel,) = house.json("channels")
    assert row["session"] == f"{channel['agent']}:telegram:-77:topic-5"
    (session,) = [listed for listed in house.json("sessions") if listed["key"] == row["session"]]
    assert session["home"] == "telegram:-77:topic-5"


def test_nothing_is_said_or_sent_by_an_import(house: Cli, tmp_path: Path) -> None:
    report = house.json("import", "--from", "nanoclaw", str(unpack("nanoclaw-2", tmp_path / "store")))
    (session,) = report["sessions"]
    assert house.json("outbox", "list") == []
    failed = [entry for entry in entries(house, session["session"]) if entry.get("delivery")]
    assert [(entry["text"], entry["delivery"][0]["state"]) for entry in failed] == [
        ("That one is not ready.", "rejected")
    ]
    owner = next(person for person in report["people"] if person["account"] == "telegram:7")
    assert "owner in nanoclaw" in owner["why"]
    assert "all laws hold" in house("doctor", "--laws").stdout


def test_what_a_store_has_gained_is_added_once(house: Cli, tmp_path: Path) -> None:
    events = [openclaw_event(1, "user", "first question"), openclaw_event(2, "assistant", "first answer")]
    folder = str(openclaw_folder(tmp_path, events, session="growing"))
    (row,) = house.json("import", "--from", "openclaw", folder)["sessions"]
    assert (row["status"], row["added"]) == ("imported", 2)
    events += [openclaw_event(3, "user", "second question"), openclaw_event(4, "assistant", "second answer")]
    openclaw_folder(tmp_path, events, session="growing")
    (grown,) = house.json("import", "--from", "openclaw", folder)["sessions"]
    assert (grown["status"], grown["added"], grown["session"]) == ("grown", 2, row["session"])
    (known,) = house.json("import", "--from", "openclaw", folder)["sessions"]
    assert (known["status"], known["added"]) == ("known", 0)
    assert [entry["text"] for entry in entries(house, row["session"])] == [
        "first question", "first answer", "second question", "second answer",
    ]  # fmt: skip


def test_a_conversation_that_was_changed_there_is_refused_and_the_command_fails(house: Cli, tmp_path: Path) -> None:
    events = [openclaw_event(1, "user", "question"), openclaw_event(2, "assistant", "answer")]
    folder = str(openclaw_folder(tmp_path, events, session="changed"))
    house("import", "--from", "openclaw", folder)
    openclaw_folder(tmp_path, [openclaw_event(1, "user", "another question"), *events[1:]], session="changed")
    (row,) = house.json("import", "--from", "openclaw", folder, rc=1)["sessions"]
    assert row["status"] == "refused"
    assert "they were changed there since they were imported" in row["why"]


def test_a_dry_run_changes_nothing_and_needs_no_gateway(tmp_path: Path) -> None:
    cli = Cli(tmp_path, tmp_path / "data")
    report = cli.json("import", "--from", "nanoclaw", str(unpack("nanoclaw-2", tmp_path / "store")), "--dry-run")
    assert {row["status"] for kind in ("sessions", "people", "schedules") for row in report[kind]} == {"new"}
    assert not (tmp_path / "data").exists()


def test_a_folder_that_is_no_store_is_refused_in_words(house: Cli, tmp_path: Path) -> None:
    refused = house("import", "--from", "hermes", str(tmp_path), rc=1)
    assert "it has no state.db. Give the folder that has it" in refused.stderr
    assert "need --from" in house("import", "x.jsonl", "--dry-run", rc=2).stderr
    assert "has a key of its own" in house("import", "--from", "hermes", str(tmp_path), "--as", "k", rc=2).stderr


def test_the_reader_leaves_a_store_as_it_is(tmp_path: Path) -> None:
    for name, system in {**SAMPLES, "nanoclaw-2": "nanoclaw"}.items():
        folder = unpack(name, tmp_path / name)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        store = open_store(system, folder)  # type: ignore[arg-type]
        for conversation in store.read_conversations():
            list(conversation.read_messages())
        list(store.read_people())
        list(store.read_schedules())
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_the_page_shows_what_the_command_prints(tmp_path: Path) -> None:
    """The report in docs/coming-from.md is that of the sample store."""
    cli = Cli(tmp_path, tmp_path / "data")
    unpack("nanoclaw-2", tmp_path / "nanoclaw")
    done = cli("import", "--from", "nanoclaw", "nanoclaw", "--dry-run")
    begin, mark = "<!-- report: produced by tests/stores/test_store_import.py -->", "<!-- end of report -->"
    shown = PAGE.read_text().partition(begin)[2].partition(mark)[0]
    no_output = re.compile(r"```.*|\$ .*|[A-Z]+(\s+[A-Z]+)+")  # a fence, a command, the head of a table
    lines = [line.split() for line in shown.splitlines() if line.strip() and not no_output.fullmatch(line.strip())]
    assert lines == [line.split() for line in (done.stdout + done.stderr).splitlines() if line.strip()]


def test_every_sample_is_small() -> None:
    sizes = {path: path.stat().st_size for path in DATA.rglob("*") if path.is_file()}
    assert max(sizes.values()) < 40_000, max(sizes, key=lambda path: sizes[path])
