"""acpx from npm, with `semel acp` as its agent (`make test-editors`): each prompt is another process and connection."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from acpx_editor import Acpx
from real_editor import ALLOW, DisplayedCall, kill_and_restart, stream_output
from system_house import DEMO, House, opened, script, until

pytestmark = pytest.mark.editors

ASK = {"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]}
Open = Callable[..., Acpx]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with opened(House(tmp_path, DEMO)) as house:
        yield house


@pytest.fixture
def acpx(house: House) -> Iterator[Open]:
    numbers = itertools.count()
    with ExitStack() as stack:

        def open(*args: str) -> Acpx:
            editor = Acpx(house, house.home / f"acpx {next(numbers)}", *args)
            stack.callback(editor.end)
            return editor

        yield open


def sees(editor: Acpx, text: str) -> None:
    until(lambda: text in editor.texts(), f"{text!r} is shown")


def test_each_prompt_shows_what_is_new_once_and_is_not_echoed(house: House, acpx: Open) -> None:
    editor = acpx()
    session = editor.new()
    editor.begin(
        script({"think": "hm"}, {"text": "One\n\ntwo.", "chunks": 5}, {"tool": "ls", "output": ["a\n", "a\n"]}, ASK)
    )
    assert editor.stopped() == "end_turn"
    assert (editor.texts(), editor.texts("thought"), editor.texts("user")) == (["One\n\ntwo.", "gone"], ["hm"], [])
    assert DisplayedCall("completed", "ls", "a\na") in editor.calls()
    assert house.texts(session) == editor.texts()
    house.say(session, "say: from the phone")
    house.idle(session)
    editor.begin("say: on")
    assert editor.stopped() == "end_turn"
    assert editor.texts()[-1] == "on" and "gone" not in editor.texts()


def test_a_tools_output_is_shown_while_it_runs(house: House, acpx: Open) -> None:
    gate = house.home / "go on"
    editor = acpx()
    editor.new()
    editor.begin(stream_output(gate))
    until(lambda: DisplayedCall("in_progress", "make", "first") in editor.calls(), "its output")
    gate.touch()
    assert editor.stopped() == "end_turn"
    assert (editor.calls(), editor.texts()) == ([DisplayedCall("completed", "make", "first")], ["Made."])


def test_a_denied_permission_is_denied(acpx: Open) -> None:
    editor = acpx("--deny-all")
    editor.new()
    editor.begin(script(ASK))
    assert editor.stopped() == "end_turn"
    assert editor.texts() == ["kept"]


def test_a_cancelled_prompt_ends_as_cancelled(acpx: Open) -> None:
    editor = acpx()
    editor.new()
    editor.begin(script("Begun.", {"hang": True}))
    sees(editor, "Begun.")
    editor.cancel()
    assert editor.stopped() == "cancelled"
    assert editor.texts()[0] == "Begun."


def test_a_prompt_outlives_a_gateway_that_is_killed_in_its_turn(house: House, acpx: Open) -> None:
    gate = house.home / "go on"
    editor = acpx()
    editor.new()
    editor.begin(script({"text": "The answer", "chunks": 1}, {"wait": str(gate)}, " is 42."))
    sees(editor, "The answer")
    kill_and_restart(house, gate)
    assert editor.stopped() == "end_turn"
    assert editor.texts() == ["The answer is 42."]


def test_a_second_acpx_attaches_to_the_session_in_mid_turn(house: House, acpx: Open) -> None:
    gate = house.home / "go on"
    editor, other = acpx(), acpx()
    session = editor.new()
    editor.begin(script("Begun, ", {"wait": str(gate)}, "and ended."))
    sees(editor, "Begun, ")
    other.attach(session)
    other.begin("say: joined")
    until(lambda: (house.session(session) or {}).get("waiting"), "the second prompt waits")
    gate.touch()
    assert (editor.stopped(), other.stopped()) == ("end_turn", "end_turn")
    assert editor.texts()[0] == "Begun, and ended." and other.texts()[-1] == "joined"
    assert house.texts(session) == ["Begun, and ended.", "joined"]
