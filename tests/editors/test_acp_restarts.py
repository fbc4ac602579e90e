"""`semel acp` when something ends: the gateway in mid-turn, the editor, the agent; and who starts a gateway."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from gateway_editor import Desk, GatewayEditor, end_gateways, gateways_of, opened_desk, start_together, until
from system_house import DEMO, House, script

from semel.testing import scripted_agent


def test_a_prompt_outlives_a_gateway_that_is_killed_in_its_turn(tmp_path: Path) -> None:
    """The turn is tried again: what the editor has is continued, and the prompt is answered once.

    One editor has a configured agent, the other one the command of a program that only its own PATH has.
    """
    gate = tmp_path / "go on"
    with opened_desk(tmp_path) as desk:
        editors = [desk.editor(), open_editor_with_command(desk, tmp_path / "bin")]
        sessions = [editor.new() for editor in editors]
        for editor in editors:
            editor.prompt("say: before")
        steps = ({"text": "The answer", "chunks": 1}, {"wait": str(gate)}, " is 42.")
        prompts = [editor.begin(script(*steps)) for editor in editors]
        for editor in editors:
            editor.sees("The answer")
        desk.house.kill()
        time.sleep(0.3)
        gate.touch()
        desk.house.up()
        for editor, session, prompt in zip(editors, sessions, prompts, strict=True):
            assert editor.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
            entries = [one for one in desk.house.entries(session) if one["role"] == "agent"]
            said = [one["text"] for one in entries if not one.get("superseded")]
            assert said == ["before", "The answer is 42."]
            assert editor.texts() == said, "the second attempt goes on where the first one was"
            assert editor.prompt("say: after") == "end_turn" and editor.texts()[-1] == "after"
        check_kept_command(desk, sessions[1])


PROGRAM = "my-agent"


def open_editor_with_command(desk: Desk, folder: Path) -> GatewayEditor:
    """An editor that names the scripted agent as a program in this folder, which is on its own PATH only."""
    folder.mkdir()
    (folder / PROGRAM).write_text(f"#!/bin/sh\nexec {shlex.join(scripted_agent.command())}\n")
    (folder / PROGRAM).chmod(0o755)
    desk.house.env["PATH"] = f"{folder}:{os.environ['PATH']}"
    editor = desk.editor("--", PROGRAM, "--fast")
    del desk.house.env["PATH"]
    return editor


def check_kept_command(desk: Desk, session: str) -> None:
    """The gateway that was started again has the command as an agent, and goes on without the editor."""
    name = session.partition(":")[0]
    assert name.startswith(f"{PROGRAM}-")
    assert desk.house.get("/v1/status")["configured"] == ["demo", name], "it is not the default agent"
    (listed,) = [one for one in json.loads(desk.house.cli("agents", "list", "--json").stdout) if one["name"] == name]
    assert listed["state"] == "of an editor" and listed["command"] == [PROGRAM, "--fast"]
    desk.house.say(session, "say: to the phone")
    desk.house.idle(session)
    assert desk.house.texts(session)[-1] == "to the phone"
    (desk.house.home / "bin" / PROGRAM).unlink()
    moved = open_editor_with_command(desk, desk.house.home / "moved")
    assert moved.new().startswith(f"{name}:editor:"), "the same command is the same agent"
    assert moved.prompt("say: from its new folder") == "end_turn"


def test_a_prompt_that_is_sent_while_the_gateway_is_away_is_heard_once_when_it_is_back(tmp_path: Path) -> None:
    """A cancel of it holds; a cancel where nothing ran stops nothing later."""
    gate = tmp_path / "go on"
    with opened_desk(tmp_path) as desk:
        editor = desk.editor("--no-start")
        session = editor.new()
        editor.prompt("say: before")
        leaving = desk.editor("--no-start")
        left_session = leaving.new()
        cancelling = desk.editor("--no-start")
        idle_session, hanging_session = cancelling.new(), cancelling.new()
        hanging = cancelling.begin(script("Begun.", {"hang": True}))
        cancelling.sees("Begun.")
        desk.house.kill()
        prompt = editor.begin("say: after")
        leaving.begin("say: lost")
        code, words = leaving.leave()
        assert code == 1 and f"a message to session {left_session} was not recorded".encode() in words
        editor.until(lambda: "is not recorded yet" in str(editor.messages[-1]), "it is said")
        cancelling.send(method="session/cancel", params={"sessionId": idle_session})
        cancelling.send(method="session/cancel", params={"sessionId": hanging_session})
        cancelling.until(lambda: "may have your message" in str(cancelling.messages[-1]), "why it waits")
        cancelling.session = session
        with cancelling.sent_at_once():
            discarded = cancelling.begin("say: discarded")
            cancelling.send(method="session/cancel", params={"sessionId": session})
        assert cancelling.answer_to(discarded)["result"] == {"stopReason": "cancelled"}, "no gateway has it"
        assert hanging not in cancelling.answers
        desk.house.up()
        desk.house.say(idle_session, script("The phone's.", {"wait": str(gate)}, " Over."))
        assert cancelling.answer_to(hanging)["result"] == {"stopReason": "cancelled"}
        assert editor.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        before, _, after = editor.texts()
        assert desk.house.texts(session) == [before, after] == ["before", "after"]
        assert len(desk.house.texts(session, "user")) == 2
        gate.touch()
        desk.house.idle(idle_session)
        assert desk.house.texts(idle_session) == ["The phone's. Over."]


def test_the_turn_goes_on_without_the_editor_that_began_it(tmp_path: Path) -> None:
    """An editor that is killed, one that closes its end, and one that is terminated."""
    gate = tmp_path / "go on"
    with opened_desk(tmp_path) as desk:
        editor = desk.editor()
        session = editor.new()
        editor.begin(script("Begun, ", {"wait": str(gate)}, "and ended."))
        editor.until(lambda: editor.texts(), "its begin")
        editor.kill()
        for end in (GatewayEditor.end, terminate):
            other = desk.editor()
            other.load(session)
            other.until(lambda other=other: other.texts() == ["Begun, "], "what was said so far")
            started = time.monotonic()
            end(other)
            assert time.monotonic() - started < 10
        gate.touch()
        desk.house.idle(session)
        assert desk.house.texts(session) == ["Begun, and ended."]


def terminate(editor: GatewayEditor, then: Callable[[], None] = lambda: None) -> None:
    editor.process.send_signal(signal.SIGTERM)
    then()
    assert editor.process.wait(30) == 0
    editor.kill()


def test_a_gateway_is_started_if_none_runs_and_two_editors_start_one(tmp_path: Path) -> None:
    house = House(tmp_path, f'[gateway]\nlisten = "127.0.0.1:0"\n{DEMO}')
    house.toml.write_text(house.config)
    try:
        with ExitStack() as stack:
            desk = Desk(house, stack)
            refusing = desk.editor("--no-start")
            folder = str(tmp_path)
            answer = refusing.answer_to(refusing.request("session/new", cwd=folder, mcpServers=[]))
            assert "no gateway is running" in answer["error"]["message"]
            gateway = start_together(desk)
            assert gateways_of(house) == [gateway]
            leaving = desk.editor()
            session = leaving.new()
            os.kill(int(gateway.split()[0]), signal.SIGKILL)
            until(lambda: not gateways_of(house), "the gateway has ended")
            leaving.begin("say: heard")
            assert leaving.leave() == (0, b""), "it starts a gateway for a message that none has recorded"
            until(lambda: "heard" in house.cli("show", session).stdout.splitlines()[-1], "the answer")
            assert len(gateways_of(house)) == 1, "it goes on without the editors"
            check_person_has_the_gateway(desk)
    finally:
        end_gateways(house)


def check_person_has_the_gateway(desk: Desk) -> None:
    """A person's `semel up` takes over from an editor's gateway, and no editor starts one between stop and start."""
    house = desk.house
    (of_editor,) = gateways_of(house)
    editor = desk.editor()
    session = editor.new()
    prompt = editor.begin(script("Begun, ", {"text": "and ended.", "chunks": 10, "delay": 0.1}))
    editor.until(lambda: editor.texts(), "its begin")
    house.up()
    until(lambda: of_editor not in gateways_of(house), "it gives way, and its process has ended")
    (of_person,) = gateways_of(house)
    assert of_person.startswith(f"{house.process.pid} ")
    assert editor.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
    house.end()
    prompt = editor.begin("say: after the stop")
    time.sleep(1.0)
    assert not gateways_of(house), "whoever has stopped it is about to start it"
    house.up()
    assert editor.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
    assert len(gateways_of(house)) == 1
    first, *_, last = editor.texts()  # perhaps with a remark that the gateway is away
    assert house.texts(session) == [first, last] == ["Begun, and ended.", "after the stop"]
    assert house.end() == 0


def test_a_gateway_that_cannot_start_says_why_to_the_editor(tmp_path: Path) -> None:
    house = House(tmp_path, "[gateway]\nlisten = 7\n")
    house.toml.write_text(house.config)
    with ExitStack() as stack:
        editor = Desk(house, stack).editor()
        answer = editor.answer_to(editor.request("session/new", cwd=str(tmp_path), mcpServers=[]))
        assert "the gateway did not start" in answer["error"]["message"] and "listen" in answer["error"]["message"]


@pytest.mark.long
def test_open_prompts_are_told_why_the_gateway_did_not_start_and_are_answered_when_one_runs(tmp_path: Path) -> None:
    """Of a prompt that is recorded, and of one that is not, in the 15 seconds after which one is started for them."""
    gate = tmp_path / "go on"
    with opened_desk(tmp_path) as desk:
        editor = desk.editor()
        sessions = editor.new(), editor.new()
        writing = editor.begin(script({"text": "Begun.", "chunks": 1}, {"wait": str(gate)}, " Over."))
        editor.sees("Begun.")
        desk.house.toml.write_text("[gateway]\nlisten = 7\n")
        desk.house.kill()
        editor.session = sessions[0]
        waiting = editor.begin("say: heard")

        def told(session: str) -> list[str]:
            texts = editor.model.sessions[session].texts()
            return [text for text in texts if text.startswith("The gateway did not start: ")]

        for session in sessions:
            (text,) = editor.until(lambda session=session: told(session), "why it did not start")
            assert "listen" in text and "Your message waits: start the gateway with `semel up --" in text
        gate.touch()
        desk.house.up()
        for prompt in (writing, waiting):
            assert editor.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        assert all(len(told(session)) == 1 for session in sessions), "each is told once"


def test_an_agent_that_does_not_start_or_is_not_logged_in_is_an_error_of_the_new_session(tmp_path: Path) -> None:
    login = json.dumps([sys.executable, str(Path(__file__).parents[1] / "agents/login_agent.py"), "key"])
    with opened_desk(
        tmp_path, f"[agents.out]\ncommand = {login}\n[agents.gone]\ncommand = ['/no/such/agent']\n"
    ) as desk:
        for agent, code, words in (("out", -32000, "semel agents login out"), ("gone", -32603, "command not found")):
            editor = desk.editor("--agent", agent)
            answer = editor.answer_to(editor.request("session/new", cwd=str(tmp_path), mcpServers=[]))
            assert answer["error"]["code"] == code and words in answer["error"]["message"]


def test_an_editor_that_does_not_read_delays_nobody_and_has_everything_later(tmp_path: Path) -> None:
    with opened_desk(tmp_path) as desk:
        editor = desk.editor()
        session = editor.new()
        editor.process.send_signal(signal.SIGSTOP)
        desk.house.say(session, script({"text": "wörd " * 2000, "chunks": 200}))
        desk.house.idle(session)
        editor.process.send_signal(signal.SIGCONT)
        editor.sees("wörd " * 2000)
        editor.end()


def test_a_cancel_and_an_answer_arrive_though_the_editor_closes_its_end_at_once(tmp_path: Path) -> None:
    """So does a prompt, though a signal ends `semel acp` before the gateway has answered."""
    with opened_desk(tmp_path) as desk:
        editor = desk.editor()
        session = editor.new()
        gateway = int(gateways_of(desk.house)[0].split()[0])
        os.kill(gateway, signal.SIGSTOP)
        editor.begin("say: recorded")
        editor.answer_to(editor.request("authenticate", methodId="none"))  # the prompt was read before
        terminate(editor, lambda: os.kill(gateway, signal.SIGCONT))
        until(lambda: desk.house.texts(session, "agent") == ["recorded"], "the prompt is answered")

        editor = desk.editor()
        session = editor.new()
        editor.begin(script("Begun.", {"hang": True}))
        editor.sees("Begun.")
        editor.send(method="session/cancel", params={"sessionId": session})
        assert editor.leave() == (0, b"")
        until(lambda: desk.house.entries(session)[0].get("ended"), "the turn has ended")
        assert desk.house.entries(session)[0]["ended"]["state"] == "cancelled"

        editor = desk.editor()
        session = editor.new()
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        editor.begin(script({"permission": "rm", "options": options, "allowed": ["gone"], "denied": ["kept"]}))
        (request,) = editor.until(lambda: editor.asked, "the question")
        editor.choose(request, "yes")
        assert editor.leave() == (0, b"")
        until(lambda: desk.house.texts(session, "agent") == ["gone"], "the answer counts")


@pytest.mark.long
def test_a_cancel_that_finds_no_gateway_is_told_on_stderr_when_the_editor_closes_its_end(tmp_path: Path) -> None:
    with opened_desk(tmp_path) as desk:
        editor = desk.editor("--no-start")
        session = editor.new()
        editor.begin(script("Begun.", {"hang": True}))
        editor.sees("Begun.")
        desk.house.kill()
        editor.send(method="session/cancel", params={"sessionId": session})
        code, said = editor.leave()
        assert code == 1 and f"a cancel in session {session} has not reached the gateway".encode() in said
        desk.house.up()
