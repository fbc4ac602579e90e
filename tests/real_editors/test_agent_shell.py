"""agent-shell with `semel acp` before its agent's command, where its folders are given (`AGENT_SHELL_PATH`).

What its buffer shows is compared with the ledger: each text once, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_shell_editor import AgentShell
from real_editor import ALLOW, kill_and_restart, stream_output
from system_house import DEMO, House, opened, script, until

pytestmark = pytest.mark.editors

ASK = script({"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]})


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with opened(House(tmp_path, DEMO)) as house:
        yield house


@pytest.fixture
def shell(house: House) -> Iterator[AgentShell]:
    shell = AgentShell(house)
    try:
        yield shell
        assert shell.faults() == []
    finally:
        shell.end()


def check_shown(shell: AgentShell, texts: list[str]) -> None:
    """The shell shows these texts, each as often as it is among them, in this order."""
    shown = shell.shown()
    assert {text: shown.count(text) for text in texts} == {text: texts.count(text) for text in texts}
    places = [shown.index(text) for text in texts]
    assert places == sorted(places), shown


def test_a_turn_shows_its_thought_its_texts_and_its_tools_output_once(house: House, shell: AgentShell) -> None:
    session = shell.new()
    shell.begin(
        script(
            {"think": "hm, well", "chunks": 2},
            {"text": "One, two, thrée.", "chunks": 5},
            {"tool": "ls", "output": ["alpha\n", "beta\n"]},
            "Done.",
        )
    )
    shell.wait()
    said = house.texts(session)
    assert said == ["One, two, thrée.", "Done."]
    check_shown(shell, ["hm, well", said[0], "alpha", "beta", said[1]])


def test_a_tools_output_is_shown_while_it_runs_and_once(shell: AgentShell, tmp_path: Path) -> None:
    shell.new()
    gate = tmp_path / "go on"
    shell.begin(stream_output(gate))
    shell.sees("first")
    gate.touch()
    shell.wait()
    check_shown(shell, ["first", "Made."])


def test_a_permission_is_answered_in_the_editor_and_by_the_phone(house: House, shell: AgentShell) -> None:
    session = shell.new()
    shell.begin(ASK)
    until(lambda: sorted(shell.questions()) == ["No", "Yes"], "the question")
    shell.choose("Yes")
    shell.wait()
    assert (house.texts(session), shell.questions()) == (["gone"], [])
    shell.begin(ASK)
    until(shell.questions, "the question")
    history = house.get(f"/v1/sessions/{session}/history")["items"]
    item = [item for item in history if item["kind"] == "permission"][-1]
    house.post(f"/v1/sessions/{session}/answers", {"item": item["id"], "option": "no", "by": "phone"})
    shell.wait()
    assert (house.texts(session), shell.questions()) == (["gone", "kept"], [])
    check_shown(shell, ["gone", "kept"])


def test_what_the_phone_says_is_drawn_as_a_turn_while_the_editor_is_idle(house: House, shell: AgentShell) -> None:
    session = shell.new()
    shell.begin(script("Mine."))
    shell.wait()
    house.say(session, script("Theirs.").replace("]]", "]] Go on."))
    shell.sees("Go on.")
    shell.wait()
    shell.begin(script("Mine again."))
    shell.wait()
    assert house.texts(session) == ["Mine.", "Theirs.", "Mine again."]
    check_shown(shell, ["Mine.", "Go on.", "Mine again."])


def test_a_prompt_outlives_a_gateway_that_is_killed_in_its_turn(
    house: House, shell: AgentShell, tmp_path: Path
) -> None:
    session = shell.new()
    gate = tmp_path / "go on"
    shell.begin(script({"text": "The answer", "chunks": 1}, {"wait": str(gate)}, " is 42."))
    shell.sees("The answer")
    kill_and_restart(house, gate)
    shell.wait()
    rows = house.entries(session)
    said = [row["text"] for row in rows if row["role"] == "agent" and not row.get("superseded")]
    assert said == ["The answer is 42."]
    shell.begin(script("After."))
    shell.wait()
    check_shown(shell, ["The answer", "is 42.", "After."])
