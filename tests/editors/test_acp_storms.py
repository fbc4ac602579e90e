"""`semel acp` over and over: kills at any moment, races for permissions, and people who talk at the same time.

STORM_SEED repeats a run. Each test is run for four seeds, side by side: 200 kills, 1,000 races, 1,000 own prompts, 500
messages of the phone and 52 starts in all.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from gateway_editor import Desk, GatewayEditor, Json, end_gateways, opened_desk, start_together
from system_house import DEMO, House, left, script, until

from semel.testing import scripted_agent

pytestmark = pytest.mark.storm
SEEDS = range(int(os.environ.get("STORM_SEED", "0")), int(os.environ.get("STORM_SEED", "0")) + 4)
QUICK = bool(os.environ.get("STORM_QUICK"))  # `python -m proof storms --quick`
KILLS, RACES, PROMPTS, PHONE, STARTS = (10, 50, 50, 25, 2) if QUICK else (50, 250, 250, 125, 13)  # of each seed
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
COMMAND = ("--", "env", "UNUSED=1", *scripted_agent.command())
TERMINALS = {"_meta": {"terminal_output": True}}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with opened_desk(tmp_path) as desk:
        yield desk


def visible(desk: Desk, session: str) -> list[str]:
    """What the agent has said, without messages that were replaced."""
    rows = desk.house.entries(session)
    return [one["text"] for one in rows if one["role"] == "agent" and not one.get("superseded")]


def kill_agent(desk: Desk) -> None:
    for process in left(desk.house):
        if "scripted_agent" in process and " acp " not in process:  # an editor may name the agent's command
            with contextlib.suppress(ProcessLookupError):  # the gateway was faster
                os.kill(int(process.split()[0]), signal.SIGKILL)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_a_prompt_is_answered_once_and_each_text_is_shown_once(desk: Desk, seed: int) -> None:
    """The gateway, the agent, or `semel acp` itself: then the editor loads the session, and the turn is there.

    With every other seed, the editor names the command of an agent that is not configured, and has terminals.
    """
    chance = random.Random(seed)
    words, capabilities = (COMMAND, TERMINALS) if seed % 2 else ((), {})
    editor = desk.editor(*words, capabilities=capabilities)
    session = editor.new()
    outlived = []  # prompts whose editor was not killed, perhaps before it could pass them on
    for number in range(KILLS):
        steps = [{"text": f"Text {number} of many words. ", "chunks": 6, "delay": 0.02}]
        steps += [{"tool": "ls", "output": ["a\n", "b\n"], "delay": 0.02}] if chance.random() < 0.3 else []
        prompt = editor.begin(script(*steps, f"End {number}."))
        time.sleep(chance.random() * 0.4)
        match chance.choice(("gateway", "agent", "editor")):
            case "gateway":
                desk.house.kill()
                desk.house.up()
            case "agent":
                kill_agent(desk)
            case _:
                editor.kill()
                editor = desk.editor(*words, capabilities=capabilities)
                desk.house.idle(session)
                editor.load(session)
                continue
        outlived.append(number)
        assert {"result", "error"} & editor.answer_to(prompt).keys()
    desk.house.idle(session)
    said = visible(desk, session)
    until(lambda: all(text in editor.texts() for text in said), "all that was said is shown", 10)
    fresh = desk.editor()
    fresh.load(session)
    assert [text for text in fresh.texts() if text in said] == said, "in order, and each once"
    heard = [one["text"] for one in desk.house.entries(session) if one["role"] == "user"]
    assert len(heard) == len(set(heard)) <= KILLS, "each prompt was heard once"
    assert all(any(f"Text {number} " in text for text in heard) for number in outlived), "and none was lost"


def race(desk: Desk, editor: GatewayEditor, chance: random.Random) -> None:
    """One request for permission, which editor and phone answer at about the same time."""
    count = len(editor.asked)
    prompt = editor.begin(script({"permission": "rm", "options": OPTIONS, "allowed": ["gone"], "denied": ["kept"]}))
    request = editor.until(lambda: editor.asked[count:], "the question")[0]
    items = desk.house.get(f"/v1/sessions/{editor.session}/history")["items"]
    (number,) = [item["id"] for item in items if item["kind"] == "permission" and item["state"] == "open"]
    body: Json = {"item": number, "option": "no", "by": "phone"}
    path = f"/v1/sessions/{editor.session}/answers"
    if chance.random() < 0.5:
        editor.choose(request, "yes")
        time.sleep(chance.random() * 0.02)
        outcome = desk.house.post(path, body).json()["outcome"]
    else:
        outcome = desk.house.post(path, body).json()["outcome"]
        time.sleep(chance.random() * 0.02)
        editor.choose(request, "yes")
    editor.answer_to(prompt)
    assert said_in(editor)[-1] == ("kept" if outcome == "answered" else "gone"), outcome


def said_in(editor: GatewayEditor) -> list[str]:
    """What the agent said. The editor may also be told that its answer came too late."""
    return [text for text in editor.texts() if "came too late" not in text]


@pytest.mark.parametrize("seed", SEEDS)
def test_of_two_answers_to_a_permission_one_counts_and_none_hangs(desk: Desk, seed: int) -> None:
    chance = random.Random(seed)
    editor = desk.editor()
    session = editor.new()
    for _ in range(RACES):
        race(desk, editor, chance)
    assert len(visible(desk, session)) == RACES == len(said_in(editor))


@pytest.mark.parametrize(("seed", "client"), list(zip(SEEDS, ("zed", "toad", "acpx", "agent-shell"), strict=True)))
def test_own_prompts_are_never_echoed_and_others_always_shown(desk: Desk, seed: int, client: str) -> None:
    chance = random.Random(seed)
    editor = desk.editor(client=client)
    session = editor.new()
    others: list[str] = []
    for number in range(PROMPTS):
        if number % 2 == 0 and len(others) < PHONE:
            others.append(f"say: phone {number}")
            desk.house.say(session, others[-1])
            time.sleep(chance.random() * 0.01)
        pushes = [m for m in editor.messages if m.get("method") == "session/push" and "told" not in m]
        for push in pushes:
            push["told"] = True
            editor.send(id=push["id"], result={})
        assert editor.prompt(f"say: own {number}") == "end_turn"
    editor.prompt("say: last")
    shown = "\n".join(text for role in ("user", "agent") for text in editor.texts(role))
    assert "say: own" not in shown
    for text in others:
        assert shown.count(text) == len([one for one in others if text in one]), text
        assert f"{text.removeprefix('say: ')}" in shown


@pytest.mark.parametrize("seed", SEEDS)
def test_two_editors_that_start_together_start_one_gateway(tmp_path: Path, seed: int) -> None:
    for number in range(STARTS):
        home = tmp_path / str(number)
        home.mkdir()
        house = House(home, f'[gateway]\nlisten = "127.0.0.1:0"\n{DEMO}')
        house.toml.write_text(house.config)
        try:
            with ExitStack() as stack:
                start_together(Desk(house, stack))
        finally:
            end_gateways(house)
