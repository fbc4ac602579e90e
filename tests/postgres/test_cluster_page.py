"""The page of a gateway of a cluster that is killed while a session runs and a message of the page is on its way."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "http"))

import browser_fixtures
from browser import KEYS, Browser
from cli_house import until
from cluster_house import Member, find_agents, rest, texts
from live_house import shows, wait_live

from proof.postgres_server import PostgresServer
from semel.testing.scripted_agent import prompt

browser, window = browser_fixtures.browser, browser_fixtures.window


@pytest.fixture
def members(tmp_path: Path, server: PostgresServer) -> Iterator[tuple[Member, Member]]:
    url = server.url(server.create_database())
    pair = Member(tmp_path / "a", "alpha", url), Member(tmp_path / "b", "beta", url)
    yield pair
    for member in pair:
        if member.process is not None and member.process.poll() is None:
            member.signal(signal.SIGKILL)


@pytest.mark.long
def test_what_the_page_had_on_its_way_as_its_gateway_was_killed_is_heard_once_and_all_laws_hold(
    members: tuple[Member, Member], window: Browser, tmp_path: Path
) -> None:
    alpha, beta = members
    go = tmp_path / "go"
    alpha.start()
    beta.start()
    question = prompt({"wait": str(go)}, "done", resume=[{"wait": str(go)}, "done"])
    alpha.cli("say", "main", question)
    until(lambda: find_agents(alpha), "its agent runs")
    window.go(f"{alpha.address}/#/s/main")
    wait_live(window)
    shows(window, "#busy", "working")
    alpha.signal(signal.SIGSTOP)  # it takes what the page sends, and reads none of it
    window.type("#text", "in line" + KEYS["enter"])
    shows(window, "#outgoing .body", "in line")
    alpha.signal(signal.SIGKILL)
    shows(window, "#link", "reconnecting")
    assert window.text("#busy") == "last known: working"
    until(lambda: beta.is_active and find_agents(beta), "the other one goes on")
    alpha.start()
    wait_live(window)
    shows(window, "#outgoing .body")
    go.touch()
    answered = until(lambda: (said := texts(beta.cli, "main", "agent"))[1:] and said, "both are answered")
    rest(beta.cli)
    assert answered[0] == "done"
    assert texts(beta.cli, "main", "user") == [question, "in line"]
    shows(window, "#rows .user .body", question, "in line")
    shows(window, "#rows .agent .body", *answered)
    assert alpha.cli.json("doctor", "--laws")["ok"]
    assert beta.cli.json("doctor", "--laws")["ok"]
