"""CodeCompanion, if its folders are given, with `semel acp` as its agent (`make test-editors`).

Its profile: what others say comes with its next prompt, as a quotation; messages in a row are joined, so an empty line
is between them; and the dialog of a permission stays when it was answered elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from codecompanion_editor import CodeCompanion
from real_editor import ALLOW, kill_and_restart, stream_output
from system_house import DEMO, House, opened, script, until

pytestmark = pytest.mark.editors

ASK = {"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(House(tmp_path_factory.mktemp("house"), DEMO)) as house:
        yield house


@contextmanager
def opened_editor(house: House) -> Iterator[CodeCompanion]:
    editor = CodeCompanion(house)
    try:
        yield editor
    finally:
        editor.end()


@pytest.fixture
def editor(house: House) -> Iterator[CodeCompanion]:
    with opened_editor(house) as editor:
        yield editor


def shows(editor: CodeCompanion, line: str) -> None:
    until(lambda: any(line in lines for lines in editor.answers()), f"{line!r} is shown: {editor.text()}")


def test_a_prompt_shows_thoughts_texts_and_tools_with_their_output_once(house: House, editor: CodeCompanion) -> None:
    session = editor.new()
    steps = ({"think": "hm", "chunks": 2}, {"text": "One\n\ntwo thrée.", "chunks": 5})
    prompt = script(*steps, {"tool": "ls", "output": ["a\n", "b\n", "b\n"]}, "Done.")
    editor.begin(prompt)
    assert editor.stopped() == "success"
    assert editor.answers() == [["hm", "One", "two thrée.", "Execute: ls — a b b", "Done."]]
    assert (house.texts(session), house.texts(session, "user")) == (["One\n\ntwo thrée.", "Done."], [prompt])


def test_a_tools_output_is_shown_once_when_it_has_ended(editor: CodeCompanion, tmp_path: Path) -> None:
    editor.new()
    gate = tmp_path / "go on"
    editor.begin(stream_output(gate))
    shows(editor, "Execute: make")
    gate.touch()
    assert editor.stopped() == "success"
    assert editor.answers() == [["Execute: make — first", "Made."]]


def test_a_permission_is_asked_and_answered(house: House, editor: CodeCompanion) -> None:
    session = editor.new()
    editor.begin(script(ASK))
    until(editor.questions, "the request")
    editor.choose("Reject")
    assert editor.stopped() == "success"
    assert editor.answers() == [["Execute: rm", "Execute: rm (rejected by CodeCompanion.nvim)", "kept"]]
    assert house.texts(session) == ["kept"]


def test_a_permission_that_the_phone_answers_goes_on_and_a_late_key_changes_nothing(
    house: House, editor: CodeCompanion, tmp_path: Path
) -> None:
    """The request stays in the buffer, and its keys stay pressable; its call's line says who has answered."""
    session = editor.new()
    gate = tmp_path / "go on"
    editor.begin(script(ASK, {"tool": "ls"}, {"wait": str(gate)}, "Done."))
    until(editor.questions, "the request")
    answer_from_phone(house, session, "no")
    shows(editor, "Execute: ls")
    editor.choose("Accept")
    late = "Your answer to “rm” came too late: it was rejected by phone before. What you chose changed nothing."
    shows(editor, late)
    gate.touch()
    assert editor.stopped() == "success"
    calls = ["Execute: rm", "Execute: rm (rejected by phone)"]
    assert editor.answers() == [[*calls, "kept", "Execute: ls", late, "Done."]]
    assert house.texts(session) == ["kept", "Done."]


def answer_from_phone(house: House, session: str, option: str) -> None:
    history = house.get(f"/v1/sessions/{session}/history")["items"]
    (item,) = [item for item in history if item["kind"] == "permission"]
    house.post(f"/v1/sessions/{session}/answers", {"item": item["id"], "option": option, "by": "phone"})


def test_what_the_phone_says_during_and_between_prompts_is_shown_once_in_order(
    house: House, editor: CodeCompanion, tmp_path: Path
) -> None:
    session = editor.new()
    gate = tmp_path / "go on"
    editor.begin(script("Begun, ", {"wait": str(gate)}, "and ended."))
    shows(editor, "Begun, ")
    house.say(session, "say: during")
    until(lambda: (house.session(session) or {}).get("waiting"), "it waits")
    gate.touch()
    assert editor.stopped() == "success"
    house.idle(session)
    house.say(session, "say: between")
    house.idle(session)
    assert "between" not in editor.text()
    editor.begin("say: on")
    assert editor.stopped() == "success"
    lines = [line for answer in editor.answers() for line in answer]
    during, between = ("> **user:** say: during", "> **user:** say: between")
    assert lines == ["Begun, and ended.", during, "during", between, "between", "on"]
    assert house.texts(session) == ["Begun, and ended.", "during", "between", "on"]


def test_a_cancelled_prompt_ends_and_keeps_what_was_said(house: House, editor: CodeCompanion) -> None:
    session = editor.new()
    editor.begin(script("Begun.", {"hang": True}))
    shows(editor, "Begun.")
    editor.cancel()
    assert editor.stopped() == "cancelled"
    house.idle(session)
    assert [line for line in editor.answers()[0] if line != "Begun."] == []
    assert house.texts(session) == ["Begun."]


def test_a_resumed_session_shows_what_was_shown_and_goes_on(house: House, editor: CodeCompanion) -> None:
    """/resume shows no tool calls."""
    session = editor.new()
    for prompt in ("say: ha", "say: ha", script("One.", {"tool": "ls", "output": ["a\n"]}, "Two.")):
        editor.begin(prompt)
        assert editor.stopped() == "success"
    with opened_editor(house) as other:
        other.load("say: ha")
        until(lambda: other.answers() == [["ha"], ["ha"], ["One.", "Two."]], f"the history: {other.text()}")
        other.begin("say: on")
        assert other.stopped() == "success"
        assert other.answers() == [["ha"], ["ha"], ["One.", "Two."], ["on"]]
    assert house.texts(session) == ["ha", "ha", "One.", "Two.", "on"]


def test_a_prompt_outlives_a_gateway_that_is_killed_in_its_turn(tmp_path: Path) -> None:
    with opened(House(tmp_path, DEMO)) as house, opened_editor(house) as editor:
        session = editor.new()
        gate = tmp_path / "go on"
        editor.begin(script({"text": "The answer", "chunks": 1}, {"wait": str(gate)}, " is 42."))
        shows(editor, "The answer")
        kill_and_restart(house, gate)
        assert editor.stopped() == "success"
        rows = house.entries(session)
        said = [row["text"] for row in rows if row["role"] == "agent" and not row.get("superseded")]
        assert editor.answers() == [said] == [["The answer is 42."]]
        editor.begin("say: after")
        assert editor.stopped() == "success"
        assert editor.answers() == [["The answer is 42."], ["after"]]
