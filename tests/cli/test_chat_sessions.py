"""`semel chat` with more than one message and session: what waits for the gateway, what is opened, what is kept."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cli_house import PERMISSION
from rich.cells import cell_len
from test_chat import app_of, chat, house, house_in, idle, rows, rows_of, seen, type_in, until_read
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from semel.faces.api_types import Accepted
from semel.faces.client import RequestRefused
from semel.faces.client.connection import Connection
from semel.faces.run import RunningGateway
from semel.faces.terminal.attachment_line import AttachmentLine
from semel.faces.terminal.outgoing import OutgoingMessage
from semel.faces.terminal.outgoing_list import OutgoingRow
from semel.faces.terminal.prompt import Prompt
from semel.faces.terminal.question import Question
from semel.faces.terminal.switcher import SessionSwitcher
from semel.faces.terminal.tab_line import TabLine
from semel.testing.scripted_agent import prompt

__all__ = ["house"]


def unsent(pilot: Pilot[None]) -> list[tuple[str, str]]:
    """The messages below the conversation: each text, and where it is."""
    return [(row.message.text, row.message.state_text) for row in pilot.app.query(OutgoingRow)]


async def test_what_is_typed_while_the_gateway_is_away_is_shown_and_sent_once_when_it_is_back(tmp_path: Path) -> None:
    waits = "no connection: it is sent as soon as there is one"
    async with contextlib.AsyncExitStack() as first:
        async with house_in(tmp_path):
            pilot = await first.enter_async_context(chat(tmp_path))
            await type_in(pilot, "say: before")
            await seen(pilot, lambda: len(rows(pilot)) == 2 and idle(pilot), "the answer")
        await seen(pilot, lambda: app_of(pilot).pane.link.state == "away", "that it is gone")
        await type_in(pilot, "say: one")
        await type_in(pilot, "say: two")
        await seen(pilot, lambda: unsent(pilot) == [("say: one", waits), ("say: two", waits)], "where they are")
        async with house_in(tmp_path) as house:
            await seen(pilot, lambda: len(rows(pilot)) >= 5 and not unsent(pilot) and idle(pilot), "the answers")
            said = [(e["text"], e["sender"]) for e in (await house.gateway.entries("main"))[0] if e["role"] == "user"]
            assert said == [("say: before", "ann"), ("say: one", "ann"), ("say: two", "ann")]
        await seen(pilot, lambda: app_of(pilot).pane.link.state == "away", "that it is gone again")
        for name in ("notes.txt", "other.txt"):
            (tmp_path / name).write_text("roses")
            await type_in(pilot, f"/attach {tmp_path / name}")
        line = pilot.app.query_one(AttachmentLine)
        await seen(pilot, lambda: line.display and "other.txt (5 B)" in str(line.content), "what goes with the message")
        await type_in(pilot, "/attach /none")  # short: ctrl+u deletes a line of the screen
        await seen(pilot, lambda: "there is no file" in str(pilot.app.query_one("#note", Static).content), "why not")
        await pilot.press("ctrl+u")
        await seen(pilot, lambda: not app_of(pilot).pane.prompt.text, "that the prompt is empty")
        await pilot.press("backspace")
        await seen(pilot, lambda: "other.txt" not in str(line.content), "that one was removed")
        await type_in(pilot, "say: three")
        await seen(pilot, lambda: unsent(pilot) == [("say: three", waits)] and not line.display, "where it is")
    async with house_in(tmp_path), chat(tmp_path) as pilot:
        await seen(pilot, lambda: rows(pilot)[-1:] == ["three"] and not unsent(pilot) and idle(pilot), "the answer")
        said = [row for row in rows(pilot) if row.startswith("say: three")]
        assert len(said) == 1 and "[file notes.txt, text/plain, 5 B" in said[0]


async def test_what_is_typed_faster_than_it_is_handled_stays_two_messages(
    house: RunningGateway, tmp_path: Path
) -> None:
    async with chat(tmp_path) as pilot:
        prompt = pilot.app.query_one(Prompt)
        for text in ("say: one", "say: two", " "):
            prompt.insert(text)
            prompt.send()
        await seen(pilot, lambda: rows(pilot)[-1:] == ["two"] and idle(pilot), "the answers")
        assert [row for row in rows(pilot) if row.startswith("say")] == ["say: one", "say: two"]


async def test_a_message_that_is_refused_is_put_back_or_stays_in_sight(house: RunningGateway, tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def refuse(message: OutgoingMessage) -> Accepted:
        await asked.wait()
        raise RequestRefused(409, "conflict", "no such thing")

    async with chat(tmp_path) as pilot:
        conversation, prompt = app_of(pilot).pane.conversation, pilot.app.query_one(Prompt)
        conversation.outgoing._post = refuse
        await type_in(pilot, "one")
        await seen(pilot, lambda: unsent(pilot) == [("one", "sending")], "where it is")
        asked.set()
        await seen(pilot, lambda: prompt.text == "one" and not unsent(pilot), "the text, again")
        assert "not sent: no such thing" in str(pilot.app.query_one("#note", Static).content)
        asked.clear()
        await pilot.press("enter", "x")
        asked.set()
        await seen(pilot, lambda: unsent(pilot) == [("one", "not sent: no such thing")], "what was not sent")
        assert prompt.text == "x"
        await pilot.press("backspace")
        await pilot.click(OutgoingRow)
        await seen(pilot, lambda: prompt.text == "one" and not unsent(pilot), "the text, again")


async def test_a_message_whose_answer_was_lost_is_sent_again_and_said_once(
    house: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, lost = Connection._call, [0, 0]

    async def loses(self: Connection, method: str, path: str, body: Any, *rest: Any) -> Any:
        answer = await honest(self, method, path, body, *rest)
        if path.endswith("/messages") and lost:
            lost.pop()
            raise httpx2.ReadError("the line broke")
        return answer

    monkeypatch.setattr("semel.faces.terminal.outgoing.RETRY_DELAYS_S", (0.01,))
    monkeypatch.setattr(Connection, "_call", loses)
    async with chat(tmp_path) as pilot:
        await type_in(pilot, "say: once")
        await seen(pilot, lambda: rows(pilot) == ["say: once", "once"] and idle(pilot), "one message, one answer")
        await seen(pilot, lambda: not lost and not unsent(pilot), "that it has arrived")


async def test_another_session_is_chosen_and_left_again_where_one_was(house: RunningGateway, tmp_path: Path) -> None:
    await house.gateway.say("garden", "say: roses", sender="bob")
    async with chat(tmp_path) as pilot:
        app = app_of(pilot)
        await type_in(pilot, prompt({"text": "Line.\n" * 60, "chunks": 2}))
        await seen(pilot, lambda: len(rows(pilot)) == 2 and idle(pilot), "the text")
        first, place = app.pane, 0.0
        first.prompt.insert("a draft")
        await pilot.press("pageup")
        await seen(pilot, lambda: not first.conversation.is_at_bottom, "older text")
        place = first.conversation.scroll_offset.y
        await pilot.press("ctrl+k")
        await seen(pilot, lambda: isinstance(app.screen, SessionSwitcher), "the list")
        options = app.screen.query_one(OptionList)
        await seen(pilot, lambda: options.option_count == 2 and options.highlighted == 1, "both, the other marked")
        await house.gateway.say("third", PERMISSION, sender="bob")
        await seen(pilot, lambda: options.get_option_at_index(0).id == "third", "the session that asks, first")
        assert options.highlighted_option is not None and options.highlighted_option.id == "garden"
        await seen(pilot, lambda: "asks for a permission" in str(options.get_option_at_index(0).prompt), "its need")
        await pilot.resize_terminal(60, 30)
        await pilot.pause()
        prompts = [options.get_option_at_index(n).prompt for n in range(3)]
        assert max(cell_len(str(line)) for line in prompts) <= options.size.width, "one line for each"
        await pilot.resize_terminal(90, 30)
        await pilot.press("enter")
        await seen(pilot, lambda: app.pane.link.session == "garden" and idle(pilot), "the other session")
        assert app.focused is app.pane.prompt and not app.pane.prompt.text
        await seen(pilot, lambda: rows_of(app.pane) == ["say: roses", "roses"], "what was said there")
        await house.gateway.say("main", "say: news", sender="bob")
        await seen(pilot, lambda: "●" in str(app.query_one(TabLine).content), "that there are news")
        await until_read(tmp_path, "garden")
        await until_read(tmp_path, "main", is_read=False)
        await type_in(pilot, PERMISSION)
        await seen(pilot, lambda: app.pane.query_one(Question).display, "the question")
        await pilot.press("ctrl+pagedown")
        assert app.pane is first and app.focused is first.prompt and first.prompt.text == "a draft"
        await seen(pilot, lambda: "?" in str(app.query_one(TabLine).content), "that the other one needs somebody")
        assert "●" not in str(app.query_one(TabLine).content)
        assert first.conversation.scroll_offset.y == place
        await pilot.press("ctrl+end")
        await until_read(tmp_path, "main")
        await pilot.click(TabLine, offset=(str(app.query_one(TabLine).content).index("say: roses"), 0))
        await seen(pilot, lambda: app.pane is not first, "the session whose name was clicked")
        await pilot.press("escape")
        await seen(pilot, lambda: idle(pilot), "the end of its turn")
        await pilot.press("ctrl+k", *"tools", "enter")
        await seen(pilot, lambda: app.pane.link.session == "tools" and app.pane.link.state == "new", "a new session")


async def test_tab_completes_a_command_and_a_mentioned_file_is_sent_as_a_link(
    house: RunningGateway, tmp_path: Path
) -> None:
    async with chat(tmp_path) as pilot:
        pane = app_of(pilot).pane
        await pilot.press(*"/sto")
        await seen(pilot, lambda: pane.menu.choice is not None, "the menu")
        await pilot.press("escape", "backspace")
        await seen(pilot, lambda: pane.menu.choice is not None, "the menu of another word")
        await pilot.press("down", "tab")
        assert pane.prompt.text == "/status "
        await pilot.press("enter")
        await seen(pilot, lambda: rows(pilot) and "Agent: demo" in rows(pilot)[-1] and idle(pilot), "the state")
        workspace = await pane.link.find_workspace()
        assert workspace is not None
        workspace.mkdir(parents=True, exist_ok=True)
        (workspace / "garden.txt").write_text("roses")
        await pilot.press(*"say: @gar")
        await seen(pilot, lambda: pane.menu.choice is not None, "the file")
        await pilot.press("enter", *"!", "enter")
        link = f"[garden.txt]({(workspace / 'garden.txt').as_uri()})"
        await seen(pilot, lambda: any(f"say: {link} !" in row for row in rows(pilot)) and idle(pilot), "the link")
        assert not unsent(pilot)


async def test_a_terminal_that_is_opened_again_is_where_one_was(house: RunningGateway, tmp_path: Path) -> None:
    for n in range(40):
        await house.gateway.report("main", "tick", f"tick {n}\n\n\n", wakes=False)
    async with chat(tmp_path) as pilot:
        conversation = app_of(pilot).pane.conversation
        await seen(pilot, lambda: conversation.max_scroll_y > 0 and conversation.is_at_bottom, "the newest text")
        await pilot.press(*"draft")
        await seen(pilot, lambda: conversation.kept_files.load_bookmark().draft == "draft", "that it is kept")
        await pilot.press("pageup", "pageup")
        await seen(pilot, lambda: conversation.place is not None, "older text")
        place = conversation.place
        await seen(pilot, lambda: conversation.kept_files.load_bookmark().row, "the place, before the terminal ends")
        await pilot.press("ctrl+c", "ctrl+c")
    await house.gateway.report("main", "tick", "later\n\n\n", wakes=False)
    async with chat(tmp_path) as pilot:
        conversation = app_of(pilot).pane.conversation
        await seen(pilot, lambda: rows(pilot)[-1:] == ["later\n\n\n"] and not conversation.is_at_bottom, "older text")
        await seen(pilot, lambda: conversation.place == place, "the same place")
        assert app_of(pilot).pane.prompt.text == "draft"
        await pilot.press("ctrl+end", *["backspace"] * 5, *"/help", "enter")
        await seen(pilot, lambda: conversation.is_at_bottom and len(rows(pilot)) == 43, "the answer")
        assert not conversation.kept_files.directory.exists()
