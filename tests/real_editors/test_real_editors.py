"""Real editors that have started `semel acp`, beside a real gateway with a scripted agent (`make test-editors`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from neovim_editor import Neovim
from real_editor import ALLOW, DisplayedCall, RealEditor, kill_and_restart, stream_output
from sdk_editor import Sdk
from system_house import DEMO, House, opened, script, until

pytestmark = pytest.mark.editors

KINDS: dict[str, Callable[[House], RealEditor]] = {"neovim": Neovim, "sdk": Sdk}
ASK = script({"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]})


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(House(tmp_path_factory.mktemp("house"), DEMO)) as house:
        yield house


class EditorFactory:
    """A house, and the editors of one kind that are opened in it."""

    def __init__(self, house: House, kind: str, stack: ExitStack) -> None:
        self.house = house
        self._open = KINDS[kind]
        self._stack = stack

    def open(self) -> RealEditor:
        editor = self._open(self.house)
        self._stack.callback(editor.end)
        return editor


@pytest.fixture(params=KINDS)
def editors(shared_house: House, request: pytest.FixtureRequest) -> Iterator[EditorFactory]:
    with ExitStack() as stack:
        yield EditorFactory(shared_house, request.param, stack)


@pytest.fixture(params=KINDS)
def own_editors(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EditorFactory]:
    """A house that may be killed."""
    with opened(House(tmp_path, DEMO)) as house, ExitStack() as stack:
        yield EditorFactory(house, request.param, stack)


def sees(editor: RealEditor, text: str, kind: str = "agent") -> None:
    until(lambda: text in editor.texts(kind), f"{text!r} is shown: {editor.texts(kind)}")


def test_a_prompt_shows_thoughts_texts_and_tools_with_their_output_once(editors: EditorFactory) -> None:
    editor = editors.open()
    session = editor.new()
    plan = {"sessionUpdate": "plan", "entries": [{"content": "Look", "priority": "high", "status": "completed"}]}
    editor.begin(
        script(
            {"think": "hm", "chunks": 2},
            {"text": "One\n\ntwo thrée.", "chunks": 5},
            {"update": plan},
            {"tool": "ls", "output": ["a\n", "b\n", "b\n"]},
            "Done.",
        )
    )
    assert editor.stopped() == "end_turn"
    assert (editor.texts(), editor.texts("thought"), editor.texts("user")) == (
        ["One\n\ntwo thrée.", "Done."],
        ["hm"],
        [],
    )
    assert editor.calls() == [DisplayedCall("completed", "ls", "a\nb\nb")]
    assert editors.house.texts(session) == editor.texts()


def test_a_tools_output_is_shown_while_it_runs(editors: EditorFactory, tmp_path: Path) -> None:
    editor = editors.open()
    editor.new()
    gate = tmp_path / "go on"
    editor.begin(stream_output(gate))
    until(lambda: DisplayedCall("in_progress", "make", "first") in editor.calls(), "its output")
    gate.touch()
    assert editor.stopped() == "end_turn"
    assert (editor.calls(), editor.texts()) == ([DisplayedCall("completed", "make", "first")], ["Made."])


def test_a_permission_is_asked_and_answered(editors: EditorFactory) -> None:
    editor = editors.open()
    editor.new()
    editor.begin(ASK)
    until(lambda: editor.questions() == ["Yes", "No"], "the question")
    editor.choose("No")
    assert editor.stopped() == "end_turn"
    assert (editor.texts(), editor.questions()) == (["kept"], [])


def test_a_permission_that_the_phone_answers_is_asked_no_longer(editors: EditorFactory) -> None:
    editor = editors.open()
    session = editor.new()
    editor.begin(ASK)
    until(editor.questions, "the question")
    history = editors.house.get(f"/v1/sessions/{session}/history")["items"]
    (item,) = [item for item in history if item["kind"] == "permission"]
    editors.house.post(f"/v1/sessions/{session}/answers", {"item": item["id"], "option": "yes", "by": "phone"})
    assert editor.stopped() == "end_turn"
    assert (editor.texts(), editor.questions()) == (["gone"], [])


def test_a_cancelled_prompt_ends_and_keeps_what_was_said(editors: EditorFactory) -> None:
    editor = editors.open()
    editor.new()
    editor.begin(script("Begun.", {"hang": True}))
    sees(editor, "Begun.")
    editor.cancel()
    assert editor.stopped() == "cancelled"
    assert [text for text in editor.texts() if not text.startswith("Stopped by")] == ["Begun."]


def test_a_question_of_a_cancelled_turn_is_asked_no_longer(editors: EditorFactory) -> None:
    editor = editors.open()
    session = editor.new()
    editor.begin(ASK)
    until(editor.questions, "the question")
    editor.cancel()
    assert editor.stopped() == "cancelled"
    until(lambda: not editor.questions(), "no question")
    editors.house.idle(session)
    assert not {"gone", "kept"} & set(editor.texts())


def test_two_editors_and_a_phone_see_each_text_once(editors: EditorFactory, tmp_path: Path) -> None:
    """The second editor loads the session in mid-turn."""
    editor, other = editors.open(), editors.open()
    session = editor.new()
    gate = tmp_path / "go on"
    editor.begin(script({"tool": "ls", "output": ["a\n"]}, "Begun, ", {"wait": str(gate)}, "and ended."))
    sees(editor, "Begun, ")
    other.load(session)
    sees(other, "Begun, ")
    gate.touch()
    assert editor.stopped() == "end_turn"
    editors.house.say(session, "say: from the phone")
    editors.house.idle(session)
    for one in (editor, other):
        if not one.sees_others_at_once:
            one.begin("say: on")
            assert one.stopped() == "end_turn"
        sees(one, "from the phone")
        assert [text for text in one.texts() if text != "on"] == ["Begun, and ended.", "from the phone"]
        assert one.calls() == [DisplayedCall("completed", "ls", "a")]
        assert one.texts("user").count("say: from the phone") == 1
    assert not [text for text in editor.texts("user") if "Begun" in text], "its own prompt is not echoed"


def test_a_loaded_session_shows_what_was_shown(editors: EditorFactory) -> None:
    editor, other = editors.open(), editors.open()
    session = editor.new()
    for steps in (({"think": "hm"}, {"tool": "ls", "output": ["a\n"]}, "ha"), ("ha",)):
        editor.begin(script(*steps))
        assert editor.stopped() == "end_turn"
    other.load(session)
    until(lambda: other.texts() == ["ha", "ha"], "the history")
    assert (other.texts("thought"), other.calls()) == (editor.texts("thought"), editor.calls())
    assert len(other.texts("user")) == 2
    other.begin("say: on")
    assert other.stopped() == "end_turn"
    assert other.texts() == ["ha", "ha", "on"]


def test_a_prompt_outlives_a_gateway_that_is_killed_in_its_turn(own_editors: EditorFactory, tmp_path: Path) -> None:
    house, editor = own_editors.house, own_editors.open()
    session = editor.new()
    gate = tmp_path / "go on"
    editor.begin(script({"text": "The answer", "chunks": 1}, {"wait": str(gate)}, " is 42."))
    sees(editor, "The answer")
    kill_and_restart(house, gate)
    assert editor.stopped() == "end_turn"
    rows = house.entries(session)
    said = [row["text"] for row in rows if row["role"] == "agent" and not row.get("superseded")]
    assert editor.texts() == said == ["The answer is 42."]
    editor.begin("say: after")
    assert editor.stopped() == "end_turn"
    assert editor.texts() == ["The answer is 42.", "after"]


def test_editors_of_two_kinds_share_a_session_and_its_questions(shared_house: House) -> None:
    """A question is asked in both. What is answered in one is asked no longer in the other.

    Semel tells whoever writes meanwhile that this does not answer the question.
    """
    with ExitStack() as stack:
        neovim, sdk = (EditorFactory(shared_house, kind, stack).open() for kind in ("neovim", "sdk"))
        session = neovim.new()
        neovim.begin(script("May I?", {"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]}))
        until(neovim.questions, "the question")
        sdk.load(session)
        sdk.begin("say: on")
        until(sdk.questions, "the question in the other editor")
        sdk.choose("Yes")
        assert neovim.stopped() == sdk.stopped() == "end_turn"
        sees(neovim, "on")
        said = ["May I?", "gone", "on"]
        assert neovim.texts() == shared_house.texts(session) == said
        assert [text for text in sdk.texts() if "does not answer the request" not in text] == said
        assert neovim.questions() == sdk.questions() == []
        assert [call.title for call in neovim.calls()] == ["rm (allowed by sdk)"]
