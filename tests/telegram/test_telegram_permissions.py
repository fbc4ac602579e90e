"""A permission request that is open in a chat while its gateway or agent is killed: real processes and a double."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from telegram_house import ANNA
from telegram_up import Up, until

from semel.testing.scripted_agent import command

pytestmark = pytest.mark.storm

Json = dict[str, Any]
ASK: Json = {"permission": "rm -r build", "allowed": ["Tidy."], "denied": ["Left."]}
QUESTION = "The agent asks for permission: rm -r build"
TITLE = "rm -r build"
GONE = f"That request is gone: Withdrawn: {TITLE}."


def ask_for_permission(up: Up, *steps: Any) -> None:
    """A person asks; the agent says a text that its history ends with, and the chat has its question."""
    with (up.home / "semel.toml").open("a") as config:
        config.write(f"[agents.demo]\ncommand = {json.dumps(command(state=up.home / 'agent'))}\n")
    turn = {"steps": ["The plan is ready.", {"save": True}, *steps, ASK], "resume": ["I go on."]}
    up.start()
    up.call("write", chat=ANNA, text=f"[[script {json.dumps(turn)}]]")
    up.said(ANNA, QUESTION)
    until(lambda: all_sent(up))  # else the next gateway does not know that the chat has the question (Law 13)


def all_sent(up: Up) -> bool:
    return all(part["state"] == "sent" for part in json.loads(up.semel("outbox", "list", "--json")))


def agent_of(up: Up) -> int:
    """The pid of the agent's process."""
    with closing(sqlite3.connect(f"file:{up.home}/data/ledger.db?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT pid FROM spawn WHERE ended IS NULL ORDER BY id DESC").fetchone()[0])


def bot_texts(up: Up) -> list[str]:
    """First lines of what the bot sent to Ada, in her chat's order."""
    bot = int(up.call("shown", chat=ANNA)[-1]["from"])
    shown = [message for message in up.call("shown", chat=ANNA) if message["from"] == bot]
    return [message["text"].partition("\n")[0] for message in shown]


def rest(up: Up) -> None:
    """Until nothing runs and nothing is on its way."""

    def quiet() -> bool:
        sessions = json.loads(up.semel("sessions", "--json"))
        parts = json.loads(up.semel("outbox", "list", "--json"))
        idle = all(session["state"] == "idle" for session in sessions)
        return idle and all(part["state"] in ("sent", "held", "rejected", "dropped") for part in parts)

    until(quiet)


@pytest.mark.parametrize("tool", [False, True], ids=["no tool", "after a tool"])
@pytest.mark.parametrize("killed", ["gateway", "agent"])
def test_an_open_request_is_withdrawn_by_a_death_and_its_turn_goes_on(up: Up, killed: str, tool: bool) -> None:
    up.call("person", id=ANNA, name="Ada L")
    ask_for_permission(up, *([{"tool": "look"}] if tool else []))
    if killed == "gateway":
        up.kill()
        up.call("write", chat=ANNA, text="/approve")  # heard by the next gateway: the request is gone by then
        up.start()
    else:
        os.kill(agent_of(up), signal.SIGKILL)
        up.said(ANNA, "Withdrawn")
        until(lambda: "buttons" not in up.said(ANNA, QUESTION))
        up.call("write", chat=ANNA, text="/approve")
    until(lambda: any("I go on." in text or text == "Tidy." for text in bot_texts(up)))
    until(lambda: any("gone" in text for text in bot_texts(up)))
    rest(up)
    texts = bot_texts(up)
    assert texts[:3] == ["The plan is ready.", QUESTION, f"Withdrawn: {TITLE}"]
    assert sorted(texts[3:]) == ["I go on.", f"{GONE} No permission request is open here."]
    assert "all laws hold" in up.semel("doctor", "--laws")
