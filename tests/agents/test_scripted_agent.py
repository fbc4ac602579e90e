"""The scripted agent that semel.testing offers: a real process over the real driver, with a real MCP server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from agents_house import Heard, House, hear, measure_cpu_seconds, script, turn, until

from semel.agents.acp import AcpConversation
from semel.gateway.ports import Answered, Asked, Died
from semel.testing.scripted_agent import command, prompt, read_prompts


async def with_tools(house: House, *arguments: str, memory: str | None = None, **more: Any) -> AcpConversation:
    return await house.scripted(*arguments, memory=memory, tools=house.tools, **more)


async def test_a_test_can_say_what_the_agent_does_and_count_what_it_was_given(house: House) -> None:
    log = house.tmp / "log"
    line = command(state=house.state, log=log)
    said = prompt(attempts=[["first", {"die": 9}], ["second"]], resume=["resumed"], name="once/more")
    assert read_prompts(log) == []
    assert (await turn(await house.open(house.agent(line)), said)).text() == "first"
    talk = await house.open(house.agent(line))
    assert (await turn(talk, said)).text() == "second"
    assert (await turn(talk, "[semel: your turn goes on]\n[/semel]")).text() == "resumed"
    given = read_prompts(log)
    assert [one.text == said for one in given] == [True, True, False]
    assert given[0].heard < given[1].heard and given[0].session != talk.memory == given[1].session


async def test_an_instant_agent_answers_at_once(house: House) -> None:
    talk = await house.open(house.agent(command(state=house.state, instant=True)))
    assert (await turn(talk, "x")).text().startswith("pong ")


async def test_a_tool_that_refuses_shows_as_failed(house: House) -> None:
    talk = await with_tools(house)
    assert (await turn(talk, script({"call": "send_message", "arguments": {"text": "bad"}}))).merge_call()[
        "status"
    ] == "failed"
    assert (await turn(talk, script({"call": "no_such"}))).merge_call()["status"] == "failed"


async def test_an_agent_that_dies_in_mid_sentence_does_not_remember_the_turn(house: House) -> None:
    talk = await house.scripted()
    await turn(talk, script("kept"))
    heard = await turn(talk, script("I feel a little", {"die": 9}))
    assert heard.text() == "I feel a little"
    assert isinstance(heard.end, Died)
    again = await house.scripted(memory=talk.memory)
    assert again.restored == "loaded"
    assert Heard(list(again._signals)).text() == "kept"


async def test_attempts_take_their_steps_in_turn_across_restarts(house: House) -> None:
    prompt = script(attempts=[["one", {"die": 9}], ["two"]])
    assert (await turn(await house.scripted(), prompt)).text() == "one"
    second = await house.scripted()
    assert (await turn(second, prompt)).text() == "two"
    assert (await turn(second, prompt)).text() == "two"


async def test_resume_steps_answer_the_prompt_that_brings_no_script(house: House) -> None:
    prompt = script("half", {"save": True}, {"die": 9}, resume=["the rest"])
    first = await house.scripted()
    await turn(first, prompt)
    second = await house.scripted(memory=first.memory)
    assert Heard(list(second._signals)).text() == "half"
    retold = f"[semel: your turn goes on]\n- it was asked: {prompt!r}\n[/semel]"
    assert (await turn(second, retold)).text().endswith("the rest")
    assert "the rest" not in (await turn(second, "hello")).text()


async def test_a_script_file_answers_the_prompts_it_fits(house: House) -> None:
    path = house.tmp / "script.json"
    path.write_text(
        json.dumps([{"when": "alpha", "steps": ["A"]}, {"when": "beta", "steps": ["B"], "stop": "refusal"}])
    )
    talk = await house.scripted("--script", str(path), "--log", str(house.tmp / "log"))
    assert (await turn(talk, "say alpha")).text() == "A"
    assert (await turn(talk, "say beta")).end == Answered("refusal")
    assert "gamma" in (await turn(talk, "gamma")).text()
    assert (await turn(talk, prompt("alpha of the prompt"))).text() == "alpha of the prompt"
    log = [json.loads(line)["text"] for line in (house.tmp / "log").read_text().splitlines()]
    assert log[:3] == ["say alpha", "say beta", "gamma"]


async def test_a_script_that_cannot_be_read_fails_its_prompt_with_the_reason(house: House) -> None:
    talk = await house.scripted()
    for text, reason in (
        ("[[script {oops]]", "cannot be read"),
        (script({"fly": 1}), "knows no step 'fly'"),
    ):
        end = (await turn(talk, text)).end
        assert isinstance(end, Answered) and end.stop == "error" and reason in str(end.error)
    assert (await turn(talk, script("well"))).text() == "well"


async def test_a_dead_mcp_server_is_restarted_and_asked_again_only_where_the_script_says(
    house: House,
) -> None:
    talk = await with_tools(house)
    heard = await turn(talk, script({"call": "send_message", "arguments": {"text": "crash: x"}, "reissue": True}))
    first, second = house.calls()
    assert first["arguments"] == second["arguments"] and first["pid"] != second["pid"]
    assert heard.merge_call()["status"] == "completed"
    (house.tmp / "calls").unlink()
    heard = await turn(talk, script({"kill_mcp": True}, {"call": "send_message", "arguments": {"text": "crash: y"}}))
    assert len(house.calls()) == 1
    assert heard.merge_call()["status"] == "failed"


async def test_cancelling_during_a_tool_call_tells_the_mcp_server(house: House) -> None:
    talk = await with_tools(house)
    call = {"call": "send_message", "arguments": {"text": "hang: x"}}
    await talk.prompt([{"type": "text", "text": script(call)}])
    await until(lambda: house.calls(), "the call has begun")
    await talk.cancel()
    heard = await hear(talk)
    assert heard.end == Answered("cancelled")
    assert heard.merge_call()["status"] == "failed"
    await until((house.tmp / "calls.cancelled").exists, "the server was told")


async def test_calls_made_together_all_happen(house: House) -> None:
    talk = await with_tools(house)
    a, b = ({"call": "send_message", "arguments": {"text": text}} for text in ("A", "B"))
    heard = await turn(talk, script({"together": [a, [b]]}, "both"))
    assert {one["arguments"]["text"] for one in house.calls()} == {"A", "B"}
    assert heard.text() == "both"


async def test_a_deaf_agent_goes_on_after_a_cancel(house: House) -> None:
    talk = await house.scripted()
    go = house.tmp / "go"
    prompt = script({"deaf": True}, {"permission": "x", "allowed": [], "denied": []}, {"wait": str(go)}, "still here")
    await talk.prompt([{"type": "text", "text": prompt}])
    await hear(talk, lambda s: isinstance(s, Asked))
    await talk.cancel()
    go.touch()
    heard = await hear(talk)
    assert heard.text() == "still here" and heard.end == Answered("end_turn")


async def test_instant_answers_with_one_chunk_and_when_it_had_the_prompt(house: House) -> None:
    talk = await house.scripted("--instant")
    before = time.monotonic_ns()
    heard = await turn(talk, "ping")
    word, at = heard.text().split()
    assert word == "pong" and before < int(at) < time.monotonic_ns()
    assert len(heard.signals) == 2


def test_wrong_usage_is_told() -> None:
    done = subprocess.run([*command(), "--fast"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")


def test_it_starts_quickly_and_without_the_rest_of_semel() -> None:
    assert measure_cpu_seconds(command()) < 0.15
    code = "import sys, semel.testing.scripted_agent.__main__; print([m for m in sys.modules if 'gateway' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
