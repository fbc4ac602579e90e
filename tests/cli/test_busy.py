"""The command line while the agent is busy: what became of a message is said in words, and told again by `why`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_house import Cli, until

from semel.faces.busy_texts import format_ordinal, format_waiting_state, number_waiting
from semel.faces.transcript import list_remarks

Work = Callable[[str], None]


@pytest.fixture
def work(house: Cli, tmp_path: Path) -> Iterator[Work]:
    """Starts a turn in a session, that goes on until the test is over."""
    door, begun = tmp_path / "door", list[str]()

    def start(session: str) -> None:
        steps = [{"text": "Working."}, {"wait": str(door)}, {"text": " Done."}]
        house("say", session, f"[[script {json.dumps({'steps': steps})}]]")
        until(lambda: any(e["text"] == "Working." for e in house.json("show", session)), "the turn")
        begun.append(session)

    yield start
    door.touch()
    for session in begun:
        until(lambda session=session: state(house, session)["state"] == "idle", "the end")


def state(house: Cli, session: str) -> dict[str, Any]:
    return next(row for row in house.json("sessions") if row["key"] == session)


def test_say_tells_what_became_of_a_message(house: Cli, work: Work) -> None:
    work("words")
    assert house("say", "words", "one").stderr.endswith(" (queued, 1st in line)\n")
    collected = house("say", "words", "two", "--busy", "collect").stderr
    assert collected.endswith(" (collecting: the agent is asked when nothing more comes)\n")
    assert "(" not in house("say", "words", "beep", "--automatic").stderr
    assert house("say", "words", "three").stderr.endswith(" (queued, 3rd in line)\n")
    assert house("say", "words", "blue", "--busy", "steer").stderr.endswith(" (joins the running turn)\n")
    told = house.json("say", "words", "four", "--busy", "queue")
    assert (told["waiting"], told["place"]) == ("queue", 4)

    until(lambda: "joined the running turn" in house("show", "words").stdout, "the message joins")
    shown = [row.split(": ")[0] for row in house("show", "words", "--last", "6").stdout.splitlines()]
    found = [row.split("(")[1] if "(" in row else "" for row in shown]
    assert found == [
        "queued, 1st in line)", "collecting)", "automatic)", "queued, 3rd in line)", "joined the running turn)",
        "queued, 4th in line)",
    ]  # fmt: skip


def test_a_message_interrupts_and_why_tells_which_turn(house: Cli, work: Work) -> None:
    work("stop")
    said = house("say", "stop", "say: instead", "--busy", "interrupt").stderr
    assert said.endswith(" (interrupts the running turn)\n")
    until(lambda: state(house, "stop")["last"] == "instead", "the answer")
    assert "it waited (interrupt) for t" in (told := house("why", said.split()[1]).stdout)
    assert ", and interrupted t" in told


def test_why_tells_how_a_message_waited_and_what_it_joined(house: Cli, work: Work, tmp_path: Path) -> None:
    work("story2")
    queued = house("say", "story2", "say: later").stderr.split()[1]
    joined = house("say", "story2", "blue", "--busy", "steer").stderr.split()[1]
    assert "it waits (queue) for the next turn of story2" in house("why", queued).stdout
    until(lambda: "it joined the running turn t" in house("why", joined).stdout, "it joins")
    (tmp_path / "door").touch()
    until(lambda: "it waited (queue) for t" in house("why", queued).stdout, "the turn takes it")


def test_who_waits_for_an_answer_is_told_that_the_turn_is_tried_again(house: Cli) -> None:
    error = {"error": {"code": -32603, "message": "API Error: 529 Overloaded"}}
    script = json.dumps({"name": "twice", "attempts": [[error], ["Here it is."]]})
    done = house("say", "again", f"[[script {script}]]", "--wait")
    assert done.stdout == "Here it is.\n"
    assert "API Error: 529 Overloaded. It is tried again in 5 s (attempt 2)." in done.stderr


def test_the_mode_of_a_session_is_set_shown_and_taken_back(house: Cli, work: Work) -> None:
    work("modes")
    assert house("session", "busy", "modes").stdout == "configured\n"
    assert house("session", "busy", "modes", "collect").stdout == "collect\n"
    assert "collecting" in house("say", "modes", "one").stderr
    assert house.json("session", "busy", "modes") == {"session": "modes", "busy": "collect"}
    assert house("session", "busy", "modes", "configured").stdout == "configured\n"
    assert "queued, 2nd in line" in house("say", "modes", "two").stderr


def test_a_mode_that_there_is_not_is_wrong_usage_and_says_nothing(house: Cli) -> None:
    said = house("say", "x", "y", "--busy", "stear", rc=2).stderr
    assert "'stear' is not one of queue, steer, interrupt, collect" in said
    assert "is not one of" in house("session", "busy", "x", "stear", rc=2).stderr
    assert "x" not in [row["key"] for row in house.json("sessions")]


def test_words_for_places_and_marks() -> None:
    assert [format_ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th",
    ]  # fmt: skip
    assert (format_waiting_state("queue"), format_waiting_state("steer", 2)) == ("queued", "joins the running turn")
    waiting = {"born": 1, "seq": 7, "waiting": "collect"}
    assert number_waiting([{"seq": 9, "born": 3, "waiting": "queue"}, {"seq": 8, "born": 2}, waiting]) == {7: 1, 9: 2}
    joined = {"role": "user", "at": 0, "joined": True, "automatic": True}
    assert list_remarks(joined) == ["automatic", "joined the running turn"]
