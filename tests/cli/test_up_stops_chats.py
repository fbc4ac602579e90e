"""A gateway that is told to stop keeps its chats until its turns have ended and what it began to send has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cli_house import PATIENCE, PERMISSION, SCRIPTED, Cli, heard
from irc_double import IrcDouble

from semel.testing.scripted_agent import prompt

LINES = [f"line {n}" for n in range(9)]
CONFIG = """
[channels.irc]
kind = "irc"
server = "127.0.0.1"
port = {port}
tls = "none"
nick = "semel"
pace = 0.3
[people.ann]
role = "owner"
accounts = ["irc:ann"]
"""


@pytest.fixture
async def chat(cli: Cli) -> AsyncIterator[IrcDouble]:
    async with IrcDouble() as server:
        (cli.home / "semel.toml").write_text(SCRIPTED + CONFIG.format(port=server.port))
        yield server


async def wait_for_clean_end(cli: Cli, process: Any) -> None:
    """Wait until the gateway has ended, and check its exit code and the laws."""
    output, _ = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
    assert process.returncode == 0, output
    laws = await asyncio.to_thread(cli, "doctor", "--laws")
    assert laws.stdout.splitlines()[-1] == "all laws hold"


@pytest.mark.long
async def test_a_part_whose_lines_leave_one_by_one_leaves_whole(cli: Cli, chat: IrcDouble) -> None:
    process = await asyncio.to_thread(cli.up)
    await asyncio.to_thread(heard, process, "channel online")
    chat.tell("semel", "ann", prompt("\n\n".join(LINES)))
    await chat.wait_said(LINES[2])
    process.terminate()
    await wait_for_clean_end(cli, process)
    assert [text for _, text in chat.said] == LINES
    assert [part["state"] for part in await asyncio.to_thread(cli.json, "outbox", "list")] == ["sent"]


async def test_an_answer_to_a_request_counts_during_the_grace_period(cli: Cli, chat: IrcDouble) -> None:
    process = await asyncio.to_thread(cli.up)
    await asyncio.to_thread(heard, process, "channel online")
    chat.tell("semel", "ann", PERMISSION)
    await chat.wait_said("/approve")
    process.terminate()
    await asyncio.to_thread(heard, process, "stopping")
    chat.tell("semel", "ann", "/approve 1")
    await wait_for_clean_end(cli, process)
    entries = await asyncio.to_thread(cli.json, "show", "demo:irc:ann")
    answer = "Thank you, it is tidy now."
    assert answer in [entry["text"] for entry in entries]
    assert ("ann", answer) in chat.said, "it leaves before the gateway ends"
