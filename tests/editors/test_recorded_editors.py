"""What real editors sent, sent again to `semel acp` through a gateway: with their ids, in their order.

tests/data/editors/*.jsonl: the side of the editor in recordings of agent-shell 0.74.3, CodeCompanion 19.22.0, acpx
0.19.1 and Toad 0.6.20. `answered`: the requests that had been answered before the editor sent the line. `to`:
what the line answers. A prompt that a permission or a cancel follows becomes a script that asks for one, or waits.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from gateway_editor import Desk, GatewayEditor, House
from system_house import script

Json = dict[str, Any]
RECORDINGS = sorted((Path(__file__).parents[1] / "data/editors").glob("*.jsonl"))
ASK = "session/request_permission"


def connections(path: Path) -> list[list[Json]]:
    """The lines of a recording, split where the editor started its agent anew."""
    parts: list[list[Json]] = []
    for line in map(json.loads, path.read_text().splitlines()):
        if line["msg"].get("method") == "initialize":
            parts.append([])
        parts[-1].append(line)
    return parts


class RecordingPlayer:
    """Sends an editor's lines. `sessions`: the session that stands for each of the recording."""

    def __init__(self, desk: Desk, lines: list[Json], sessions: dict[str, str]) -> None:
        self.desk = desk
        self.lines = lines
        self.sessions = sessions
        self.said: list[str] = []
        info = lines[0]["msg"]["params"]
        self.editor = desk.editor(client=info["clientInfo"]["name"], introduction=lines[0]["msg"])

    def play(self) -> GatewayEditor:
        for index, line in enumerate(self.lines[1:], 1):
            ends_turn = line.get("to") == ASK or line["msg"].get("method") == "session/cancel"
            for id in [] if ends_turn else line.get("answered", ()):
                if json.dumps(id) in self.editor.methods:
                    self.editor.answer_to(json.dumps(id))
            self._send(index, line)
        for id in self.editor.methods:
            answer = self.editor.answer_to(id)
            assert "result" in answer and answer["result"] is not None, (self.editor.methods[id], answer)
        return self.editor

    def _send(self, index: int, line: Json) -> None:
        message = json.loads(json.dumps(line["msg"]))
        params = message.get("params", {})
        if line.get("to") == ASK:
            asked = self.editor.until(lambda: self.editor.asked[len(self.said) :], "a request for permission")[0]
            self.said.append(asked["id"])
            message["id"] = asked["id"]
        if "cwd" in params:
            params["cwd"] = str(self.desk.house.home)
        if "sessionId" in params:
            params["sessionId"] = self.editor.session = self._find_session(params["sessionId"])
        if message.get("method") == "session/prompt":
            params["prompt"][-1]["text"] = self._find_text(index, params["prompt"][-1].get("text", ""))
        if message.get("method") == "session/cancel":
            self.editor.until(lambda: any("Begun." in text for text in self.editor.texts()), "the turn has begun")
        self.editor.send_as_it_is(message)
        if message.get("method") == "session/new":
            result = self.editor.answer_to(json.dumps(message["id"]))["result"]
            self.sessions[self._recorded_session(index)] = result["sessionId"]

    def _recorded_session(self, index: int) -> str:
        names = (line["msg"].get("params", {}).get("sessionId") for line in self.lines[index:])
        return next((name for name in names if name), "unused")

    def _find_session(self, recorded: str) -> str:
        if recorded not in self.sessions:  # the recording loads a session that was there before
            self.sessions[recorded] = f"demo:old:{recorded}"
            self.desk.house.say(self.sessions[recorded], "say: long ago")
            self.desk.house.idle(self.sessions[recorded])
        return self.sessions[recorded]

    def _find_text(self, index: int, text: str) -> str:
        following = []
        for line in self.lines[index + 1 :]:
            if line["msg"].get("method") == "session/prompt":
                break
            following.append(line)
        if any(line["msg"].get("method") == "session/cancel" for line in following):
            return script("Begun.", {"hang": True})
        answers = [line["msg"]["result"]["outcome"] for line in following if line.get("to") == ASK]
        if not answers:
            return text
        chosen = answers[0].get("optionId", "yes")
        options = [
            {"optionId": id, "name": id, "kind": kind}
            for id, kind in ((chosen, "allow_once"), ("other", "reject_once"))
        ]
        return script({"permission": "rm", "options": options, "allowed": ["gone"], "denied": ["kept"]}, "Done.")


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recorded_editor_gets_every_answer_and_shows_what_was_said(house: House, path: Path) -> None:
    sessions: dict[str, str] = {}
    for lines in connections(path):
        with ExitStack() as stack:
            editor = RecordingPlayer(Desk(house, stack), lines, sessions).play()
            prompts = [line for line in lines if line["msg"].get("method") == "session/prompt"]
            if prompts:
                said = [one for one in house.entries(editor.session) if one["role"] == "agent"]
                shown = "".join(text.strip("\n") for text in editor.texts())
                assert all(one["text"] in shown for one in said[-len(prompts) :])
                assert shown.count(said[-1]["text"]) == 1 or shown.endswith(said[-1]["text"])
