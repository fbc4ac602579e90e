"""Law 13 across `kill -9`: an answer counts for the request that its person had read, wherever the gateway dies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from dying_gateway import READ, STEPS
from telegram_house import ANNA
from telegram_up import PATIENCE, Up, until

from semel.testing.scripted_agent import command

pytestmark = pytest.mark.storm

Json = dict[str, Any]
KEY = f"demo:tg:{ANNA}"
GATEWAY = str(Path(__file__).with_name("dying_gateway.py"))
FIRST = {"permission": "ls", "allowed": ["listed"], "denied": ["not listed"]}
SECOND = {"permission": "rm -r /", "allowed": ["gone"], "denied": ["kept"]}


class House(Up):
    """A gateway that may die at a step, and what its ledger tells."""

    def start_doomed(self, step: str) -> None:
        """It hears; at that step it will be gone."""
        gateway_command = [sys.executable, GATEWAY, step, "up", "--listen", "127.0.0.1:0", "--config", "semel.toml"]
        with (self.home / "log").open("ab") as log:
            self.process = self.stack.enter_context(
                subprocess.Popen(gateway_command, cwd=self.home, env=self.env, stdout=log, stderr=log)
            )
        self.stack.callback(self.process.kill)
        until(lambda: len(self.call("asked", method="getUpdates")) >= 2 or self.process.poll() is not None)

    def died(self) -> None:
        assert self.process.wait(PATIENCE) == -9, (self.home / "log").read_text()

    def get(self, path: str) -> Json:
        url = json.loads((self.home / "data" / "gateway.json").read_text())["url"]
        answer = httpx2.get(f"{url}/v1/sessions/{KEY}/{path}", timeout=PATIENCE)
        return dict(answer.json()) if answer.status_code == 200 else {"entries": [], "items": []}

    def requests(self) -> dict[str, str]:
        """What becomes of each request, by its title."""
        items = self.get("history?before=1000000&limit=100")["items"]
        return {one["title"]: one["state"] for one in items if one["kind"] == "permission"}

    def answers(self) -> dict[int, str]:
        """What the gateway answered to each command so far, sent or not, by the entry of the command."""
        entries = self.get("entries")["entries"]
        return {one["of"]: one["text"] for one in entries if one.get("kind") == "command" and one["role"] == "notice"}

    def tap(self) -> str:
        """Anna answers, and the gateway has decided what that means."""
        before = len(self.answers())
        self.call("write", chat=ANNA, text="/approve")
        until(lambda: len(self.answers()) > before)
        return max(self.answers().items())[1]

    def ask(self) -> None:
        """Anna asks for something. A tool ran for it, and that is recorded, before the agent wants to do more."""
        go = self.home / "go"
        steps = [{"tool": "look", "output": ["."]}, {"wait": str(go)}, FIRST]
        self.call("write", chat=ANNA, text=f"[[script {json.dumps({'steps': steps, 'resume': [SECOND]})}]]")
        until(lambda: any(one["kind"] == "tool" for one in self.get("history?before=1000000&limit=100")["items"]))
        go.touch()

    def has_read(self, title: str) -> bool:
        """The gateway knows that the notice of this request is in the chat."""
        asks = [one for one in self.get("entries")["entries"] if f"permission: {title}" in one["text"]]
        return bool(asks) and all(way["state"] == "sent" for way in asks[-1]["delivery"])


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with ExitStack() as stack:
        double_command = [sys.executable, "-m", "semel.testing.telegram", "--port", "0"]
        double = stack.enter_context(subprocess.Popen(double_command, stdout=subprocess.PIPE, text=True))
        stack.callback(double.kill)
        assert double.stdout is not None
        house = House(tmp_path, double.stdout.readline().split()[0], stack)
        with (tmp_path / "semel.toml").open("a") as config:
            config.write(f'[agents.demo]\nkind = "acp"\ncommand = {json.dumps(command(state=tmp_path / "agent"))}\n')
        yield house


@pytest.mark.parametrize("step", STEPS)
def test_after_a_kill_no_tap_allows_what_the_chat_had_not_shown(house: House, step: str) -> None:
    house.call("person", id=ANNA, name="Anna")
    house.start_doomed(step)
    house.ask()
    if step in READ:
        house.said(ANNA, "permission: ls")
    if step in READ[2:]:
        house.call("write", chat=ANNA, text="/approve")
    house.died()
    taps = 1 if step in READ[2:] else 0
    house.call("fail", method="sendMessage", how="429", times=None)  # what is asked next does not reach her
    house.call("write", chat=ANNA, text="/approve")  # a second tap, while nobody listens
    house.start()
    until(lambda: house.requests().get("rm -r /") == "open")
    until(lambda: len(house.answers()) == taps + 1)
    assert house.requests()["rm -r /"] == "open", "no tap of before allows it"
    assert not house.tap().startswith("Allow"), "nor does one that is written while it waits in line"
    assert house.requests()["rm -r /"] == "open"
    house.call("clear_faults")
    house.said(ANNA, "permission: rm -r /")
    until(lambda: house.has_read("rm -r /"))
    assert house.tap().startswith("Allow once: rm -r /")
    house.said(ANNA, "gone")
    states = house.requests()
    assert states.get("ls", "cancelled") in ("cancelled", "answered") and states["rm -r /"] == "answered"
    if step != "agent told":  # it may say what it was allowed to do, as it was: to `ls`
        assert "listed" not in " ".join(house.call("texts", chat=ANNA)), "its answer never reached the agent"
    assert "all laws hold" in house.semel("doctor", "--laws")
