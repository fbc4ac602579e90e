"""Our own client for Neovim: pick a session, set a mode, quote a file, and go on after the agent has ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from neovim_editor import Neovim
from real_editor import ALLOW, DisplayedCall, acp_command
from system_house import DEMO, House, left, opened, script, until

from semel.testing import scripted_agent

pytestmark = pytest.mark.editors


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(House(tmp_path_factory.mktemp("house"), DEMO)) as house:
        yield house


@pytest.fixture
def neovim(house: House) -> Iterator[Neovim]:
    editor = Neovim(house)
    try:
        yield editor
    finally:
        editor.end()


def test_a_session_is_picked_from_those_of_the_folder_and_loaded(house: House, neovim: Neovim, tmp_path: Path) -> None:
    session = neovim.new()
    neovim.begin("say: remember")
    neovim.stopped()
    other = Neovim(house)
    try:
        other.run("vim.cmd.cd(...)", str(tmp_path))
        other.run("_G.picks = {...}; vim.cmd('Semel sessions')", session)
        until(lambda: "semel: there is no session to choose here" in other.notes(), "that there is none")
        other.run("vim.cmd('Semel! sessions')")
        until(lambda: other.texts() == ["remember"], "the session is loaded")
        assert other.run("return semel.last") == session
        other.run("vim.cmd('Semel'); vim.cmd('bwipeout!')")
        other.load(session)
        until(lambda: other.texts() == ["remember"], "the session is opened anew")
    finally:
        other.end()


def test_a_mode_is_set_and_shown(house: House, neovim: Neovim) -> None:
    session = neovim.new()
    neovim.run("_G.picks = {'Mode', 'Ask'}; vim.cmd('Semel set')")
    until(lambda: (house.session(session) or {}).get("mode") == "ask", "the mode of the session")
    until(lambda: " ask" in neovim.run("return semel.state()"), "the mode in the state line")


def test_lines_of_a_file_are_quoted_in_the_prompt_and_sent_with_it(
    house: House, neovim: Neovim, tmp_path: Path
) -> None:
    file = tmp_path / "garden.py"
    file.write_text("one = 1\ntwo = 2\nthree = 3\n")
    session = neovim.new()
    neovim.run("vim.cmd('topleft split ' .. ...); vim.cmd('2,3Semel quote')", str(file))
    neovim.run("vim.cmd('stopinsert'); vim.api.nvim_feedkeys(vim.keycode('GoExplain.<Esc><CR>'), 'x', false)")
    neovim.stopped()
    (said,) = house.texts(session, "user")
    assert said.strip() == f"{file}:2-3\n```python\ntwo = 2\nthree = 3\n```\n\nExplain."


def test_an_agent_that_is_killed_is_started_again_by_the_next_prompt(house: House, neovim: Neovim) -> None:
    neovim.new()
    neovim.begin("say: before")
    neovim.stopped()
    kill_agents(house)
    until(lambda: any("has ended" in text for text in neovim.texts("notice")), "a notice")
    neovim.begin("say: after")
    until(lambda: neovim.texts() == ["before", "after"], "the session goes on")
    neovim.stopped()


def test_a_prompt_for_an_agent_that_cannot_start_again_is_given_back(house: House, tmp_path: Path) -> None:
    barrier = tmp_path / "barrier"
    start = 'test ! -e "$0" || exit 3; exec "$@"'
    editor = Neovim(house, ["sh", "-c", start, str(barrier), *acp_command(house)])
    try:
        editor.new()
        barrier.touch()
        kill_agents(house)
        until(lambda: any("has ended" in text for text in editor.texts("notice")), "a notice")
        editor.begin("say: kept")
        until(lambda: any("exit code 3" in note for note in editor.notes()), "why it did not start")
        assert editor.run("return vim.api.nvim_buf_get_lines(0, 0, 1, false)") == ["say: kept"]
        barrier.unlink()
        editor.run("require('semel').send_input()")
        until(lambda: editor.texts() == ["kept"], "the answer")
    finally:
        editor.end()


def kill_agents(house: House) -> None:
    """Kill what editors have started."""
    for process in left(house):
        if " acp " in process:
            os.kill(int(process.split()[0]), signal.SIGKILL)


def test_a_cancel_leaves_the_question_of_another_persons_turn_open(house: House, neovim: Neovim) -> None:
    session = neovim.new()
    house.say(session, script({"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]}))
    until(neovim.questions, "the question")
    neovim.begin("/queue say: mine")
    until(lambda: (house.session(session) or {}).get("waiting"), "the prompt waits")
    neovim.cancel()
    until(lambda: house.texts(session, "user")[1:], "the prompt is heard")
    assert neovim.questions() == ["Yes", "No"]
    neovim.choose("Yes")
    until(lambda: "gone" in neovim.texts(), "the answer counts")
    assert neovim.stopped() in ("cancelled", "end_turn"), "stopped when it began, if it was not faster"


def test_without_a_gateway_the_same_client_shows_the_same(house: House) -> None:
    """`semel acp --alone` before the command of any agent."""
    alone = (*acp_command(house)[:4], "--alone", "--")
    editor = Neovim(house, [*alone, *scripted_agent.command(state=house.home / "alone")])
    try:
        editor.new()
        editor.begin(script({"think": "hm"}, {"tool": "ls", "output": ["a\n", "a\n"]}, {"permission": "rm"}, "Done."))
        until(editor.questions, "the question")
        editor.choose("Reject")
        assert editor.stopped() == "end_turn"
        assert (editor.texts("thought"), editor.texts()) == (["hm"], ["Done."])
        assert editor.calls()[0] == DisplayedCall("completed", "ls", "a\na")
    finally:
        editor.end()


def test_a_command_that_does_not_exist_is_told(house: House) -> None:
    editor = Neovim(house, ["/no/such/semel", "acp"])
    try:
        editor.run("vim.cmd('Semel')")
        assert any("/no/such/semel cannot be started" in note for note in editor.notes())
    finally:
        editor.end()
