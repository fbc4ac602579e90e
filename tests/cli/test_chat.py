"""`semel chat` on a full screen, over a real gateway with the scripted agent."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from cli_house import PATIENCE, PERMISSION, SCRIPTED, Cli, until
from textual.pilot import Pilot
from textual.widgets import Markdown, OptionList, Static
from textual.widgets._footer import FooterKey

from semel.faces.client import AsyncClient
from semel.faces.config.load import load_config
from semel.faces.run import RunningGateway, open_gateway
from semel.faces.terminal.app import ChatApp
from semel.faces.terminal.conversation import ConversationView
from semel.faces.terminal.line_text import LineText
from semel.faces.terminal.pane import SessionPane
from semel.faces.terminal.prompt import Prompt
from semel.faces.terminal.question import OPTION_KEYS, Question
from semel.faces.terminal.rows import AgentWidget, HeadLine, ItemWidget, RowWidget
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.testing.scripted_agent import prompt


def house_in(data: Path) -> contextlib.AbstractAsyncContextManager[RunningGateway]:
    config = data / "semel.toml"
    config.write_text(SCRIPTED)
    return open_gateway(load_config(config, data_dir=data, listen="127.0.0.1:0", env={"HOME": str(data)}))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with house_in(tmp_path) as house:
        yield house
        assert (await house.gateway.doctor())["ok"]


@contextlib.asynccontextmanager
async def chat(data: Path, session: str = "main", size: tuple[int, int] = (90, 30)) -> AsyncIterator[Pilot[None]]:
    app = ChatApp(data, session, "ann")
    async with app.run_test(size=size) as pilot:
        yield pilot


async def seen(pilot: Pilot[None], what: Callable[[], Any], why: str) -> None:
    """Wait until it is on the screen."""
    async with asyncio.timeout(PATIENCE):
        while not what():
            await pilot.pause(0.02)
    await pilot.pause()
    assert what(), why


async def until_read(data: Path, session: str, *, is_read: bool = True) -> None:
    """Wait until the session has no unread entries on other faces or, with `is_read` false, until it has some."""
    async with AsyncClient(data) as client, asyncio.timeout(PATIENCE):
        async for _ in client.watch_sessions():
            if ((await client.session(session)).unread == 0) == is_read:
                return


async def type_in(pilot: Pilot[None], text: str) -> None:
    app_of(pilot).pane.prompt.insert(text)
    await pilot.press("enter")


def rows(pilot: Pilot[None]) -> list[str]:
    """The rows as they stand on the screen, one text each."""
    return [_text(row) for row in pilot.app.query(RowWidget) if row.query(".body")]


def rows_of(pane: SessionPane) -> list[str]:
    return [_text(row) for row in pane.query(RowWidget) if row.query(".body")]


def _text(row: RowWidget) -> str:
    if isinstance(row, AgentWidget):
        return row.source
    return row.query_one(LineText).content


def has_colours(row: RowWidget) -> bool:
    body = row.query_one(LineText)
    styles = [segment.style for y in range(body.size.height) for segment in body.render_line(y)]
    return len({style.color for style in styles if style}) > 1


def lines_in_sight(pilot: Pilot[None]) -> list[int]:
    """The numbers of the lines "Line 7." that are on the screen."""
    lines = [strip.text.strip(" ▁▂▃▄▅▆▇█") for strip in pilot.app.screen._compositor.render_strips()]
    return [int(line[5:-1]) for line in lines if re.fullmatch(r"Line \d+\.", line)]


def heads(pilot: Pilot[None]) -> list[str]:
    """Who each row is from, and what is to be known about it."""
    return [str(row.query_one(".head", Static).content) for row in pilot.app.query(RowWidget) if row.query(".head")]


def footer(pilot: Pilot[None]) -> str:
    """The keys in the last line."""
    return " ".join(f"{key.key_display} {key.description}" for key in pilot.app.query(FooterKey))


def app_of(pilot: Pilot[None]) -> ChatApp:
    assert isinstance(pilot.app, ChatApp)
    return pilot.app


def idle(pilot: Pilot[None]) -> bool:
    app = app_of(pilot)
    return app.pane.link.state == "connected" and not app.pane.link.view.is_busy and app.pane.conversation.is_drawn


async def test_what_is_said_and_answered_stands_on_the_screen_once(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, "say: ha, ha")
        await seen(pilot, lambda: len(rows(pilot)) == 2 and idle(pilot), "both")
        assert rows(pilot) == ["say: ha, ha", "ha, ha"]
        head = pilot.app.query(HeadLine).first()
        assert re.fullmatch(r"You +\d\d:\d\d", str(head.render())), "the time at the right end"
        await pilot.resize_terminal(60, 30)
        assert str(head.render()) == "You"
        await until_read(tmp_path, "main")
        await house.gateway.say("main", "/help", sender="bob")
        await seen(pilot, lambda: heads(pilot) == ["You", "demo", "bob", "Semel"], "the names, as on the page")
        await until_read(tmp_path, "main")
        assert pilot.app.query_one(Prompt).text == ""


async def test_a_session_is_seen_as_it_was_by_who_comes_later(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, prompt("Let me count.", {"tool": "count", "output": ["1\n2\n"]}, "I counted."))
        await seen(pilot, lambda: len(rows(pilot)) >= 3 and idle(pilot), "the tool call")
        live = rows(pilot)
    async with chat(tmp_path) as pilot:
        await seen(pilot, lambda: rows(pilot) == live, "the same rows")


async def test_enter_sends_and_ctrl_j_is_a_new_line(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        await pilot.press("a", "ctrl+j", "b")
        assert pilot.app.query_one(Prompt).text == "a\nb"
        await pilot.press("enter")
        await seen(pilot, lambda: rows(pilot) and idle(pilot), "the message")
        assert rows(pilot)[0] == "a\nb"


async def test_up_brings_back_what_was_said_and_down_the_draft(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        prompt = pilot.app.query_one(Prompt)
        for text in ("one", "two"):
            await type_in(pilot, text)
            await seen(pilot, lambda: text in rows(pilot) and idle(pilot), "it")  # noqa: B023
        prompt.insert("draft")
        await pilot.press("up")
        assert prompt.text == "two"
        await pilot.press("up", "up")
        assert prompt.text == "one"
        await pilot.press("down", "down")
        assert prompt.text == "draft"


async def test_a_question_on_a_low_terminal_leaves_the_prompt_in_sight(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path, size=(30, 12)) as pilot:
        await type_in(pilot, PERMISSION)
        question = pilot.app.query_one(Question)
        await seen(pilot, lambda: question.display, "the question")
        await pilot.pause()
        prompt, options = pilot.app.query_one("#prompt"), question.query_one(OptionList)
        assert pilot.app.screen.region.contains_region(prompt.region) and prompt.region.height >= 1
        assert question.region.contains_region(options.region) and options.region.height >= 2


async def test_a_narrow_footer_shows_whole_keys_and_the_urgent_ones(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path, size=(44, 24)) as pilot:
        assert app_of(pilot).pane.prompt.placeholder == "Say something."
        await type_in(pilot, PERMISSION)
        await seen(pilot, lambda: "tab answer" in footer(pilot) or "⇥ answer" in footer(pilot), "the key to answer")
        await seen(pilot, lambda: len(footer(pilot)) <= 44, "whole keys")
        assert "esc stop" in footer(pilot) and "details" not in footer(pilot)
        await pilot.press("escape")
        await seen(pilot, lambda: idle(pilot) and "answer" not in footer(pilot), "that there is nothing to answer")


async def test_keys_typed_while_a_question_appears_never_answer_it(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, PERMISSION)
        question = pilot.app.query_one(Question)
        await seen(pilot, lambda: question.display, "the question")
        keys = OPTION_KEYS[: question.query_one(OptionList).option_count]
        hint = str(question.query_one("#hint", Static).render())
        assert hint == f"To answer, press Tab, then a {'or' if len(keys) == 2 else 'to'} {keys[-1]}"
        await pilot.press("a", "b")
        assert pilot.app.query_one(Prompt).text == "ab"
        assert app_of(pilot).pane.link.view.open_questions()
        await pilot.press("tab", "a")
        await seen(pilot, lambda: idle(pilot), "the end")
        assert rows(pilot)[-1] == "Thank you, it is tidy now."
        assert not question.display
        assert pilot.app.query_one(Prompt).text == "ab"
        assert pilot.app.focused is pilot.app.query_one(Prompt)


async def test_a_key_that_is_sent_instead_of_pressed_is_held_back_once_and_explained(
    house: RunningGateway, tmp_path: Path
) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, PERMISSION)
        question = pilot.app.query_one(Question)
        await seen(pilot, lambda: question.display, "the question")
        await type_in(pilot, "a")
        note = pilot.app.query_one("#note", Static)
        await seen(pilot, lambda: "press Tab, then a, to answer" in str(note.render()), "the explanation")
        assert app_of(pilot).pane.link.view.open_questions()
        await pilot.press("tab")
        hint = question.query_one("#hint", Static)
        await seen(pilot, lambda: "Enter answers with the marked one" in str(hint.render()), "the keys that work now")
        await pilot.press("escape")
        await type_in(pilot, "a")
        await seen(pilot, lambda: "a" in rows(pilot), "the message")
        await seen(pilot, lambda: "it does not answer the request" in rows(pilot)[-1], "how to answer")
        await pilot.press("tab", "a")
        await seen(pilot, lambda: idle(pilot), "the end")
        assert not note.display


async def test_a_question_and_a_turns_end_ring_where_nobody_looks(
    house: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rings: list[str] = []
    monkeypatch.setattr(ChatApp, "bell", lambda app: rings.append("question" if app.pane.needs_person else "end"))
    async with chat(tmp_path) as pilot:
        await type_in(pilot, "say: seen")
        await seen(pilot, lambda: rows(pilot)[-1:] == ["seen"] and idle(pilot), "the answer")
        assert rings == []
        app_of(pilot).app_focus = False
        await house.gateway.say("main", PERMISSION, sender="bob")
        await seen(pilot, lambda: rings == ["question"], "the bell")
        await pilot.press("tab", "a")  # a key that is pressed shows where the focus is
        await seen(pilot, lambda: rows(pilot)[-1] == "Thank you, it is tidy now." and idle(pilot), "the answer")
        app_of(pilot).app_focus = False
        await house.gateway.say("main", "say: unseen", sender="bob")
        await seen(pilot, lambda: rings == ["question", "end"], "the bell at the end")


async def test_escape_stops_the_running_turn(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, prompt("One word", {"sleep": 60}))
        view = app_of(pilot).pane.link.view
        await seen(pilot, lambda: any(entry.get("role") == "agent" for entry in view.ordered()), "the beginning")
        await seen(pilot, lambda: "esc stop" in footer(pilot), "its key")
        await pilot.press("escape")
        await seen(pilot, lambda: idle(pilot) and "Stopped" in rows(pilot)[-1], "the end")
        await seen(pilot, lambda: "esc stop" not in footer(pilot) and "send" in footer(pilot), "the keys that are left")
        await seen(pilot, lambda: bool(view.ordered()[1].get("partial")), "what it had said")


async def test_what_waits_tells_its_place_and_ctrl_t_chooses_how_it_is_taken(
    house: RunningGateway, tmp_path: Path
) -> None:
    door = tmp_path / "door"
    async with chat(tmp_path) as pilot:
        await type_in(pilot, f'[[script {{"steps":["Working.",{{"wait":"{door}"}}]}}]]')
        await seen(pilot, lambda: len(rows(pilot)) == 2, "the beginning")
        for text in ("one", "two"):
            await type_in(pilot, text)
        await seen(pilot, lambda: heads(pilot)[2:] == ["You  queued, 1st in line", "You  queued, 2nd in line"], "both")
        await pilot.press("ctrl+t", "ctrl+t")
        assert str(pilot.app.query_one(Prompt).border_title).startswith("steer")
        await type_in(pilot, "blue")
        await seen(pilot, lambda: heads(pilot)[4:] == ["You  joined the running turn"], "the third")
        assert not pilot.app.query_one(Prompt).border_title, "the choice goes with its message"
        door.touch()
        end = ["You", "You", "You  joined the running turn"]
        await seen(pilot, lambda: idle(pilot) and heads(pilot)[2:5] == end, "nothing waits")


async def test_a_turn_that_is_tried_again_counts_down_and_escape_stops_it(
    house: RunningGateway, tmp_path: Path
) -> None:
    error = '{"error":{"code":-32603,"message":"API Error: 529 Overloaded"}}'
    async with chat(tmp_path) as pilot:
        await type_in(pilot, f'[[script {{"steps":[{error}]}}]]')
        status = pilot.app.query_one("#status", Static)
        await seen(pilot, lambda: "the turn failed, tried again in " in str(status.content), "the count")
        await pilot.press("escape")
        await seen(pilot, lambda: idle(pilot) and rows(pilot)[-1] == "Stopped by ann.", "the end")
        assert "tried again" not in str(status.content)


async def test_new_text_never_moves_a_reader_who_looks_at_older_text(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, prompt({"text": "Line.\n" * 60, "chunks": 4}))
        await seen(pilot, lambda: len(rows(pilot)) == 2 and idle(pilot), "the text")
        log = app_of(pilot).pane.conversation
        assert app_of(pilot).pane.conversation.is_at_bottom
        await pilot.press("pageup")
        await seen(pilot, lambda: not app_of(pilot).pane.conversation.is_at_bottom, "older text")
        place = log.scroll_offset.y
        await house.gateway.say("main", prompt({"text": "Line.\n" * 40, "chunks": 3}), sender="bob")
        await seen(pilot, lambda: len(rows(pilot)) == 4 and idle(pilot), "more text")
        assert log.scroll_offset.y == place
        assert "new below" in str(pilot.app.query_one("#status", Static).content)
        await pilot.press("ctrl+end")
        await seen(pilot, lambda: app_of(pilot).pane.conversation.is_at_bottom, "the newest text")
        call = {"toolCallId": "c", "title": "count", "kind": "execute"}
        printed = {"type": "content", "content": {"type": "text", "text": "Line.\n" * 6}}
        running = {"sessionUpdate": "tool_call", "status": "in_progress", "content": [printed], **call}
        done = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
        steps = ({"update": running}, "Line.\n" * 60, {"wait": str(tmp_path / "go")}, {"update": done}, "The end.")
        await house.gateway.say("main", prompt(*steps), sender="bob")
        await seen(pilot, lambda: len(rows(pilot)) == 7 and log.is_at_bottom, "a call that runs, and text below it")
        await pilot.press("pageup")
        await seen(pilot, lambda: not log.is_at_bottom, "older text")
        spot, offset = log.place, log.scroll_offset.y
        (tmp_path / "go").touch()
        await seen(pilot, lambda: idle(pilot) and rows(pilot)[-1].endswith("The end."), "the end")
        await seen(pilot, lambda: log.scroll_offset.y < offset, "that the row above is shorter")
        assert log.place == spot


async def test_older_text_comes_when_a_reader_gets_there(
    house: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.faces.terminal.conversation.PAGE_ROWS", 20)
    for n in range(15):
        await house.gateway.report("main", "tick", f"tick {n}\n\n\n", wakes=False)
        await house.gateway.report("main", "tock", f"tock {n}", wakes=False)
    async with chat(tmp_path) as pilot:
        await seen(pilot, lambda: len(rows(pilot)) == 20, "the newest twenty")
        assert rows(pilot)[-1] == "tock 14"
        for _ in range(12):
            await pilot.press("pageup")
        await seen(pilot, lambda: len(rows(pilot)) == 30, "all of them")
        assert rows(pilot)[:2] == ["tick 0\n\n\n", "tock 0"]
        await pilot.press("ctrl+end")
        monkeypatch.setattr("semel.faces.terminal.conversation.MAX_DRAWN_ROWS", 25)
        await house.gateway.report("main", "tick", "the last", wakes=False)
        await seen(pilot, lambda: len(rows(pilot)) == 25 and rows(pilot)[-1] == "the last", "the newest rows")
        conversation = app_of(pilot).pane.conversation
        assert conversation.is_at_bottom
        conversation._take_changes([conversation.link.view.entries[1]], "connected")
        await seen(pilot, lambda: conversation.is_drawn, "a change of a row that is not on the screen")
        assert len(rows(pilot)) == 25
        for _ in range(12):
            await pilot.press("pageup")
        await seen(pilot, lambda: len(rows(pilot)) == 31 and rows(pilot)[0] == "tick 0\n\n\n", "all of them again")


def place_kept(conversation: ConversationView) -> tuple[str | None, int]:
    bookmark = conversation.kept_files.load_bookmark()
    return bookmark.row, bookmark.lines


async def test_of_a_long_message_the_end_is_drawn_and_the_rest_as_a_reader_comes_near(
    house: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.faces.terminal.markdown_parts.MAX_PART_CHARS", 300)
    text = "".join(f"Line {n}.\n{'' if n % 5 else chr(10)}" for n in range(1, 251))
    await house.gateway.say("main", prompt({"text": text}), sender="ann")
    async with chat(tmp_path) as pilot:
        conversation = app_of(pilot).pane.conversation
        await seen(pilot, lambda: 250 in lines_in_sight(pilot), "the end")
        message = pilot.app.query_one(AgentWidget)
        assert not message.is_whole and len(message.query(Markdown)) < 10
        tops = []
        while 1 not in lines_in_sight(pilot):
            await pilot.press("pageup")
            top = lines_in_sight(pilot)
            await seen(pilot, lambda: conversation._find_undrawn() is None, "what is above")
            assert lines_in_sight(pilot) == top == list(range(top[0], top[-1] + 1)), "what is drawn above moves nobody"
            assert not tops or tops[-1] - top[-1] <= 2, "no line is passed over"
            tops.append(top[0])
            if len(tops) == 2:
                assert not message.is_whole
                place, left_at = conversation.place, top
                await seen(pilot, lambda: place_kept(conversation) == conversation.place, "the place is kept")
                kept = conversation.kept_files.load_bookmark()
        assert tops == sorted(tops, reverse=True) and message.is_whole
        conversation.kept_files.keep_bookmark(kept)
        pilot.app.exit()
    async with chat(tmp_path) as pilot:
        conversation = app_of(pilot).pane.conversation
        await seen(pilot, lambda: conversation.place == place and lines_in_sight(pilot) == left_at, "the same place")
        assert not pilot.app.query_one(AgentWidget).is_whole


async def test_a_session_that_is_deleted_leaves_the_screen_and_one_that_others_begin_comes_to_it(
    house: RunningGateway, tmp_path: Path
) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, "say: old")
        await seen(pilot, lambda: len(rows(pilot)) == 2 and idle(pilot), "the answer")
        await house.gateway.delete("main")
        await seen(pilot, lambda: app_of(pilot).pane.link.state == "new" and not rows(pilot), "that it is gone")
        await house.gateway.say("main", "say: new", sender="bob")
        await seen(pilot, lambda: len(rows(pilot)) == 2 and idle(pilot), "what bob began")
        assert rows(pilot) == ["say: new", "new"]


async def test_a_gateway_that_comes_back_is_followed_where_it_was_left(tmp_path: Path) -> None:
    async with house_in(tmp_path):
        app = ChatApp(tmp_path, "main", "ann")
        running = app.run_test(size=(90, 30))
        pilot = await running.__aenter__()
        await type_in(pilot, "say: before")
        await seen(pilot, lambda: len(rows(pilot)) == 2 and idle(pilot), "the answer")
    try:
        await seen(pilot, lambda: app.pane.link.state == "away", "that it is gone")
        assert "away" in str(app.query_one("#status", Static).content)
        app.query_one(Prompt).insert("an unsent draft")
        async with house_in(tmp_path) as house:  # on another port
            await house.gateway.say("main", "say: after", sender="bob")
            await seen(pilot, lambda: len(rows(pilot)) == 4 and idle(pilot), "what came since")
            assert rows(pilot) == ["say: before", "before", "say: after", "after"]
            assert app.query_one(Prompt).text == "an unsent draft"
    finally:
        await running.__aexit__(None, None, None)


async def test_a_conversation_that_fits_the_screen_has_nothing_new_below(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        for text in ("say: one", "say: two", "say: three"):
            await type_in(pilot, text)
            await seen(pilot, lambda text=text: rows(pilot)[-1:] == [text[5:]] and idle(pilot), "the answer")
            assert "new below" not in str(pilot.app.query_one("#status", Static).content)


async def test_a_call_that_went_well_is_one_line_until_it_is_opened(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        output = "1\\n2\\n3\\n4\\n5\\n6\\n7\\n\\u001b[32mgreen\\u001b[0m\\n10 %\\r9\\n"
        steps = ", ".join(f'{{"tool": "count {n}", "output": ["{output}"], "exit": {n}}}' for n in (0, 1, 0))
        await type_in(pilot, f"[[script [{steps}]]]")
        await seen(pilot, lambda: len(pilot.app.query(ItemWidget)) == 3 and idle(pilot), "the tool calls")
        good, bad, last = pilot.app.query(ItemWidget)
        await seen(pilot, lambda: "lines above" in _text(bad), "the excerpt")
        assert heads(pilot)[1:4] == ["● count 0  9 lines", "✗ count 1  exit 1", "● count 0  9 lines"]
        assert _text(bad) == "… 3 lines above (ctrl+o)\n4\n5\n6\n7\ngreen\n90 %"
        assert (good.region.height, last.region.y - bad.region.bottom) == (1, 1)
        await seen(pilot, lambda: has_colours(bad), "the excerpt's colours")
        await pilot.press("ctrl+o")
        await seen(pilot, lambda: _text(good).endswith("\n7\ngreen\n90 %"), "all of it")
        await seen(pilot, lambda: has_colours(good), "its colours")


def test_it_works_in_a_real_terminal(cli: Cli) -> None:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    process = cli.up()
    tmux = ["tmux", "-L", f"semel-{process.pid}"]
    try:
        data, python = shlex.quote(str(cli.data)), shlex.quote(sys.executable)
        command = f"SEMEL_DATA={data} {python} -m semel chat main --no-mouse; echo it ended with $?; exec cat"
        subprocess.run([*tmux, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", command], check=True)
        until(lambda: "say something" in screen(tmux), "an empty chat")
        subprocess.run([*tmux, "send-keys", "say: it is **bold**", "Enter"], check=True)
        until(lambda: "\n it is bold" in screen(tmux), "the answer, as Markdown")
        shown = subprocess.run(
            [*tmux, "display", "-p", "#{mouse_any_flag}"], check=True, capture_output=True, text=True
        )
        assert shown.stdout.strip() == "0", "the mouse is the terminal's"
        subprocess.run([*tmux, "send-keys", "C-d"], check=True)
        until(lambda: "it ended with 0" in screen(tmux), "the end")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
        process.terminate()
        process.communicate(timeout=PATIENCE)


def screen(tmux: list[str]) -> str:
    return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout


async def test_a_summary_is_marked_as_one_and_stands_back(house: RunningGateway, tmp_path: Path) -> None:
    async with chat(tmp_path) as pilot:
        await type_in(pilot, "say: hello")
        await seen(pilot, lambda: len(rows(pilot)) == 2 and idle(pilot), "both")
        covers = {"first": 1, "last": 2, "turn": 1, "since": 3, "cut": False}

        def summarise(tx: Tx) -> None:
            more = {"kind": "summary", "covers": covers}
            entries.add_entry(tx, 1, role="notice", text="They said hello.", more=more)

        await house.gateway.record.write(summarise)
        await seen(pilot, lambda: len(rows(pilot)) == 3, "the summary")
        assert heads(pilot)[-1] == "Summary  of 1 to 2, made by the agent's model"
        assert rows(pilot)[-1] == "They said hello."
        assert pilot.app.query("EntryWidget.summary")
