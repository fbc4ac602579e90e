"""`semel chat` with odd data: a row that cannot be drawn is one row, and what is asked is seen."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from cli_house import PERMISSION
from test_chat import app_of, chat, footer, house, idle, rows, seen, type_in
from textual import events
from textual.widgets import OptionList, Static

from semel.faces.run import RunningGateway
from semel.faces.terminal import lines
from semel.faces.terminal.conversation import FRAME_INTERVAL_S, ROWS_PER_FRAME, ConversationView
from semel.faces.terminal.question import Question, format_input
from semel.faces.terminal.rows import DRAW_FAILED, ItemWidget, RowWidget, make_widget
from semel.law.permission_questions import MAX_INPUT_CHARS
from semel.testing.scripted_agent import prompt

Json = dict[str, Any]
__all__ = ["house"]

ODD_PLAN = {"method": "session/update", "params": {"update": {"sessionUpdate": "plan", "entries": [None]}}}
ODD_ASK = {
    "id": "odd-1", "method": "session/request_permission",
    "params": {"toolCall": {"toolCallId": "t", "title": {"x": 1}, "rawInput": {"description": " " * 5000, "cmd": "rm"}},
               "options": [{"optionId": "y"}, {"optionId": 7, "name": "seven"}, {"name": {}}, None]},
}  # fmt: skip


def raw(message: Json) -> Json:
    return {"raw": json.dumps({"jsonrpc": "2.0", **message})}


def script(*steps: Any) -> str:
    return f"[[script {json.dumps({'steps': steps})}]]"


async def test_an_agents_odd_plan_and_request_stop_nothing(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(
            pilot, script(raw(ODD_PLAN), "before", raw(ODD_ASK), {"sleep": 0.2}, {"tool": "ls"}, {"hang": True})
        )
        question = pilot.app.query_one(Question)
        await seen(pilot, lambda: question.display, "the question")
        options = question.query_one(OptionList)
        assert [str(options.get_option_at_index(n).prompt) for n in range(options.option_count)] == ["a  y"]
        assert "cmd: rm" in str(question.query_one("#asked", Static).content)
        assert "before" in rows(pilot)
        await pilot.press("escape")
        await seen(pilot, lambda: idle(pilot), "the end")


async def test_escape_closes_what_is_open_before_it_stops_the_turn(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, prompt("begun", {"hang": True}))
        await seen(pilot, lambda: rows(pilot)[-1:] == ["begun"], "the agent's begin")
        await pilot.press("ctrl+o", "ctrl+t")
        pane = app_of(pilot).pane
        assert pane.prompt.border_title and pane.conversation.has_opened_all
        await seen(pilot, lambda: "esc close" in footer(pilot) and "esc stop" not in footer(pilot), "what Esc does")
        await pilot.press("escape")
        assert not pane.prompt.border_title and pane.conversation.has_opened_all
        await pilot.press("escape")
        await seen(pilot, lambda: "esc stop" in footer(pilot) and not pane.is_open, "that Esc stops now")
        assert pane.is_running
        await pilot.press("escape")
        await seen(pilot, lambda: idle(pilot) and not pane.is_running, "the end")
        assert rows(pilot)[-1] == "Stopped by ann."


@pytest.mark.parametrize("entries", [[None], 7, [[]]])
async def test_a_row_that_cannot_be_drawn_says_so_and_the_next_is_drawn(
    house: RunningGateway,
    tmp_path: Path,
    entries: Any,
) -> None:
    bad: Json = {"id": 901, "born": 1, "kind": "plan", "text": "", "entries": entries}
    good: Json = {"id": 902, "born": 2, "kind": "plan", "text": "", "entries": [{"content": "one"}]}
    async with chat(tmp_path) as pilot:
        await seen(pilot, lambda: pilot.app.query_one(".log"), "the screen")
        widgets = [make_widget(row) for row in (bad, good)]
        await pilot.app.query_one(".log").mount(*widgets)
        await pilot.pause()
        assert str(widgets[0].query_one(".head", Static).content) == DRAW_FAILED
        assert rows(pilot)[-1] == "☐ one"
        widgets[0].data = good
        await widgets[0].draw()
        assert rows(pilot)[-2:] == ["☐ one", "☐ one"]
        assert isinstance(widgets[0], RowWidget)


def test_an_option_without_a_name_is_called_by_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    row: Json = {"id": 3, "kind": "permission", "state": "open", "title": "Run it?", "options": [{"optionId": "y"}]}
    row["first"] = 7
    assert lines.LineChat(Path("/nowhere"), "s", "ann")._print_row(row)
    assert capsys.readouterr().err == "[the agent asks: Run it?  (/7 y)]\n"


def test_the_options_of_a_question_are_told_apart_from_those_of_every_other(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[Json] = [{"id": 3, "kind": "ask", "state": "open", "text": "?", "options": [{"optionId": "y"}]}] * 2
    printed = lines.LineChat(Path("/nowhere"), "s", "ann")
    for n, row in enumerate(rows):
        printed._print_row({**row, "id": 3 + n})
    assert printed._answers_by_label == {"3-1": (3, "y"), "4-1": (4, "y")}
    assert "(/3-1 y)" in capsys.readouterr().err


def test_the_panel_shows_what_is_run_and_says_what_it_leaves_out() -> None:
    assert (
        format_input({"description": "List" + " " * 600, "command": "rm -rf ~"})
        == "command: rm -rf ~\ndescription: List "
    )
    assert format_input({"command": "x" * (MAX_INPUT_CHARS + 5)}).endswith(
        "… 5 characters are left out here; an owner reads them on the page"
    )
    assert format_input(None) == "" and format_input("ls") == "ls"


async def test_new_text_is_followed_after_the_screen_became_too_low_for_the_conversation(
    house: RunningGateway, tmp_path: Path
) -> None:
    async with chat(tmp_path, size=(90, 30)) as pilot:
        conversation = pilot.app.query_one(ConversationView)
        for number in (1, 2, 3):
            await house.gateway.say("main", f"say: {number}", sender="bob")
            await seen(pilot, lambda number=number: rows(pilot)[-1:] == [str(number)] and idle(pilot), "the answer")
        await pilot.pause()
        assert conversation.max_scroll_y == 0
        await pilot.resize_terminal(90, 16)
        await seen(pilot, lambda: conversation.max_scroll_y > 0, "that it is too low")
        await pilot.pause(0.2)  # for what scrolling begins
        await house.gateway.say("main", "say: 4", sender="bob")
        await seen(pilot, lambda: rows(pilot)[-1:] == ["4"] and idle(pilot), "the answer")
        await pilot.pause()
        assert conversation.is_at_bottom and not conversation.has_unseen_rows


@pytest.mark.parametrize("move", ["pageup", "narrow"])
async def test_who_has_the_whole_conversation_in_sight_follows_new_text_when_the_screen_becomes_smaller(
    house: RunningGateway, tmp_path: Path, move: str
) -> None:
    new_text = "\n".join(f"a long line of a new file, the one with number {number}" for number in range(60))
    call = {"id": 1, "born": 1, "rev": 1, "kind": "tool", "title": "Edit", "status": "done", "text": ""}
    call["diffs"] = [{"path": "a.py", "oldText": "", "newText": new_text}]
    async with chat(tmp_path, size=(160, 45)) as pilot:
        conversation = pilot.app.query_one(ConversationView)
        await seen(pilot, lambda: conversation.link.state == "new", "the session")
        conversation._take_changes([call], "live")
        await house.gateway.say("main", "say: 1", sender="bob")
        await seen(pilot, lambda: rows(pilot)[-1:] == ["1"] and idle(pilot), "the answer")
        if move == "narrow":  # there the reader looks at older text, and has all in sight again then
            await pilot.resize_terminal(60, 25)
            await pilot.press("pageup", "pageup")
            await pilot.resize_terminal(160, 45)
        else:
            await pilot.press(move)
        await pilot.pause()
        assert conversation.max_scroll_y == 0
        await pilot.resize_terminal(60, 25)
        await seen(pilot, lambda: conversation.max_scroll_y > 0, "that it is too low")
        assert conversation.is_at_bottom
        await house.gateway.say("main", "say: 4", sender="bob")
        await seen(pilot, lambda: rows(pilot)[-1:] == ["4"] and idle(pilot), "the answer")
        assert conversation.is_at_bottom and not conversation.has_unseen_rows
        await pilot.press("pagedown")
        await house.gateway.say("main", "say: 5", sender="bob")
        await seen(pilot, lambda: rows(pilot)[-1:] == ["5"] and idle(pilot), "the next one")
        assert conversation.is_at_bottom and not conversation.has_unseen_rows, "PageDown at the end leaves it there"


async def test_the_key_behind_tab_answers_the_request_however_fast_it_comes(
    house: RunningGateway, tmp_path: Path
) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, PERMISSION)
        await seen(pilot, lambda: pilot.app.query_one(Question).display, "the request")
        for key, character in (("tab", "\t"), ("a", "a")):
            pilot.app.post_message(events.Key(key, character))
        await seen(pilot, lambda: not pilot.app.query_one(Question).display and idle(pilot), "the answer")
        assert not app_of(pilot).pane.prompt.text


async def test_hundreds_of_tool_calls_are_drawn_and_opened_some_in_each_frame(
    house: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []  # how many rows were drawn or opened without a pause
    draw, pause = RowWidget.draw, asyncio.sleep

    async def count_draw(row: RowWidget) -> None:
        steps[-1] += 1
        await draw(row)

    async def count_pause(seconds: float) -> None:
        if seconds == FRAME_INTERVAL_S:
            steps.append(0)
        await pause(seconds)

    async with chat(tmp_path) as pilot:
        conversation = pilot.app.query_one(ConversationView)
        await seen(pilot, lambda: conversation.link.state == "new", "the session")
        call = {"rev": 1, "kind": "tool", "title": "run", "status": "done", "text": "a\nb"}
        calls = [{**call, "id": number, "born": number} for number in range(1, 301)]
        conversation._take_changes(calls[:1], "live")
        await seen(pilot, lambda: len(pilot.app.query(ItemWidget)) == 1, "the first call")
        steps.append(0)
        monkeypatch.setattr(RowWidget, "draw", count_draw)
        monkeypatch.setattr("semel.faces.terminal.conversation.asyncio.sleep", count_pause)
        conversation._take_changes(calls, "live")
        await seen(pilot, lambda: len(pilot.app.query(ItemWidget)) == 300, "the calls")
        conversation.open_all()
        await seen(pilot, lambda: all(row.opened for row in pilot.app.query(ItemWidget)), "their details")
        assert max(steps) <= 2 * ROWS_PER_FRAME and sum(steps) >= 600


async def test_with_a_draft_ctrl_d_deletes_and_the_footer_does_not_say_that_it_leaves(
    house: RunningGateway, tmp_path: Path
) -> None:
    async with chat(tmp_path) as pilot:
        await seen(pilot, lambda: "leave" in footer(pilot), "the key to leave")
        await pilot.press("a", "b", "left")
        await seen(pilot, lambda: "leave" not in footer(pilot), "that the key does not leave")
        await pilot.press("ctrl+d")
        await seen(pilot, lambda: app_of(pilot).pane.prompt.text == "a", "that it deletes")
        await pilot.press("backspace")
        await seen(pilot, lambda: "leave" in footer(pilot), "the key to leave, again")
