"""A gateway that is stopped in the middle of a turn: how soon its page and its terminal's link say so."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
from browser import Browser
from cli_house import SCRIPTED, Cli
from live_house import shows, wait_live

from semel.faces.terminal import link as link_module
from semel.faces.terminal.link import SessionLink
from semel.testing.scripted_agent import prompt
from semel.tools.address import GATEWAY_FILE

NOTICED_S = 12.0
SESSION = "demo:web:s"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    (tmp_path / "semel.toml").write_text(SCRIPTED)
    cli = Cli(tmp_path, tmp_path / "data")
    yield cli
    cli.leave()


@pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")
@pytest.mark.long
def test_page_and_terminal_say_within_twelve_seconds_that_a_stopped_gateway_is_lost(
    cli: Cli, window: Browser, tmp_path: Path
) -> None:
    gateway = cli.up()
    cli("say", SESSION, prompt({"wait": str(tmp_path / "go")}, "done"))
    window.go(f"{cli.address(gateway.pid)}/#/s/{SESSION}")
    wait_live(window)
    shows(window, "#busy", "working")
    try:
        asyncio.run(stop_and_see(cli, gateway.pid, window))
        assert window.text("#busy") == "last known: working"
    finally:
        os.kill(gateway.pid, signal.SIGCONT)
    wait_live(window)
    shows(window, "#busy", "working")
    (tmp_path / "go").touch()
    shows(window, "#rows .agent .body", "done")


async def test_a_gateway_that_takes_connections_and_never_answers_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "LATE_ANSWER_S", 0.1, raising=False)
    tmp_path.chmod(0o700)
    address = {"socket": str(tmp_path / "s"), "pid": os.getpid(), "url": "", "inode": tmp_path.stat().st_ino}
    (tmp_path / GATEWAY_FILE).write_text(json.dumps(address))
    away = asyncio.Event()

    async def leave_unanswered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(leave_unanswered, tmp_path / "s"):
        link = SessionLink(tmp_path, SESSION, lambda rows, state: away.set() if state == "away" else None)
        following = asyncio.create_task(link.run())
        try:
            async with asyncio.timeout(5):
                await away.wait()
        finally:
            following.cancel()
            await asyncio.wait([following])


def state(window: Browser) -> str:
    return str(window.run("document.querySelector('#link').dataset.state"))


async def stop_and_see(cli: Cli, pid: int, window: Browser) -> None:
    """Stop the gateway, and wait until the page and a terminal's link have said that it is lost."""
    connected, away = asyncio.Event(), asyncio.Event()
    link = SessionLink(cli.data, SESSION, lambda rows, state: (away if state == "away" else connected).set())
    following = asyncio.create_task(link.run())
    async with asyncio.timeout(30):
        await connected.wait()
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(NOTICED_S):
        lost = asyncio.to_thread(window.until, lambda: state(window) == "lost", "the line is lost")
        await asyncio.gather(lost, away.wait())
    following.cancel()
