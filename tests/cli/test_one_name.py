"""Whoever works with the owner's token and gives no name is called the same on every face."""

from __future__ import annotations

from pathlib import Path

from cli_house import SCRIPTED, Cli, end, heard
from test_chat import heads, house, idle, rows, seen, type_in

from semel.faces.run import RunningGateway
from semel.faces.terminal.app import ChatApp
from semel.faces.transcript import format_entry
from semel.testing.scripted_agent import prompt

__all__ = ["house"]


async def test_a_message_and_a_stop_from_the_terminal_are_the_owners(house: RunningGateway, tmp_path: Path) -> None:
    await house.gateway.say("main", "say: written on the page")
    app = ChatApp(tmp_path, "main", None)
    async with app.run_test(size=(90, 30)) as pilot:
        await type_in(pilot, prompt("begun", {"hang": True}))
        await seen(pilot, lambda: "begun" in rows(pilot), "the turn")
        await pilot.press("escape")
        await seen(pilot, lambda: idle(pilot) and rows(pilot)[-1] == "You stopped it.", "the end")
        assert [head.split("  ")[0] for head in heads(pilot) if head.startswith("You")] == ["You", "You"]
    entries = sorted((await house.gateway.entries("main"))[0], key=lambda entry: int(entry["seq"]))
    assert [entry.get("sender") for entry in entries if entry["role"] == "user"] == [None, None]
    assert format_entry(entries[0]).endswith(" the owner: say: written on the page")
    assert format_entry(entries[-1]).endswith(": Stopped by the owner.")


def test_a_name_is_recorded_only_if_one_is_given(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(SCRIPTED)
    cli.up()
    cli("say", "main", "say: one", "--wait")
    cli("say", "main", "say: two", "--sender", "ann", "--wait")
    cli("session", "new", "main")
    senders = [entry.get("sender") for entry in cli.json("show", "main") if entry["role"] == "user"]
    assert senders == [None, "ann", None]


def test_a_chat_line_by_line_leaves_out_its_own_lines_only(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(SCRIPTED)
    cli.up()
    process = cli.start("chat", "main")
    assert process.stdin is not None
    process.stdin.write("say: typed\n")
    process.stdin.flush()
    assert heard(process, "typed") == "agent: typed\n"
    cli("say", "main", "say: elsewhere")
    assert heard(process, "elsewhere") == "the owner: say: elsewhere\n"
    end(process)
